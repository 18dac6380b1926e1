"""Aggregate the right rows that match each left row, with aggregates as SQL text."""
