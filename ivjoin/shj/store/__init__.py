"""What one side of a join holds: columns, keys, links, runs."""
