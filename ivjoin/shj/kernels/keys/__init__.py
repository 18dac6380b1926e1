"""Kernels of key tables."""
