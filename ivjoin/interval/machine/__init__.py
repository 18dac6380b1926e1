"""Pairs of bounds of machine ints, floats, decimals and times, and sets of truth values, as a join computes them."""
