"""Picks of one right row for each left row: which is best, when it is final, and which rows are useless."""
