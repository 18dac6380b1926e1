"""Read conditions from SQL text, SymPy relations and Python expressions."""
