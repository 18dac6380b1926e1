"""Join types: the matched pairs, rows at their first match, and decided rows that each type emits."""
