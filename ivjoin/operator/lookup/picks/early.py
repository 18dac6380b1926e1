"""Decide whether a left row's best match is final before its band ends, by the frontier of the ranking value."""

from __future__ import annotations

import numpy as np

from ivjoin.operator.lookup.best import BestMatches
from ivjoin.operator.lookup.picks.distance import compared
from ivjoin.operator.lookup.picks.picked import PickedAnswers
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.stored import RightRows
from ivjoin.operator.pruning.prune_bounds import Bounder
from ivjoin.plan.cutting import shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import PickTerm, picking_of
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Early", "Ripe"]

Ripe = tuple[BestMatches, np.ndarray]  # left rows with their best matches so far, and which are final : bool[n]


class Early:
    """Find left rows with a final best match, although a later right row can still match them."""

    def __init__(self, plan: JoinPlan, bounder: Bounder, answers: PickedAnswers) -> None:
        picking = picking_of(plan)
        self._answers = answers
        self._plan, self._picking, self._bounder, self._node = plan, picking, bounder, picking.place
        self.near = None if picking.near is None else plan.axis(0, picking.near)
        self._place = plan.axis(1, picking.place)
        self._last = picking.which == "last"
        axes = len(plan.sides[1].axes)
        self._top, self._bottom = [I64_MIN] * axes, [I64_MAX] * axes

    def came(self, rows: Rows) -> None:
        if len(rows):
            for axis in range(len(self._top)):
                least, most = rows.ends(axis)
                self._top[axis] = max(self._top[axis], most)
                self._bottom[axis] = min(self._bottom[axis], least)

    def split(self, rows: Rows, right: RightRows) -> tuple[Rows, list[Ripe]]:
        """Return the rows that are not final, and the parts of the looked-up rows that contain final rows."""
        bounds = self._bounder.bounds(0)
        dead = rows.outside(bounds)
        ripe = None if bool(dead.all()) else self._ripe(rows)
        look = dead if ripe is None else dead | ripe
        if not bool(look.any()):
            return rows, []
        every = bool(look.all())
        some = rows if every else rows.take(np.flatnonzero(look))
        dead = dead if every else dead[look]
        start, found = 0, []
        for looked in self._answers.look(some, right.sorted()):
            done = dead[start : start + len(looked.rows)]
            start += len(done)
            known = np.flatnonzero(~done & (looked.best >= 0))
            if len(known) and self._place is not None:
                part, best = looked.rows.take(known), looked.best.take(known)
                done[known[self._settled(part, looked.found.axis(1, self._place).take(best))]] = True
            if done.any():
                found.append((looked, done))
        look[look] = dead  # `done` is a view of `dead`, so `dead` now has all final rows
        if not bool(look.any()):
            return rows, []
        return rows.take(np.flatnonzero(~look)), found

    def _ripe(self, rows: Rows) -> np.ndarray | None:
        """Return the rows whose best match may be final : bool[n], or None if no row's is.

        Only these are worth a lookup.
        """
        low, high = self._bounder.future(1, self._node)
        rising, falling = low != I64_MIN, high != I64_MAX
        place, picking = self._place, self._picking
        if (not rising and not falling) or place is None:
            return None
        if self.near is not None:
            x = rows.axes[self.near]
            return x <= max(self._top[place], low) if rising else x >= min(self._bottom[place], high)
        # Use the end of the range with the better rows, if they come first; otherwise the other end.
        ends = [t for t in picking.terms[: picking.n_search] if self._end(t) not in (I64_MIN, I64_MAX)]
        if not ends:
            return np.ones(len(rows), dtype=bool) if rising != self._last else None
        out = None
        for t in ends:
            # The greatest progress of the rows so far, or the promise about later rows.
            least, most = self._bounder.future(1, t.right)
            axis, by = self._plan.axis(1, t.right), self._end(t)
            limit = (max(self._top[axis], least) if rising else min(self._bottom[axis], most)) - by  # type: ignore[index]
            if limit < I64_MIN if rising else limit > I64_MAX:
                return None
            x = rows.axes[self._plan.axis(0, t.left)]  # type: ignore[index]
            ripe = x <= limit if rising else x >= limit
            out = ripe if out is None else out & ripe
        return out

    def _end(self, t: PickTerm) -> int:
        """Return the end of a band where the better rows are."""
        return t.high if self._last else t.low

    def _settled(self, rows: Rows, best: np.ndarray) -> np.ndarray:
        """Return the rows whose match no later right row can beat : bool[n].

        ``best`` : int64[n] has the ranking values of their current matches.
        """
        low, high = self._bounder.future(1, self._node)
        plain = self._picking.plain
        if self.near is not None:
            x = rows.axes[self.near]
            out = (x == best) & plain
            for end, beyond in ((low, x < low), (high, x > high)):
                at = np.flatnonzero(beyond & ~out)
                if len(at) and end not in (I64_MIN, I64_MAX):
                    # A later row is no nearer than the frontier. It also does not come before it if the frontier is
                    # above.
                    edge = np.full(len(at), end)
                    nearer = compared(x[at], edge, best[at], self._node.type)
                    wins = (nearer < 0) | ((nearer == 0) & (edge < best[at])) | ((edge == best[at]) & (not plain))
                    out[at[~wins]] = True
            return out if not self._picking.step else out & (best != I64_MIN) & (best != I64_MAX)
        if self._last:
            out = best >= high if plain else best > high
        else:
            out = best <= low if plain else best < low
        for t in self._picking.terms if plain else ():
            if t.right == self._node and self._end(t) not in (I64_MIN, I64_MAX):
                out |= best == shifted(rows.axes[self._plan.axis(0, t.left)], self._end(t))  # type: ignore[index]
        return out
