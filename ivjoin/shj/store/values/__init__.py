"""Columns of stored values."""
