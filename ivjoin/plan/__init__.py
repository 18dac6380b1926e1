"""The question of a join, and the plan that answers it."""
