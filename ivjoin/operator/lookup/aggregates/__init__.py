"""Compute aggregates over ranges of sorted right rows. ``LookupEngine._final`` decides when a left row is final."""
