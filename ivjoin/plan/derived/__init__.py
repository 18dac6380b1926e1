"""Derive bounds, orders, checks and row groups to read from the condition of a plan."""
