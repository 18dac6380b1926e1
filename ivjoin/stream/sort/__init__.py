"""Bring inputs without an order into the order of the band."""
