"""Joins in which each left row takes one partner: the last, the first, or the nearest of those that match."""
