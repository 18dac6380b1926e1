"""Explain an operator, and bound its output."""
