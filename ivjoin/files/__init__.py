"""Files: formats, atomic replacement, and row groups that a predicate cannot touch."""
