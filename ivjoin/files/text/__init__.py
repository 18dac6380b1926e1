"""Read CSV and JSON lines as record batches: the first rows decide the types, then rows are read block by block."""
