"""Joins of two to eight inputs: what is asked, which joins of two it is made of, and what reaches across all inputs."""
