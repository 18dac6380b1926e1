"""Aggregates over the partners of each left row, found over slices of sorted rows and without making pairs."""
