"""Functions of text, binary, times, lists and structs."""
