"""The session: its settings, versions, workers and watermarks."""
