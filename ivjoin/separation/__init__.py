"""What a join makes of a condition: keys, band terms, filters of one side, and what is left to decide pair by pair."""
