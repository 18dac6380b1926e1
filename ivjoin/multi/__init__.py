"""Joins of two to eight inputs: the question, its steps of two inputs each, and bounds across all inputs."""
