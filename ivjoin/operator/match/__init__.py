"""Find pairs, store rows, and build output batches."""
