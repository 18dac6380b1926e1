"""What each operator of a condition is: one record an operator, one file a family (``ivjoin.operators.record``).

The reader and writer of SQL, the SymPy reader, Python's operators, the evaluator and the propagator look operators up
in ``ivjoin.operators.table``.
"""
