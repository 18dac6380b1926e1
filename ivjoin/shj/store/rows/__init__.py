"""The rows of a side: in memory, in files, in order."""
