"""The aggregates over ranges of sorted right rows."""
