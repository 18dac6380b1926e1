"""Joins of real data: ``ivjoin demo``."""
