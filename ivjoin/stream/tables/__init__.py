"""Joins of tables that are in memory as a whole, in slices of their rows."""
