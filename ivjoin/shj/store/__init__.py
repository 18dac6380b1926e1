"""The stored state of one side of a join: columns, keys, lists, sorted runs."""
