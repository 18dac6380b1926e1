"""The pull side: streams of Arrow batches in, joined batches out."""
