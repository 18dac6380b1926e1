"""Kernels that take a batch: its rows, probes, index and eviction."""
