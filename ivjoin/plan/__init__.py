"""Check the arguments of a join, and compile them to a plan."""
