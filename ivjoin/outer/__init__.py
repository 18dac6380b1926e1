"""Join types: which matched pairs, rows at their first match, and decided rows each of them emits."""
