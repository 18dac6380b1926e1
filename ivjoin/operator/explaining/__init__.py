"""What an operator says of itself: its plan and the bounds of its output."""
