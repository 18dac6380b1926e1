"""Decide which task joins which rows: buckets, cells and plans."""
