"""The state of a streaming query, per bucket or cell."""
