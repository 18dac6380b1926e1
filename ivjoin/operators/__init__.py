"""The operators of conditions: one record for each, one file for each family (``ivjoin.operators.record``).

The reader and writer of SQL, the SymPy reader, Python's operators, the evaluator and the propagator look operators up
in ``ivjoin.operators.table``.
"""
