"""What a plan derives from its condition."""
