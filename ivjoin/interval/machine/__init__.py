"""What a join computes with: pairs of bounds of ints, floats, decimals and times as the machine has them; truths."""
