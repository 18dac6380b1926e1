"""State of a streaming query, per bucket or cell."""
