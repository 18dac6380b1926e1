"""Intervals of a domain of values and of Booleans: the public face of the machine's pairs."""
