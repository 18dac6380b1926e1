"""Plans that follow each other along the band: no row ever moves from one cell to another.

Plan e covers the left rows with places in [T_e, T_e+1) of one axis. A left row follows the one plan its place lies in,
a right row every plan that it reaches. Each plan is then a correct join of its own piece of the axis, so outer, semi
and anti joins hold as well: where right rows may come out alone, these have a home plan too, and a left row goes, not
owned, to every plan that is home of a right row it can meet; or, where only right rows may come out alone, the sides
change parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivjoin.errors import OptionError, came
from ivjoin.expr.arguments import known_options
from ivjoin.plan.cutting import I64_MAX, I64_MIN
from ivjoin.routing.plan import Copies, RoutingPlan, side_number
from ivjoin.routing.reach import Axis, owes
from ivjoin.routing.reader import Features, Reader
from ivjoin.shj.plain import rows_at

__all__ = ["MOST_LIVE", "Edge", "Plan", "PlanList", "Sent", "along"]

MOST_LIVE = 3


class Plan(Protocol):
    """What a list of plans asks of each: :class:`RoutingPlan`, or one of slices without end."""

    @property
    def how(self) -> str: ...

    @property
    def reader(self) -> Reader: ...

    def sees(self) -> tuple[Axis | None, bool]:
        """The axis along which it looks at rows, and whether rows of both sides have a home there."""
        ...

    def features(self, s: int, batch: pa.RecordBatch) -> Features: ...

    def copies(self, s: int, batch: pa.RecordBatch, f: Features) -> Copies: ...

    def summary(self) -> str:
        """In a few words."""
        ...


@dataclass(frozen=True)
class Edge:
    """How far along the axis rows that were routed can reach.

    Attributes
    ----------
    top : int
        An ordinal of the axis; a new plan begins beyond it. The least of int64 before any row.
    """

    top: int = I64_MIN

    @property
    def is_endless(self) -> bool:
        """Whether a row can meet rows without end, so that the plan stays as it is."""
        return self.top >= I64_MAX

    def joined(self, other: Edge) -> Edge:
        """The farther of two: of two tasks, or of two batches."""
        return self if self.top >= other.top else other


@dataclass(frozen=True, slots=True)
class Sent:
    """The copies of a batch's rows over all plans, as :meth:`PlanList.cells` has them, and what was seen on the way.

    Attributes
    ----------
    rows, plans, cells : int64[m]
    owned : bool[m]
    edge : Edge
        How far the rows reach.
    features : Features
        Of the batch's rows, places turned as the list's starts are.
    """

    rows: np.ndarray
    plans: np.ndarray
    cells: np.ndarray
    owned: np.ndarray
    edge: Edge
    features: Features


@dataclass(frozen=True)
class PlanList:
    """Plans by where on the axis they begin; immutable, and all that routing depends on beside a row.

    Attributes
    ----------
    plans : tuple of Plan
    starts : tuple of int
        Ordinals where plans begin, but for the first; rising. Of a falling axis they are turned over (``~ordinal``).
    axis : Axis
    both : bool
        Rows of both sides have a home plan.
    falling : bool
        Rows come in falling order of the axis: later plans are for smaller places.
    first : int
        The number of the first plan that is still in the list.
    """

    plans: tuple[Plan, ...]
    starts: tuple[int, ...]
    axis: Axis
    both: bool
    falling: bool = False
    first: int = 0

    @property
    def reader(self) -> Reader:
        return self.plans[0].reader

    def cells(self, side: str, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The copies of a batch's rows over all plans.

        Returns
        -------
        rows : int64[m]
        plans : int64[m]
            The number of the plan that each copy follows, counted from the first plan there ever was.
        cells : int64[m]
            The cell within that plan; a plan's cells are its own.
        owned : bool[m]

        Raises
        ------
        SchemaError, ProtocolError
        """
        sent = self.sent(side, batch)
        return sent.rows, sent.plans, sent.cells, sent.owned

    def sent(self, side: str, batch: pa.RecordBatch) -> Sent:
        """As :meth:`cells` and :meth:`edge` in one.

        Raises
        ------
        SchemaError, ProtocolError
        """
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
            if plan.sees() == (self.axis, self.both):
                f = given if whole else given.taken(mine)
            else:
                f = plan.features(s, part)
            rows, cells, owned = plan.copies(s, part, f)
            if s == 1 or s == self.axis.divided or self.both:
                owned = owned & (home[mine[rows]] == e)
            # else right rows are in one plan each, and a pair is owned wherever it is found
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
        """How far along the axis the rows of a batch can reach; to be joined over all batches that are routed."""
        s = side_number(side)
        self.reader.check(s, batch)
        return _edge(self._turned(s, self.reader.features(s, batch, self.axis, self.both)))

    def next_start(self, edge: Edge) -> int | None:
        """Where a new plan may begin at the earliest; None if it may not begin at all."""
        least = max(edge.top, self.starts[-1] if self.starts else I64_MIN) + 1
        return None if edge.is_endless or least > I64_MAX else least

    def add(self, plan: Plan, edge: Edge, start: int | None = None) -> PlanList | None:
        """The list with a new plan that begins beyond all that was routed; None where none may begin now.

        None may where rows reach without end, and as long as :data:`MOST_LIVE` plans are live.

        Parameters
        ----------
        plan : Plan
            For the same join.
        edge : Edge
            Of all rows that were routed so far.
        start : int, optional
            Where it begins: the earliest place by default.

        Raises
        ------
        OptionError
            If the plan is for another join, the edge is none, or the start is not beyond it.
        """
        if not isinstance(edge, Edge):
            raise OptionError(f"edge is {came(edge)}; expected the Edge of all rows routed so far, as edge() gives it")
        if not hasattr(plan, "copies") or not _same_join(plan, self.plans[0]):
            raise OptionError(f"the new plan is {came(plan)}; expected a RoutingPlan for the join of the first one")
        least = self.next_start(edge)
        if least is None or len(self.plans) >= MOST_LIVE:
            return None
        if start is None:
            start = least
        elif start < least:
            raise OptionError(
                f"start is {start}; rows that were routed reach up to {least - 1}, expected {least} or more"
            )
        return replace(self, plans=(*self.plans, plan), starts=(*self.starts, int(start)))

    def without_dead(self, passed: int) -> PlanList:
        """The list without plans whose rows have all left.

        No row of either side lies or reaches below ``passed`` any more, an ordinal turned as ``starts`` are. A row that
        still comes for such a plan is late, and follows the first one left.
        """
        dead = sum(start <= passed for start in self.starts)
        return replace(self, plans=self.plans[dead:], starts=self.starts[dead:], first=self.first + dead)

    def __str__(self) -> str:
        lines = [f"{len(self.plans)} live plans along {self.axis}"]
        for e, plan in enumerate(self.plans):
            start = f"from {self.starts[e - 1]}" if e else "from the beginning"
            lines.append(f"plan {e + self.first}, {start}: {plan.summary()}")
        return "\n".join(lines)

    # -- inside --------------------------------------------------------------------------------------------------

    def _turned(self, s: int, f: Features) -> Features:
        if self.falling and f.low is not None and f.high is not None and f.home is not None:
            home = f.home if self.both or s == self.axis.divided else f.high
            f = replace(f, low=~f.high, high=~f.low, home=~home)
        return f

    def _span(self, f: Features) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First, last and home plan of each row, counted in this list; a row that meets nobody follows the newest."""
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
    """How far rows reach, of their turned features."""
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
    """A list of plans that begins with one, which may be followed by others along an axis of the condition.

    Raises
    ------
    OptionError
        If the condition has no axis along which plans can follow each other; says why.

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
    owed = owes(plan.join_type, 0), owes(plan.join_type, 1)
    fit = [(owed[1 - a.divided], a) for a in reach.axes if not owed[1 - a.divided] or a.home is not None]
    if not fit:
        why = (
            f"{reach.axes[0]} gives a {plan.how} join no place for the rows that reach it" if reach.axes
            else "; ".join(reach.notes) or "the condition has no band"
        )
        raise OptionError(f"no axis along which plans could follow each other: {why}. The first plan stays")
    # rather an axis that takes no copies beyond a home, then the left one, then the narrowest reach
    both, axis = min(fit, key=lambda f: (f[0], f[1].divided, f[1].width if f[1].width is not None else I64_MAX))
    return PlanList((plan,), (), axis, both, bool(falling))


