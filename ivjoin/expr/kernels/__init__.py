"""Kernels that compute operators exactly over whole columns. The records in ``ivjoin.functions`` use them."""
