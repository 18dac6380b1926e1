"""The explanation of an operator, and the bounds of its output."""
