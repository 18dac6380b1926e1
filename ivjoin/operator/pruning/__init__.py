"""Bound one side by conjuncts of the other side, by the residual, and by the progress of both sides."""
