"""The memory limit: refuse, spill or shed."""
