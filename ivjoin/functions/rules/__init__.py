"""Interval rules of functions and operators, forward and backward."""
