"""Intervals of a domain of values, and of Booleans: the public interface to pairs of machine bounds."""
