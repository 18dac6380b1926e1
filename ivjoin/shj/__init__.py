"""The pruning symmetric hash join: side stores, key table, compiled kernels."""
