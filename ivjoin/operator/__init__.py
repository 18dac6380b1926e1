"""The push operator: its state, its steps, and what moves between them."""
