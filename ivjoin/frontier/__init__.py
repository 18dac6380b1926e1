"""Declared orders and bounds, and the values that future rows can have."""
