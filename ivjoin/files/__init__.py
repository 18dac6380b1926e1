"""Read and write files: formats, atomic replacement, and the row groups that a predicate can match."""
