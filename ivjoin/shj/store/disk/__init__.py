"""Manage the memory and files of stored rows."""
