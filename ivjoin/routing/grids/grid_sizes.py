"""Find the grid with the fewest copies whose cells are small enough."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

import numpy as np

__all__ = ["FREE", "LEFT", "RIGHT", "TWOFOLD", "Grid", "cell_load", "grid_of"]

# The grids that a join type allows: any; left rows in one cell each; right rows in one cell each; one for each side.
FREE, LEFT, RIGHT, TWOFOLD = "free", "left", "right", "twofold"

Grid = tuple[int, int]


def cell_load(grid: Grid, left: float, right: float, out: float, beta: float, mode: str) -> tuple[float, float]:
    """Return the load of the fullest cell, and all rows received; ``out`` is the output of the owning cells."""
    a, b = grid
    if mode == TWOFOLD:
        mine = left / a + right + beta * out / a
        theirs = left + right / b
        return max(mine, theirs), left + a * right + right + b * left
    return left / a + right / b + beta * out / (a * b), left * b + right * a


@lru_cache(maxsize=8192)
def grid_of(size: float, left: float, right: float, out: float, beta: float, mode: str, most: int) -> Grid:
    """Return the grid of at most ``most`` rows and columns with the fewest copies and cells of at most ``size``.

    If all grids have larger cells, return the one with the least load. It receives at most twice the rows of one cell
    for each cell less.
    """
    if mode in (LEFT, RIGHT):
        split, copied = (left, right) if mode == LEFT else (right, left)
        n = _divided(size - copied, split + beta * out, copied, most)
        return (n, 1) if mode == LEFT else (1, n)
    if mode == TWOFOLD:
        a = _divided(size - right, left + beta * out, right, most)
        b = _divided(size - left, right, left, most)
        return a, b
    rows = np.arange(1, most + 1, dtype=np.float64)
    free = size - left / rows
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = np.where(free > 0, np.ceil((right + beta * out / rows) / free * (1 - 1e-12)), np.inf)
    columns = np.maximum(columns, 1)
    received = np.where(columns <= most, left * columns + right * rows, np.inf)
    best = int(np.argmin(received))
    if not np.isfinite(received[best]):
        return most, most
    return int(rows[best]), int(columns[best])


def _divided(free: float, split: float, copied: float, most: int) -> int:
    """Return into how many parts to divide ``split``; each part also gets all of ``copied``."""
    if free <= 0.1 * copied:  # the copies outweigh the gain of dividing
        free = max(free, copied) if copied else split
    return max(1, min(most, ceil(split / free * (1 - 1e-12)))) if free > 0 else 1
