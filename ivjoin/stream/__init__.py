"""The pull API: read streams of Arrow batches, and return joined batches."""
