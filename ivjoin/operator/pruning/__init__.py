"""Bounds of one side, from conjuncts of the other side, from the residual, and from the progress of both sides."""
