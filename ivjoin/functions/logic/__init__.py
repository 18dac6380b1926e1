"""Comparisons, choices, casts and logic."""
