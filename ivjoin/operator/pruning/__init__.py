"""Bounds of one side that follow from conjuncts of the other, from the residual, and from how far both have come."""
