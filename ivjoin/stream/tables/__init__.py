"""Join tables that are completely in memory, in slices of their rows."""
