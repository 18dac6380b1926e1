"""Declared orders and bounds, and what they say of rows still to come."""
