"""Functions of texts, binaries, times, lists and structs."""
