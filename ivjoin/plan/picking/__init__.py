"""Which right row a left row takes."""
