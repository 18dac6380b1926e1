"""Push batches into a join: its state and its steps."""
