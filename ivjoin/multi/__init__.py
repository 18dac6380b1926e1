"""Joins of two to eight inputs: the arguments, the steps of two inputs each, and bounds across all inputs."""
