"""Store the state of one side of a join: columns, keys, lists and sorted runs."""
