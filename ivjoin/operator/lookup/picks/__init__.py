"""Picks of one right row for each left row: the best row, the time when it is final, and rows that cannot be best."""
