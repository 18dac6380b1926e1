"""Resolve which matches a left row picks."""
