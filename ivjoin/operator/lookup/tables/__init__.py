"""Look up the left rows of two whole tables, slice by slice."""
