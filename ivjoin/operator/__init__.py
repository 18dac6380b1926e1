"""The push operator: its state and its steps."""
