"""SQL functions and operators. The record of each one defines how it is built, evaluated, bounded and written."""
