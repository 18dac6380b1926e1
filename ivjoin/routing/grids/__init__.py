"""Grids of tasks: sizes, shares and places."""
