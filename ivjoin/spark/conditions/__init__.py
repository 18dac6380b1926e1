"""Conditions given as Columns or SQL text, in the dialect of the session."""
