"""Exact values of operators over whole columns, for the records of ``ivjoin.functions``."""
