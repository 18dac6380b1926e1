"""One answer for each left row: aggregates of its matches, or the best of them, from right rows in sorted runs."""
