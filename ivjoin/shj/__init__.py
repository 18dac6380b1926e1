"""Implement the pruning symmetric hash join: side stores, key table and compiled kernels."""
