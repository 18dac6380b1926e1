"""Aggregates of the right rows that match each left row, as SQL text."""
