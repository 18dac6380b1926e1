"""Inputs: what they are, their columns, and their batches as pieces."""
