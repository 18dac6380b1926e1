"""Kernels that join a slice of rows as a whole."""
