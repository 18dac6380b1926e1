"""The state of a join of many inputs: its snapshot and its memory."""
