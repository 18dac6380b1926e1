"""Memory and files of stored rows."""
