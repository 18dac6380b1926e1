"""One record for each SQL function and operator: how it is built, evaluated, bounded and written."""
