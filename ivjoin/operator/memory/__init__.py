"""Enforce the memory limit: refuse, spill or shed rows."""
