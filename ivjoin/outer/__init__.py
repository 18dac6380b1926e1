"""Join types: what each says of a matched pair, of a row at its first match, and of a row that is decided."""
