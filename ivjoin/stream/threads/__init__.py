"""Join slices of an ordered axis on several threads."""
