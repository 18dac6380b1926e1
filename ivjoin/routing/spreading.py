"""Spread one key so that no cell exceeds a load: one cell, slices, a grid, or grids in slices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ivjoin.routing.grids.grid_sizes import FREE, TWOFOLD, Grid, cell_load, grid_of
from ivjoin.routing.rows.cells import Entry
from ivjoin.routing.sampling import Ramp

__all__ = ["HeavyKey", "Spread"]

# Slices with this multiple of a cell's load, each of them a grid, for bands that are wider than a slice.
_COARSER = (1, 2, 4, 8, 16, 32)
_FEW_COPIES = 1.5


@dataclass(frozen=True, slots=True)
class Spread:
    """The cells of one key, with their loads (float64[cells]) and all copies that they receive."""

    entry: Entry
    loads: np.ndarray
    received: float

    @property
    def in_grids(self) -> bool:
        return any(grid != (1, 1) for grid in self.entry.grids)

    @property
    def rank(self) -> tuple[float, float]:
        return float(self.loads.max()), float(self.loads.sum())


class HeavyKey:
    """A key that may have its own cells, by its hash, with its rows and output.

    ``ramp`` has the places at which it can be cut. ``mode`` selects the allowed grids; None forbids them. ``gridded``:
    slices may be grids. ``most``: the greatest number of rows or columns of a grid, and of slices. ``shared``: rows of
    a side are divided into equal shares and not randomly.
    """

    def __init__(
        self, key: int | None, left: float, right: float, out: float, beta: float, ramp: Ramp | None, mode: str | None,
        gridded: bool, most: int, shared: tuple[bool, bool],
    ) -> None:
        self.key = key
        self.rows = left, right
        self.out = out
        self.load = left + right + beta * out
        self._beta = beta
        self._ramp = ramp if ramp is not None and len(ramp.cuts) else None
        self._mode = mode
        self._gridded = gridded and mode in (FREE, "left", "right")
        self._most = most
        self._shared = shared
        self.one = Spread(Entry(key), np.array([self.load]), left + right)

    def spread(self, size: float, slack: float) -> Spread:
        """Return the spread with the fewest copies and no cell above ``size``, or else with the lightest cells."""
        if self.load <= size:
            return self.one
        ways = [self.one]
        if self._mode is not None:
            ways.append(self._grid(size))
        if self._ramp is not None:
            for coarser in _COARSER if self._gridded else (1,):
                if coarser * size >= self.load:
                    break
                way = self._slices(self._ramp, size, coarser, slack)
                if way is not None:
                    ways.append(way)
                    if way.received < _FEW_COPIES * sum(self.rows):
                        break
        fit = [w for w in ways if w.loads.max() <= 1.02 * size]
        if fit:
            return min(fit, key=lambda w: float(w.loads.sum()))
        return min(ways, key=lambda w: w.rank)

    def _grid(self, size: float) -> Spread:
        mode = self._mode
        assert mode is not None
        left, right = self.rows
        a, b = grid_of(size, left, right, self.out, self._beta, mode, self._most)
        heavy, received = cell_load((a, b), left, right, self.out, self._beta, mode)
        if mode == TWOFOLD:
            loads = np.concatenate([
                np.full(a, (left / a + right + self._beta * self.out / a) * (1 + self._chance((a, 1), left, right))),
                np.full(b, left + right / b),
            ])  # fmt: skip
            return Spread(Entry(self.key, (), ((a, 1), (1, b)), True), loads, received)
        heavy *= 1 + self._chance((a, b), left, right)
        return Spread(Entry(self.key, (), ((a, b),)), np.full(a * b, heavy), received)

    def _slices(self, ramp: Ramp, size: float, coarser: int, slack: float) -> Spread | None:
        def grid_in(left: float, right: float, out: float) -> Grid:
            if self._gridded and left + right + self._beta * out > size:
                return grid_of(size, left, right, out, self._beta, str(self._mode), self._most)
            return 1, 1

        return self._in_parts(ramp, ramp.cut(coarser * size, slack, self._most), grid_in)

    def sliced(self, size: float, slack: float, grid: Grid) -> Spread | None:
        """Return slices that are grids of one shape with cells of about ``size``; None if that is not possible."""
        if self._ramp is None:
            return None
        load = size / (1 + self._chance(grid, *self.rows))
        return self._in_parts(self._ramp, self._ramp.cut(load, slack, self._most, grid), lambda *_: grid)

    def _in_parts(
        self, ramp: Ramp, parts: list[tuple[int, int]] | None, grid_in: Callable[[float, float, float], Grid]
    ) -> Spread | None:
        """Return the slices of a ramp, each with the grid for its left rows, right rows and output."""
        if parts is None:
            return None
        grids: list[Grid] = []
        loads: list[np.ndarray] = []
        received = 0.0
        for i, j in parts:
            left, right, out = ramp.slice(i, j)
            grid = grid_in(left, right, out)
            heavy, rows = cell_load(grid, left, right, out, self._beta, FREE)
            heavy *= 1 + self._chance(grid, left, right)
            grids.append(grid)
            loads.append(np.full(grid[0] * grid[1], heavy))
            received += rows
        cuts = tuple(int(ramp.cuts[j]) for _, j in parts[:-1])
        return Spread(Entry(self.key, cuts, tuple(grids)), np.concatenate(loads), received)

    def _chance(self, grid: Grid, left: float, right: float) -> float:
        """Return the expected excess of the fullest cell of a grid over the mean, if hashes alone deal the rows."""
        varies = 0.0
        for size, rows, shared in zip(grid, (left, right), self._shared, strict=True):
            if size > 1 and not shared:
                varies += size / max(rows, 1.0)
        return 2.0 * float(np.sqrt(varies))
