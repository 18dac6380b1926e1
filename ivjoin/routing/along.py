"""Plans that follow each other along the band. A row never moves from one cell to another.

Plan e covers the left rows with places in [T_e, T_e+1) of one axis. A right row goes to every plan that it reaches, so
each plan is a correct join of its own piece. If right rows are preserved, each of them also has a home plan. A left row
then also goes to the home plans of its matches, as a copy that is not owned. If only right rows are preserved, the
sides are swapped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivjoin.arguments import known_options
from ivjoin.errors import OptionError, came
from ivjoin.routing.plan import RoutingPlan, side_number
from ivjoin.routing.rows.arrays import Copies
from ivjoin.routing.rows.reach import Axis
from ivjoin.routing.rows.reader import Features, Reader
from ivjoin.shj.plain import rows_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["MOST_LIVE", "Edge", "Plan", "PlanList", "Sent", "along"]

MOST_LIVE = 3


class Plan(Protocol):
    """The interface of the plans in a list: :class:`RoutingPlan`, or a plan of endless slices."""

    @property
    def how(self) -> str: ...

    @property
    def reader(self) -> Reader: ...

    @property
    def axis(self) -> Axis | None:
        """The axis on which rows have places."""

    @property
    def both(self) -> bool:
        """Whether rows of both sides have a home on the axis."""

    def features(self, s: int, batch: pa.RecordBatch) -> Features: ...

    def copies(self, s: int, batch: pa.RecordBatch, f: Features) -> Copies: ...

    def summary(self) -> str: ...


@dataclass(frozen=True)
class Edge:
    """How far the routed rows can reach along the axis.

    A new plan begins beyond the ordinal ``top``, which is the least int64 before the first row.
    """

    top: int = I64_MIN

    @property
    def is_endless(self) -> bool:
        """Return whether a row can match rows without end, so that the plan cannot change."""
        return self.top >= I64_MAX

    def joined(self, other: Edge) -> Edge:
        """Return the further edge of two tasks or batches."""
        return self if self.top >= other.top else other


@dataclass(frozen=True, slots=True)
class Sent:
    """The copies of a batch's rows over all plans, as :meth:`PlanList.cells` returns them, with their edge."""

    rows: np.ndarray
    plans: np.ndarray
    cells: np.ndarray
    owned: np.ndarray
    edge: Edge
    features: Features  # of the rows, with places inverted like the list's starts


@dataclass(frozen=True)
class PlanList:
    """Plans by their start on the axis. Routing depends only on this immutable list and the row."""

    plans: tuple[Plan, ...]
    starts: tuple[int, ...]  # rising ordinals without the first plan's; inverted (``~ordinal``) for a falling axis
    axis: Axis
    both: bool  # rows of both sides have a home plan
    falling: bool = False  # rows arrive in falling order, so later plans cover smaller places
    first: int = 0  # the number of the first plan that is still in the list

    @property
    def reader(self) -> Reader:
        return self.plans[0].reader

    def cells(self, side: str, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the copies of a batch's rows over all plans, as :meth:`RoutingPlan.cells` does for one.

        The results are rows, plans, cells and owned. ``plans`` (int64[m]) has the number of the plan that each copy
        follows, counted from the very first plan, and ``cells`` the cell within that plan.
        """
        sent = self.sent(side, batch)
        return sent.rows, sent.plans, sent.cells, sent.owned

    def sent(self, side: str, batch: pa.RecordBatch) -> Sent:
        """Return the results of :meth:`cells` and :meth:`edge`."""
        s = side_number(side)
        self.reader.check(s, batch)
        given = self.reader.features(s, batch, self.axis, self.both)
        turned = self._turned(s, given)
        first, last, home = self._span(turned)
        out: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        for e, plan in enumerate(self.plans):
            mine = np.flatnonzero((first <= e) & (e <= last))
            if len(mine) == 0:
                continue
            whole = len(mine) == batch.num_rows
            part = batch if whole else self._rows(batch, mine)
            if (plan.axis, plan.both) == (self.axis, self.both):
                f = given if whole else given.taken(mine)
            else:
                f = plan.features(s, part)
            rows, cells, owned = plan.copies(s, part, f)
            if s == 1 or s == self.axis.divided or self.both:
                owned = owned & (home[mine[rows]] == e)
            # Otherwise each right row is in one plan, and all copies of left rows stay owned.
            out.append((mine[rows], np.full(len(rows), e + self.first), cells, owned))
        if not out:
            none = np.empty(0, dtype=np.int64)
            return Sent(none, none, none, np.empty(0, dtype=bool), Edge(), turned)
        rows, plans, cells, owned = (np.concatenate(column) for column in zip(*out, strict=True))
        return Sent(rows, plans, cells, owned, _edge(turned), turned)

    @staticmethod
    def _rows(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            return batch.slice(int(rows[0]), len(rows))
        return rows_at(batch, rows)

    def edge(self, side: str, batch: pa.RecordBatch) -> Edge:
        """Return how far the rows of a batch can reach along the axis; combine it over all routed batches."""
        s = side_number(side)
        self.reader.check(s, batch)
        return _edge(self._turned(s, self.reader.features(s, batch, self.axis, self.both)))

    def next_start(self, edge: Edge) -> int | None:
        """Return the earliest place at which a new plan may begin; None if it cannot begin."""
        least = max(edge.top, self.starts[-1] if self.starts else I64_MIN) + 1
        return None if edge.is_endless or least > I64_MAX else least

    def add(self, plan: Plan, edge: Edge, start: int | None = None) -> PlanList | None:
        """Return the list with a new plan for the same join, or None if it cannot begin now.

        It cannot begin if rows reach without end, or while three plans are live. ``edge`` is the edge of all rows that
        were routed so far. Raise OptionError if ``start``, by default the earliest place, is not beyond it.
        """
        if not isinstance(edge, Edge):
            raise OptionError(f"edge is {came(edge)}; expected the Edge of all routed rows, which edge() returns")
        if not hasattr(plan, "copies") or not _same_join(plan, self.plans[0]):
            raise OptionError(f"the new plan is {came(plan)}; expected a RoutingPlan for the join of the first one")
        least = self.next_start(edge)
        if least is None or len(self.plans) >= MOST_LIVE:
            return None
        if start is None:
            start = least
        elif start < least:
            raise OptionError(
                f"start is {start}; expected {least} or more, because routed rows reach up to {least - 1}"
            )
        return replace(self, plans=(*self.plans, plan), starts=(*self.starts, int(start)))

    def without_dead(self, passed: int) -> PlanList:
        """Return the list without plans whose rows are all evicted.

        No row lies or reaches below ``passed``, an ordinal inverted like ``starts``. A later row is late, and follows
        the first remaining plan.
        """
        dead = sum(start <= passed for start in self.starts)
        return replace(self, plans=self.plans[dead:], starts=self.starts[dead:], first=self.first + dead)

    def __str__(self) -> str:
        lines = [f"{len(self.plans)} live plans along {self.axis}"]
        for e, plan in enumerate(self.plans):
            start = f"from {self.starts[e - 1]}" if e else "from the beginning"
            lines.append(f"plan {e + self.first}, {start}: {plan.summary()}")
        return "\n".join(lines)

    def _turned(self, s: int, f: Features) -> Features:
        if self.falling and f.low is not None and f.high is not None and f.home is not None:
            home = f.home if self.both or s == self.axis.divided else f.high
            f = replace(f, low=~f.high, high=~f.low, home=~home)
        return f

    def _span(self, f: Features) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first, last and home plan of each row, as places in the list; rows without a match: the last."""
        assert f.low is not None
        assert f.high is not None
        assert f.home is not None
        starts = np.array(self.starts, dtype=np.int64)
        first, last, home = (np.searchsorted(starts, x, side="right") for x in (f.low, f.high, f.home))
        if f.lone is not None:
            newest = len(self.plans) - 1
            first, last, home = (np.where(f.lone, newest, x) for x in (first, last, home))
        return first, last, home


def _edge(f: Features) -> Edge:
    """Return how far rows reach, from their inverted features."""
    assert f.high is not None
    assert f.home is not None
    ends = np.maximum(f.high, f.home)
    top = ends if f.lone is None else ends[~f.lone]
    return Edge(int(top.max(initial=I64_MIN)))


def _same_join(a: Plan, b: Plan) -> bool:
    p, q = a.reader.plan, b.reader.plan
    return a.how == b.how and p.condition is q.condition and a.reader.schemas == b.reader.schemas


@known_options("along")
def along(plan: RoutingPlan, falling: bool = False) -> PlanList:
    """Return a list with one plan, which other plans may follow along an axis of the condition.

    Raises
    ------
    OptionError
        If the condition has no such axis. The message gives the reason.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from ivjoin.routing import plan_join
    >>> t = pa.record_batch({"t": np.arange(100)})
    >>> plan = plan_join(t, t, condition="l.t BETWEEN r.t - 5 AND r.t + 5", workers=2)
    >>> plans = along(plan)
    >>> edge = plans.edge("left", t).joined(plans.edge("right", t))
    >>> plans.next_start(edge)
    105
    """
    if not isinstance(plan, RoutingPlan):
        raise OptionError(f"plan is {came(plan)}; expected a RoutingPlan")
    reach = plan.reader.reach
    preserved = plan.reader.plan.how.preserved
    fit = [(preserved[1 - a.divided], a) for a in reach.axes if not preserved[1 - a.divided] or a.home is not None]
    if not fit:
        why = (
            f"a {plan.how} join has no place on {reach.axes[0]} for the rows that reach it" if reach.axes
            else "; ".join(reach.notes) or "the condition has no band"
        )
        raise OptionError(f"plans cannot follow each other along an axis: {why}. Use the first plan for all rows")
    # prefer an axis without copies beyond a home, then the left one, then the narrowest reach
    both, axis = min(fit, key=lambda f: (f[0], f[1].divided, f[1].width if f[1].width is not None else I64_MAX))
    if (raised := reach.why_it_may_raise(axis)) is not None:
        raise OptionError(f"plans cannot follow each other along an axis: {raised}, or use the first plan for all rows")
    return PlanList((plan,), (), axis, both, bool(falling))
