"""Replace the plan of a stream: the counts of its tasks, and the decision of the single planner.

The decision depends only on the rows of the micro-batches so far, not on their order, so a retried micro-batch makes
the same plan. The weight of a micro-batch is halved with each later one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.routing.along import Edge, PlanList
from ivjoin.routing.endless import LEAST_WIDTH, EndlessPlan
from ivjoin.routing.grids.grid_sizes import Grid
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Counts", "Note", "next_plans", "passed"]

_ENTER = 4  # a key of more than 1/4 of a bucket's share is heavy,
_LEAVE = 8  # and stays so until it has no more than 1/8
_COUNTED = 32  # a key is counted if a batch has more rows of it than 1/32 of a bucket's share
_FEWEST_ROWS = 256  # before any decision
_FEWEST_OF_KEY = 32
_OLDER = 0.5  # the weight of earlier micro-batches
_WORTH = 1.5  # a shape changes if the greatest load falls by this factor
# Rows of a bucket in a micro-batch, on average. From the first number on, more buckets are used. Below the second one,
# after several micro-batches, fewer are used. A call of a bucket takes as long as joining a few thousand rows.
_BUSY, _BETWEEN, _IDLE = 8_192, 1_024, 128
_IDLE_TURNS = 8


@dataclass(slots=True)
class Counts:
    """The counts of the map tasks of a micro-batch."""

    rows: int = 0
    keys: dict[int, list[int]] = field(default_factory=dict)  # left and right rows of frequent keys by hash
    edge: Edge = field(default_factory=Edge)

    def add(self, side: int, key: np.ndarray | None, lone: np.ndarray | None, n: int, edge: Edge, buckets: int) -> None:
        """Count n rows of a side, with the hash of each key and the rows that cannot match.

        A key is not counted if it has less than 1/32 of a bucket's share of the rows.
        """
        self.rows += n
        self.edge = self.edge.joined(edge)
        if key is None:
            self._more(0, side, n)
            return
        keys, counts = np.unique(key if lone is None else key[~lone], return_counts=True)
        found = counts * _COUNTED * buckets > n
        for k, c in zip(keys[found].tolist(), counts[found].tolist(), strict=True):
            self._more(k, side, c)

    def merge(self, said: dict[str, Any]) -> None:
        self.rows += said["rows"]
        self.edge = self.edge.joined(Edge(said["edge"]))
        for k, *counts in said["keys"]:
            for side, c in enumerate(counts):
                self._more(k, side, c)

    @property
    def as_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "edge": self.edge.top, "keys": [[k, *self.keys[k]] for k in sorted(self.keys)]}

    def _more(self, key: int, side: int, n: int) -> None:
        self.keys.setdefault(key, [0, 0])[side] += n


@dataclass(frozen=True)
class Note:
    """The state of the planner between micro-batches; older ones have a lower weight in ``rows`` and ``keys``."""

    rows: float = 0.0
    keys: dict[int, tuple[float, float]] = field(default_factory=dict)
    edge: Edge = field(default_factory=Edge)  # of all routed rows
    seen: tuple[list[int | None], list[int | None]] = ([], [])  # how far orders have advanced, inverted if they descend
    step: float = 0.0  # how far the cut side advances along the axis in a micro-batch
    newest: int = -1  # the number of the newest plan file; -1 before the first
    idle: int = 0  # consecutive micro-batches with few rows for the buckets in use

    def text(self) -> str:
        return json.dumps({
            "rows": self.rows, "edge": self.edge.top, "seen": self.seen, "step": self.step, "newest": self.newest,
            "idle": self.idle, "keys": [[k, *self.keys[k]] for k in sorted(self.keys)],
        })  # fmt: skip

    @staticmethod
    def of(text: str) -> Note:
        d = json.loads(text)
        keys = {k: (a, b) for k, a, b in d["keys"]}
        seen, idle = (d["seen"][0], d["seen"][1]), d.get("idle", 0)
        return Note(d["rows"], keys, Edge(d["edge"]), seen, d["step"], d["newest"], idle)

    def after(self, plans: PlanList, counts: Counts, seen: Sequence[Sequence[int | None]], buckets: int) -> Note:
        """Return the note with one more micro-batch."""
        rows = _OLDER * self.rows + counts.rows
        keys: dict[int, tuple[float, float]] = {}
        for k in {*self.keys, *counts.keys}:
            (a, b), (x, y) = self.keys.get(k, (0.0, 0.0)), counts.keys.get(k, (0, 0))
            both = _OLDER * a + x, _OLDER * b + y
            if sum(both) * _COUNTED * buckets > rows:
                keys[k] = both
        far = tuple(_farther(mine, list(new)) for mine, new in zip(self.seen if any(self.seen) else ([], []), seen))
        before, now = (_order_edge(plans, s) for s in (self.seen, far))
        step = self.step
        if before is not None and now is not None and now > before:
            step = float(now - before) if not step else _OLDER * step + (1 - _OLDER) * (now - before)
        idle = self.idle + 1 if _a_turn(rows) < _IDLE * _in_use(plans, buckets) else 0
        return Note(rows, keys, self.edge.joined(counts.edge), (far[0], far[1]), step, self.newest, idle)

    def numbered(self, newest: int) -> Note:
        return replace(self, newest=newest)


def _a_turn(rows: float) -> float:
    """Return the average rows of a micro-batch from the weighted sum."""
    return (1 - _OLDER) * rows


def _in_use(plans: PlanList, buckets: int) -> int:
    newest = plans.plans[-1]
    assert isinstance(newest, EndlessPlan)
    return min(buckets, newest.used or buckets)


def _used(plans: PlanList, note: Note, buckets: int) -> int:
    """Return how many buckets the next rows use."""
    now, rows = _in_use(plans, buckets), _a_turn(note.rows)
    if rows > _BUSY * now or note.idle >= _IDLE_TURNS:
        return max(1, min(buckets, math.ceil(rows / _BETWEEN)))
    return now


def _farther(a: list[int | None], b: list[int | None]) -> list[int | None]:
    if not a or not b:
        return a or b
    return [y if x is None else x if y is None else max(x, y) for x, y in zip(a, b, strict=True)]


def next_plans(plans: PlanList, note: Note, buckets: int, pinned: Iterable[int] = ()) -> PlanList | None:
    """Return the list of plans from the next micro-batch on; None if it does not change.

    ``note`` includes the counts of the micro-batch. ``pinned`` are hashes of keys that are always heavy.
    """
    newest = plans.plans[-1]
    assert isinstance(newest, EndlessPlan)
    used = _used(plans, note, buckets)
    hot, width, grid = newest.hot, newest.width, newest.grid
    if note.rows >= _FEWEST_ROWS:
        hot = np.array(sorted(_heavy(newest, note, used, pinned)), dtype=np.uint64)
        width, grid = _shape(newest, note, used, hot)
    same = not (len(hot) or not newest.keyed) or (width, grid) == (newest.width, newest.grid)
    if same and np.array_equal(hot, newest.hot) and used == _in_use(plans, buckets):
        return None
    if plans.axis.node.type.kind == "float" and not plans.falling and note.edge.top >= NAN_ORDINAL:
        return None  # a NaN is above all values
    lowest = passed(plans, note.seen)
    rest = plans if lowest is None else plans.without_dead(max(I64_MIN, min(I64_MAX, lowest)))
    more = EndlessPlan(newest.reader, newest.axis, newest.both, hot, width, grid, None if used == buckets else used)
    return rest.add(more, note.edge)


def _heavy(plan: EndlessPlan, note: Note, buckets: int, pinned: Iterable[int]) -> set[int]:
    if not plan.keyed:
        return set()
    share = note.rows / buckets
    before = set(plan.hot.tolist())
    out = set(pinned)
    for k, (left, right) in note.keys.items():
        least = share / (_LEAVE if k in before else _ENTER)
        if left + right > least and (k in before or left + right >= _FEWEST_OF_KEY):
            out.add(k)
    return out


def _shape(plan: EndlessPlan, note: Note, buckets: int, hot: np.ndarray) -> tuple[int, Grid | None]:
    """Return the width of the slices, or the grid, with the least load of the fullest bucket."""
    band = plan.axis.width
    assert band is not None
    counted = [note.keys[k] for k in (hot.tolist() if plan.keyed else [0]) if k in note.keys]
    if not counted or not note.step:
        return plan.width, plan.grid
    left, right = (sum(c[s] for c in counted) for s in (0, 1))
    rows = (left, right) if plan.axis.divided == 0 else (right, left)

    def load(shape: tuple[int, Grid | None]) -> float:
        width, grid = shape
        if grid is not None:
            return left / grid[0] + right / grid[1]
        slices = max(1.0, note.step / width)
        copied = rows[0] * (1 + plan.both * band / width) + rows[1] * (1 + band / width)
        return copied * np.ceil(slices / buckets) / slices if slices > 1 else copied

    least, most = max(LEAST_WIDTH, band + 1), max(LEAST_WIDTH, 4 * (band + 1))
    wanted = min(most, max(least, int(note.step / (4 * buckets))))
    tried: list[tuple[int, Grid | None]] = [(w, None) for w in sorted({least, wanted, 2 * least, most})]
    tried += [(most, g) for g in _grids(plan, left, right, buckets)]
    best = min(tried, key=load)
    now = plan.width, plan.grid
    return best if load(now) > _WORTH * load(best) else now


def _grids(plan: EndlessPlan, left: float, right: float, buckets: int) -> list[Grid]:
    preserved = plan.reader.plan.how.preserved
    if plan.both or all(preserved):
        return []
    if preserved[0]:
        return [(buckets, 1)]
    if preserved[1]:
        return [(1, buckets)]
    return [min(((a, buckets // a) for a in range(1, buckets + 1)), key=lambda g: left / g[0] + right / g[1])]


def _order_edge(plans: PlanList, seen: Sequence[Sequence[int | None]]) -> int | None:
    """Return how far the cut side has advanced along the axis."""
    s = plans.axis.divided
    orders = plans.reader.plan.sides[s].orders
    for (node, _, o), edge in zip(orders, seen[s] if len(seen) == 2 else ()):
        if node is plans.axis.node and o.descending == plans.falling:
            return edge
    return None


def _limit(plans: PlanList, side: int, node: Any, seen: Sequence[Sequence[int | None]]) -> int | None:
    """Return the (inverted) ordinal below which no later value of an ordered expression lies."""
    for order, edge in zip(plans.reader.plan.frontiers()[side].trackers, seen[side]):
        if order.node is node and order.descending == plans.falling and edge is not None:
            return order.least_after(edge)
    return None


def passed(plans: PlanList, seen: Sequence[Sequence[int | None]]) -> int | None:
    """Return the (inverted) place below which no later row lies or reaches, unless it is late; None if unknown."""
    axis, falling = plans.axis, plans.falling
    if falling and axis.node.type.kind == "float":
        return None  # a NaN may still arrive
    own, other = axis.divided, 1 - axis.divided
    mine = _limit(plans, own, axis.node, seen)
    ends = [(_limit(plans, other, n, seen), by) for n, by in (axis.high if falling else axis.low)]
    theirs = [x - by if falling else x + by for x, by in ends if x is not None]
    if mine is None or not theirs:
        return None
    reach = max(theirs)
    if plans.both:
        assert axis.home is not None
        home = _limit(plans, other, axis.home, seen)
        if home is None:
            return None
        reach = min(reach, home - axis.shift if falling else home + axis.shift)
        mine -= max(0, axis.back[1]) if falling else max(0, -axis.back[0])
    return min(mine, reach)
