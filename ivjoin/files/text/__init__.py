"""CSV and JSON lines as record batches: types settled from the first rows, then read block by block."""
