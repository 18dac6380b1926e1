"""Decide by the frontier of the value that picks whether a left row's best match is final before its band ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivjoin.operator.lookup.distance import compared
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.operator.windows.rows import Rows
from ivjoin.plan.cutting import shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of

__all__ = ["Early"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


class Early:
    """Decides about left rows that a later right row can still match.

    Parameters
    ----------
    plan : JoinPlan
    bounder : Bounder
    """

    def __init__(self, plan: JoinPlan, bounder: Bounder) -> None:
        picking = picking_of(plan)
        self.which, self.near, self._plain = picking.which, picking.near, picking.n_sort == 1
        self._node, self._exact = picking.lines[1][0], not picking.step
        # (left axis, right line, low, high): low <= right - left <= high; the first ones follow the value that picks.
        self._terms, self._n_search = picking.terms.tolist(), picking.n_search
        self._nodes, self._axes = picking.lines[1], {line: axis for axis, line in enumerate(picking.axes[1])}
        self._bounder = bounder
        self._top = [I64_MIN] * len(self._axes)
        self._bottom = [I64_MAX] * len(self._axes)

    def came(self, rows: Rows) -> None:
        """Record right rows that have arrived."""
        if len(rows):
            for axis in range(len(self._top)):
                least, most = rows.ends(axis)
                self._top[axis] = max(self._top[axis], most)
                self._bottom[axis] = min(self._bottom[axis], least)

    def ripe(self, values: Sequence[np.ndarray], n: int) -> np.ndarray | None:
        """Return which of n rows may have a final match, so that a lookup can pay : bool[n], or None. Given their axes.
        """
        low, high = self._bounder.future(1, self._node)
        rising, falling = low != I64_MIN, high != I64_MAX
        if (not rising and not falling) or 0 not in self._axes:
            return None
        if self.which == "nearest":
            x = values[self.near]
            place = self._axes[0]
            return x <= max(self._top[place], low) if rising else x >= min(self._bottom[place], high)
        # The end of the range where the better rows lie, if they come first; otherwise the other end.
        column = 3 if self.which == "last" else 2
        ends = [t for t in self._terms[: self._n_search] if t[column] not in (I64_MIN, I64_MAX)]
        if not ends:
            return np.ones(n, dtype=bool) if rising != (self.which == "last") else None
        out = None
        for t in ends:
            # How far rows have come, or what is promised about later rows.
            least, most = (low, high) if t[1] == 0 else self._bounder.future(1, self._nodes[t[1]])
            axis = self._axes[t[1]]
            limit = (max(self._top[axis], least) if rising else min(self._bottom[axis], most)) - t[column]
            if limit < I64_MIN if rising else limit > I64_MAX:
                return None
            x = values[t[0]]
            ripe = x <= limit if rising else x >= limit
            out = ripe if out is None else out & ripe
        return out

    def settled(self, rows: Rows, best: np.ndarray) -> np.ndarray:
        """Return which rows have a match than which no later right row is better : bool[n].

        ``best`` : int64[n] has the values that picked their matches so far.
        """
        low, high = self._bounder.future(1, self._node)
        if self.which == "nearest":
            x = rows.axes[self.near]
            out = (x == best) & self._plain
            for end, beyond in ((low, x < low), (high, x > high)):
                at = np.flatnonzero(beyond & ~out)
                if len(at) and end not in (I64_MIN, I64_MAX):
                    # A later row is no nearer than the frontier, and no earlier if the frontier lies above.
                    edge = np.full(len(at), end)
                    nearer = compared(x[at], edge, best[at], self._node.type)
                    wins = (nearer < 0) | ((nearer == 0) & (edge < best[at])) | ((edge == best[at]) & (not self._plain))
                    out[at[~wins]] = True
            return out if self._exact else out & (best != I64_MIN) & (best != I64_MAX)
        if self.which == "last":
            out = best >= high if self._plain else best > high
        else:
            out = best <= low if self._plain else best < low
        column = 3 if self.which == "last" else 2
        for t in self._terms if self._plain else ():
            if t[1] == 0 and t[column] not in (I64_MIN, I64_MAX):
                out |= best == shifted(rows.axes[t[0]], t[column])
        return out
