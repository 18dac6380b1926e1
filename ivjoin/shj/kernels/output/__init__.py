"""Kernels that build output batches and hold their memory."""
