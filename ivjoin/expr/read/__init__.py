"""How conditions are read: SQL text, SymPy relations and Python's operators."""
