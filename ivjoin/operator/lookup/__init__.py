"""Give each left row one answer from sorted right rows: aggregates of its matches, or the best match."""
