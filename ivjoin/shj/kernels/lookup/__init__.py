"""Kernels that give each left row its matches or the best of them."""
