"""The steps of a join of many inputs: the two inputs of each step, and the conditions that are implied for them."""
