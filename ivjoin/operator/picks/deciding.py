"""Decide when a left row is compared and emitted: whether its best match may have come, or a better one can follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ivjoin.expr.nodes import Node
from ivjoin.operator.picks.waiting import Better, Waiting
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.plan.cutting import shifted
from ivjoin.plan.picking.pick import Picking

__all__ = ["Decider"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


class Decider:
    """Decides about left rows by the frontiers.

    Parameters
    ----------
    picking : Picking
    axes : list of Node
        Axes of the left side.
    bounder : Bounder
    blind : set of (int, Node)
        Axes of a side with nulls in rows that must be stored nevertheless. ``Reader`` adds to the set.
    better : Better
    """

    def __init__(
        self, picking: Picking, axes: list[Node], bounder: Bounder, blind: set[tuple[int, Node]], better: Better
    ) -> None:
        self._picking, self._axes, self._bounder, self._blind, self._better = picking, axes, bounder, blind, better
        lines = len(picking.lines[1])
        self._top, self._bottom = [I64_MIN] * lines, [I64_MAX] * lines

    def came(self, vals: np.ndarray) -> None:
        """Record the lines of right rows that have arrived : int64[lines, n]."""
        for i, line in enumerate(vals):
            if len(line):
                self._top[i] = max(self._top[i], int(line.max()))
                self._bottom[i] = min(self._bottom[i], int(line.min()))

    def dead(self, w: Waiting) -> np.ndarray:
        """Return bool[n]: the rows that no later right row can match."""
        n = len(w)
        bounds = self._bounder.bounds(0)
        if bounds is None:
            return np.ones(n, dtype=bool)
        out = np.zeros(n, dtype=bool)
        for axis, (low, high) in enumerate(bounds):
            line = self._picking.axes[0][axis]
            if (0, self._axes[axis]) in self._blind:
                continue
            if low != I64_MIN and w.low[line] < low:
                out |= w.vals[line] < low
            if high != I64_MAX and w.high[line] > high:
                out |= w.vals[line] > high
        if len(w.free):
            out[w.free != 0] = False
        return out

    def ripe(self, vals: np.ndarray) -> np.ndarray:
        """Return bool[n]: the rows whose best match may have come, so that a search can pay, given their lines."""
        out = np.zeros(vals.shape[1], dtype=bool)
        picking = self._picking
        low, high = self._bounder.future(1, picking.lines[1][0])
        rising, falling = low != I64_MIN, high != I64_MAX
        if not rising and not falling:
            return out
        if picking.which == "nearest":
            v = vals[picking.near]
            return v <= max(self._top[0], low) if rising else v >= min(self._bottom[0], high)
        # The end of the range where the better rows lie, if they come first; otherwise the other end.
        column = 3 if picking.which == "last" else 2
        ends = [t for t in picking.terms[: picking.n_search].tolist() if t[column] not in (I64_MIN, I64_MAX)]
        if not ends:
            out[:] = rising != (picking.which == "last")
            return out
        out[:] = True
        for t in ends:
            # How far rows have come, or what is promised about later rows.
            least, most = (low, high) if t[1] == 0 else self._bounder.future(1, picking.lines[1][t[1]])
            limit = (max(self._top[t[1]], least) if rising else min(self._bottom[t[1]], most)) - t[column]
            line = vals[t[0]]
            if rising:
                out &= line <= limit if limit >= I64_MIN else False
            else:
                out &= line >= limit if limit <= I64_MAX else False
            if not out.any():
                break
        return out

    def idle(self, w: Waiting) -> bool:
        """Return whether the extreme values of a piece show that none of its rows is ripe or dead."""
        if w.some_seen or len(w.free):
            return False
        bounds = self._bounder.bounds(0)
        if bounds is None:
            return False
        for axis, (low, high) in enumerate(bounds):
            line = self._picking.axes[0][axis]
            if w.low[line] < low or w.high[line] > high:
                return False
        return not self.ripe(np.array([w.low, w.high], dtype=np.int64).T.reshape(len(w.low), 2)).any()

    def settled(self, w: Waiting) -> np.ndarray:
        """Return bool[n]: the rows with a match than which no later row can be better."""
        picking = self._picking
        known = w.best >= 0
        if not known.any():
            return known
        plain = picking.n_sort == 1
        best = w.best_vals[0]
        low, high = self._bounder.future(1, picking.lines[1][0])
        if picking.which == "nearest":
            x = w.vals[picking.near]
            out = (x == best) if plain else np.zeros(len(w), dtype=bool)
            for end, beyond in ((low, x < low), (high, x > high)):
                at = np.flatnonzero(known & beyond & ~out)
                if len(at) and self._better.type is not None and end not in (I64_MIN, I64_MAX):
                    edge = np.full((1, len(at)), end)
                    # A later row is no nearer than the frontier, and no earlier if the frontier lies above.
                    wins = self._better(x[at], edge, best[None, at]) if picking.n_sort == 1 else None
                    if wins is None:
                        first = replace(self._better, n_sort=1)
                        wins = first(x[at], edge, best[None, at]) | (edge[0] == best[at])
                    out[at[~wins]] = True
            return out & known
        out = np.zeros(len(w), dtype=bool)
        if picking.which == "last":
            out |= best >= high if plain else best > high
        else:
            out |= best <= low if plain else best < low
        if plain:
            column = 3 if picking.which == "last" else 2
            for t in picking.terms.tolist():
                if t[1] == 0 and t[column] not in (I64_MIN, I64_MAX):
                    out |= best == shifted(w.vals[t[0]], t[column])
        return out & known
