"""Read conditions: SQL text, SymPy relations and Python's operators."""
