"""Decide which task joins which rows, by buckets, cells and plans."""
