"""Exact values of operators over whole columns: what the records of ``ivjoin.operators`` compute with."""
