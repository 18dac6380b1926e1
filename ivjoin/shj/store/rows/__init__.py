"""Store the rows of a side: in memory, in files and in order."""
