"""Split the condition of a join into keys, band terms, one-sided filters and a residual for candidate pairs."""
