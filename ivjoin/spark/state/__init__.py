"""The state of a streaming query, for each bucket or cell."""
