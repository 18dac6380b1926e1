"""Find right rows that are worse than another row of their key for every left row of that key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ivjoin.expr.nodes import Node
from ivjoin.operator.lookup.run import Run
from ivjoin.operator.lookup.stored import WaitingKeys
from ivjoin.operator.pruning.prune_bounds import Bounder
from ivjoin.plan.cutting import shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import Picking, picking_of
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Thinning", "Way", "ways_of"]

_AT_ONCE = 1 << 16  # rows of a run that are processed at once


@dataclass(frozen=True, slots=True)
class Way:
    """A rule that makes worse rows of a key useless: every left row must be able to take the better row."""

    last: bool  # whether greater values are better; otherwise lesser values are
    # (left value, right value, offset, above). If ``above``, the right value must be at most ``left + offset``.
    # Otherwise it must be at least that.
    ends: list[tuple[Node, Node, int, bool]]
    first_stays: bool = False  # whether this rule retains the rows with the least value of a key

    def possible(self, bounder: Bounder) -> bool:
        """Return whether a row can satisfy the ends, given the possible later left rows."""
        return all(_edge(bounder, left, above) is not None for left, _, _, above in self.ends)


def ways_of(picking: Picking, decided: bool) -> list[Way]:
    """Return the rules that make right rows useless.

    The list is empty unless keys and bands are the whole condition.
    """
    terms = picking.terms
    if not decided:
        return []

    def way(last: bool, first_stays: bool = False) -> Way:
        ends = [(picking.near, picking.place, 0, last)] if picking.near is not None else []
        for t, (left, right, low, high) in enumerate(terms):
            # The right value rises within a key. If a better row fails at the other end, worse rows fail there too.
            if high != I64_MAX and (last or t >= picking.n_search):
                ends.append((left, right, high, True))
            if low != I64_MIN and (not last or t >= picking.n_search):
                ends.append((left, right, low, False))
        return Way(last, ends, first_stays)

    if picking.which != "nearest":
        return [way(picking.which == "last")]
    if picking.n_search < len(terms):
        return []
    if picking.place.type.kind != "float":
        return [way(True), way(False)]
    # All numbers are equally far from an infinity, so it takes the first one.
    return [*([] if any(t.low != I64_MIN for t in terms) else [way(True, True)]), way(False)]


def _edge(bounder: Bounder, left: Node, above: bool) -> int | None:
    """Return the least (``above``) or greatest value of later left rows, or None if it has no bound."""
    edge = bounder.future(0, left)[0 if above else 1]
    return None if edge == (I64_MIN if above else I64_MAX) else edge


class Thinning:
    """Find the useless rows of a run.

    ``ranks`` returns int64[n] that rise from the worst row of a run to the best row, or from the last to the first.
    """

    def __init__(self, plan: JoinPlan, bounder: Bounder, ranks: Callable[[Run], np.ndarray]) -> None:
        self._picking = picking = picking_of(plan)
        self._plan, self._bounder, self._ranks = plan, bounder, ranks
        self._ways = [  # a constant, such as a NULL of an untyped column, is not an axis
            way for way in ways_of(picking, not plan.separation.residual)
            if all(plan.axis(0, left) is not None and plan.axis(1, right) is not None for left, right, _, _ in way.ends)
        ]
        assert plan.spec.pick is not None
        self._own, self._ties = plan.axis(1, plan.spec.pick.by[0]), len(plan.spec.pick.by) > 1
        self.reads = {self._axis(0, left) for w in self._ways for left, _, _, _ in w.ends}  # the left axes

    def possible(self) -> bool:
        """Return whether rows can become useless at all, given the possible later left rows."""
        return any(w.possible(self._bounder) for w in self._ways)

    def _axis(self, s: int, node: Node) -> int:
        axis = self._plan.axis(s, node)
        assert axis is not None
        return axis

    def useless(self, run: Run, waiting: WaitingKeys | None, full: bool) -> np.ndarray:
        """Return the useless rows of a run : bool[n].

        ``full``: whether the whole condition is evaluated for each pair.
        """
        return np.concatenate([self._useless(part, waiting, full) for part in run.parts(_AT_ONCE)])

    def _useless(self, run: Run, waiting: WaitingKeys | None, full: bool) -> np.ndarray:
        out = np.zeros(len(run), dtype=bool)
        along = self._own is not None and run.axis == self._own
        starts, sizes = run.keys()
        for way in self._ways:
            sure = np.ones(len(run), dtype=bool)
            for left, right, by, above in way.ends:
                limit, axis = self._limit(run, waiting, left, by, above), self._axis(1, right)
                if limit is None:
                    break
                values = run.rows.axes[axis]
                if full or self._picking.step:  # true values may lie beyond the ends of int64
                    sure &= (values > I64_MIN) & (values < I64_MAX)
                sure &= values <= np.repeat(limit, sizes) if above else values >= np.repeat(limit, sizes)
                if axis in run.rows.absent:
                    sure &= ~run.rows.absent[axis]
            else:
                if not sure.any():
                    continue
                score = self._score(run, way, along)
                best = np.maximum.reduceat(np.where(sure, score, I64_MIN), starts)
                worse = score < np.repeat(best, sizes)
                if way.first_stays:
                    values = run.rows.axes[self._own]  # type: ignore[index]
                    worse &= values != np.repeat(values.take(starts), sizes)
                out |= worse
        return out

    def _limit(
        self, run: Run, waiting: WaitingKeys | None, left: Node, by: int, above: bool
    ) -> np.ndarray | None:
        """Return the limit of each key's right values over waiting and later left rows, or None if it has no limit."""
        end = _edge(self._bounder, left, above)
        if end is None:
            return None
        starts, _ = run.keys()
        out = np.full(len(starts), end)
        if waiting is not None:
            at, there = waiting.places(run.rows.kids.take(starts))
            values = waiting.ends[self._axis(0, left)][0 if above else 1].take(at)
            out = np.where(there, (np.minimum if above else np.maximum)(out, values), out)
            none = out == (I64_MIN if above else I64_MAX)
            return np.where(none, out, shifted(out, by))
        return shifted(out, by)

    def _score(self, run: Run, way: Way, along: bool) -> np.ndarray:
        """Return int64[n] that is greater for better rows."""
        if self._picking.near is not None:
            assert self._own is not None
            values = run.rows.axes[self._own]
            return values if way.last else ~values
        if along and not self._ties:
            places = np.arange(len(run))
            return places if way.last else ~places
        return self._ranks(run)
