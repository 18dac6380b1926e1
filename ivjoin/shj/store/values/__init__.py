"""Store the values of columns."""
