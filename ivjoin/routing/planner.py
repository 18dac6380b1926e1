"""``plan_join``: from samples of both sides to the cells with the most even load."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ivjoin.errors import OptionError, came
from ivjoin.expr.arguments import known_options
from ivjoin.outer.jointype import JoinType
from ivjoin.plan.cache import planned
from ivjoin.plan.spec import SIDES
from ivjoin.routing.grids.grid_sizes import FREE, LEFT, RIGHT, TWOFOLD
from ivjoin.routing.grids.placing import placed
from ivjoin.routing.loads import indivisible, measured
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.report import BETA
from ivjoin.routing.rows.arguments import number, one_of, worker_count
from ivjoin.routing.rows.cells import Layout
from ivjoin.routing.rows.reach import Axis, owes, reach_of
from ivjoin.routing.rows.reader import Reader, as_batch
from ivjoin.routing.sampling import Sample
from ivjoin.routing.spreading import HeavyKey, Spread

__all__ = ["SCHEMES", "plan_join"]

SCHEMES = ("auto", "hash", "slices", "grid")
_MOST_GRID = 4096  # rows or columns
_MOST_CUTS = 1 << 16  # places that are tried for one key
_LIGHT = 16  # light cells a worker
_FEWEST_SEEN = 6  # rows of a key in a sample, to count as evidence
# A key lighter than this part of a worker's share is placed by its hash.
_SHARE = 1 / 8
_CLOSE = 1.02  # greatest loads that count as equal
# Up to this many times the least possible load, one per cent of load may save four per cent of copies.
_ALLOWED, _COPIES_WEIGH = 1.08, 0.25
# The least saving of copies; and the least saving by grids, whose rows Spark cannot deal by itself.
_SAVED, _SAVED_BY_GRIDS = 0.05, 0.2
_MANY_KEYS = 1024  # heavy keys; for more, no further schemes are tried
_FEW_KEYS = 4  # heavy keys whose slices are tried as grids of each of these shapes
_SHAPES = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (1, 4), (4, 1), (2, 3), (3, 2))
_SLACK = 0.15  # a slice may be smaller by this part, so that it ends where few rows reach across


@known_options("plan_join")
def plan_join(
    left_sample: Any, right_sample: Any, on: Any = None, condition: Any = None, how: str = "inner", workers: int = 8,
    scheme: str = "auto", *, left_rows: float | None = None, right_rows: float | None = None, beta: float = BETA,
    timezone: str | None = None, current: RoutingPlan | None = None, key_hash: str | None = None,
) -> RoutingPlan:
    """Plan how the rows of a join are spread over workers.

    Parameters
    ----------
    left_sample, right_sample : Table, RecordBatch, or list of RecordBatch
        A uniform sample of each side, or all rows.
    on, condition, how, timezone
        As for ``SymmetricHashJoin``.
    workers : int
    scheme : {"auto", "hash", "slices", "grid"}
        How heavy keys, and joins without a key, are spread. "auto" selects the least load of the fullest worker. If a
        scheme is not possible, a key stays in one cell, and the plan's notes give the reason.
    left_rows, right_rows : float, optional
        The number of rows of each side; by default the rows of the sample.
    beta : float
        The cost of an output row, in input rows.
    current : RoutingPlan, optional
        The plan in use. A key with cells of its own retains some until its weight is half of the threshold.
    key_hash : str, optional
        An int64 column of both sides without nulls, equal if all equality keys are equal. Keys are not hashed again.

    Returns
    -------
    RoutingPlan

    Raises
    ------
    IvjoinError
        A subclass. The message states the given value, the expected one and the nearest fix.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> left = pa.table({"t": np.arange(1000), "v": np.arange(1000)})
    >>> p = plan_join(left, left, condition="l.t BETWEEN r.t - 5 AND r.t + 5", workers=4)
    >>> rows, cells, owned = p.cells("left", left.to_batches()[0])
    >>> len(rows), len(set(cells)), p.report.replication < 1.05
    (1000, 4, True)
    """
    one_of("scheme", scheme, SCHEMES)
    workers = worker_count(workers)
    beta = number("beta", beta, "what a row of output costs")
    if current is not None and not isinstance(current, RoutingPlan):
        raise OptionError(f"current is {came(current)}; expected the RoutingPlan in use, or None")
    batches = as_batch(left_sample, "left sample"), as_batch(right_sample, "right sample")
    plan = planned(batches[0].schema, batches[1].schema, on=on, condition=condition, how=how, timezone=timezone)
    rows = []
    for s, given in ((0, left_rows), (1, right_rows)):
        n = batches[s].num_rows
        if n == 0:
            raise OptionError(f"the {SIDES[s]} sample has no rows; expected a sample of each side, or all rows")
        total = float(n) if given is None else number(f"{SIDES[s]}_rows", given, "how many rows the side has")
        if total < n:
            raise OptionError(f"{SIDES[s]}_rows is {came(given)}, but the sample has {n} rows; expected {n} or more")
        rows.append(total)
    reader = Reader(plan, reach_of(plan), key_hash)
    sample = Sample(reader, batches, (rows[0], rows[1]), plan.how)
    return _Planner(sample, workers, scheme, beta, current).run()


@dataclass
class _Option:
    """One division of all keys, along an axis or without one, with its load and copies."""

    axis: Axis | None
    both: bool
    spreads: list[Spread]
    light: np.ndarray
    worker_of: np.ndarray
    load: float

    @property
    def received(self) -> float:
        return sum(s.received for s in self.spreads)

    @property
    def in_grids(self) -> bool:
        return any(map(_is_grid, self.spreads))


def _is_grid(spread: Spread) -> bool:
    return any(grid != (1, 1) for grid in spread.entry.grids)


class _Planner:
    def __init__(self, sample: Sample, workers: int, scheme: str, beta: float, current: RoutingPlan | None) -> None:
        self.sample = sample
        self.reader = sample.reader
        self.how: JoinType = sample.how
        self.workers = workers
        self.scheme = scheme
        self.beta = beta
        self.notes = list(self.reader.reach.notes)
        keys = sample.keys
        self.load = keys.rows[0] + keys.rows[1] + beta * keys.out
        self.total = float(self.load.sum()) + keys.lone
        # The load of a worker under an even division, but at least two matching rows, which no plan divides.
        self.share = max(self.total / workers, 2 + beta)
        self.keyed = bool(self.reader.reach.keys[0])
        seen = sum(b.num_rows for b in sample.batches)
        self.close = _CLOSE + (0.0 if sample.is_whole else float(np.sqrt(workers / seen)))
        self.mode = self._mode()
        self.heavy = self._heavy(current)
        self.light = self._light()
        self._made: dict[tuple[Axis | None, bool], list[HeavyKey]] = {}

    def _mode(self) -> str | None:
        """Return the grids that the join type allows, if the scheme uses grids."""
        if self.scheme not in ("auto", "grid") or self.reader.plan.never:
            return None
        left, right = owes(self.how, 0), owes(self.how, 1)
        return TWOFOLD if left and right else LEFT if left else RIGHT if right else FREE

    def _heavy(self, current: RoutingPlan | None) -> np.ndarray:
        """Return the keys that get cells of their own, heaviest first."""
        if not self.keyed:
            return np.zeros(1, dtype=np.int64)
        if self.scheme == "hash":
            return np.empty(0, dtype=np.int64)
        least = np.full(len(self.load), _SHARE * self.share)
        if current is not None:
            least[np.isin(self.sample.keys.key, current.layout.keys)] /= 2
        enough = self.sample.keys.seen >= (1 if self.sample.is_whole else _FEWEST_SEEN)
        found = np.flatnonzero((self.load > least) & enough)
        return found[np.argsort(-self.load[found], kind="stable")]

    def _light(self) -> np.ndarray:
        """Return the load of each light cell, without differences that chance explains."""
        if not self.keyed:
            return np.empty(0)
        n = min(_LIGHT * self.workers, max(self.workers, 1 << 15))
        keys = self.sample.keys
        mine = np.ones(len(self.load), dtype=bool)
        mine[self.heavy] = False
        cell = Layout(n, ()).light(keys.key[mine])
        loads = np.bincount(cell, weights=self.load[mine], minlength=n)
        if not self.sample.is_whole and len(cell):
            seen = np.bincount(cell, weights=keys.seen[mine], minlength=n)
            spread = float(seen.var())
            signal = max(0.0, spread - float(seen.mean())) / spread if spread else 0.0
            loads = loads.mean() + signal * (loads - loads.mean())
        return loads + keys.lone / n

    # -- options -------------------------------------------------------------------------------------------------

    def run(self) -> RoutingPlan:
        axes = self._axes()
        tried = self._options(None, False)
        for axis, both in axes:
            tried += self._options(axis, both)
        best = self._best(tried)
        best = self._of_fewer_copies(best, tried, axes)
        if all(not s.entry.cuts for s in best.spreads):
            best = replace(best, axis=None, both=any(s.entry.twofold for s in best.spreads))
        self._unspread(best)
        entries = sorted((s.entry for s in best.spreads), key=lambda e: e.key or 0)
        order = sorted(range(len(best.spreads)), key=lambda i: best.spreads[i].entry.key or 0)
        loads = np.concatenate([best.light, *(best.spreads[i].loads for i in order)])
        dealt = [self._dealt(s, best.spreads) for s in (0, 1)]
        # The hashes of few distinct rows do not spread them.
        salted = any(share < 0.5 for _, share in dealt)
        layout = Layout(len(best.light), entries, best.both, salted)
        where, _ = placed(loads, self.workers)
        plan = RoutingPlan(
            how=self.how.name, workers=self.workers, scheme=self.scheme, notes=tuple(dict.fromkeys(self.notes)),
            worker_of=where, join_type=self.how, reader=self.reader, layout=layout, axis=best.axis,
            dealt=(dealt[0][0], dealt[1][0]),
            measure=functools.partial(
                measured, sample=self.sample, beta=self.beta, mode=indivisible(self.how, self.reader.reach)
            ),
        )
        for s in (0, 1):
            if self.sample.is_most(s):
                plan.share_out(s, self.sample.batches[s])
        return plan

    def _axes(self) -> list[tuple[Axis, bool]]:
        """Return the axes to try, each with whether both sides have a home on it."""
        if self.scheme not in ("auto", "slices") or len(self.heavy) == 0 or self.reader.plan.never:
            return []
        preserved = owes(self.how, 0), owes(self.how, 1)
        found: list[tuple[Axis, bool]] = []
        for axis in self.reader.reach.axes:
            if not preserved[1 - axis.divided]:
                found.append((axis, False))
        if not found:
            for axis in self.reader.reach.axes:
                if axis.home is not None:
                    found.append((axis, True))
                else:
                    other = SIDES[1 - axis.divided]
                    self.notes.append(f"{axis}: a {self.how.name} join needs a place for {other} rows on it")
        return found

    def _options(self, axis: Axis | None, both: bool) -> list[_Option]:
        heavy = self._heavy_keys(axis, both)
        tried: list[_Option] = []
        for size in self._sizes():
            # cells larger than the fullest worker's load do not help
            if tried and size > 2 * min(o.load for o in tried):
                break
            tried.append(self._sized(axis, both, heavy, size, _SLACK))
        slacks = (_SLACK, 0.0) if axis is not None else (0.0,)
        near = min(o.load for o in tried)
        for step in np.linspace(0.85, 1.05, 11) if len(heavy) else ():
            tried += [self._sized(axis, both, heavy, float(step * near), slack) for slack in slacks]
        for slack in slacks if not self.keyed else ():
            # the smallest size that gives each worker one cell
            low, high = 0.5 * self.share, 1.1 * near
            while high > 1.002 * low:
                size = (low + high) / 2
                tried.append(self._sized(axis, both, heavy, size, slack))
                low, high = (size, high) if len(tried[-1].worker_of) > self.workers else (low, size)
        return tried

    def _heavy_keys(self, axis: Axis | None, both: bool) -> list[HeavyKey]:
        if (axis, both) not in self._made:
            self._made[axis, both] = self._make_heavy_keys(axis, both)
        return self._made[axis, both]

    def _make_heavy_keys(self, axis: Axis | None, both: bool) -> list[HeavyKey]:
        keys = self.sample.keys
        profile = self.sample.profile(axis, both) if axis is not None else None
        most = min(_MOST_GRID, 4 * self.workers)
        return [
            HeavyKey(
                int(keys.key[k]) if self.keyed else None, float(keys.rows[0][k]), float(keys.rows[1][k]),
                float(keys.out[k]), self.beta,
                profile.of(int(k), _MOST_CUTS, self.beta) if profile is not None else None,
                # If both sides have a home, slices cannot be grids: a copy is owned by a slice, not by a cell of it.
                None if both else self.mode, not both, most, (self.sample.is_most(0), self.sample.is_most(1)),
            )
            for k in self.heavy
        ]

    def _sized(self, axis: Axis | None, both: bool, heavy: list[HeavyKey], size: float, slack: float) -> _Option:
        return self._spread(axis, both, [h.spread(size, slack) if h.load > size else h.one for h in heavy])

    def _spread(self, axis: Axis | None, both: bool, spreads: list[Spread]) -> _Option:
        light = self.light
        if not self.keyed:
            cells = len(spreads[0].loads)
            spreads = [replace(spreads[0], loads=spreads[0].loads + self.sample.keys.lone / cells)]
        loads = np.concatenate([light, *(s.loads for s in spreads)]) if spreads else light
        where, load = placed(loads, self.workers)
        return _Option(axis, both, spreads, light, where, load)

    def _best(self, tried: Sequence[_Option]) -> _Option:
        """Return the option with the fewest copies among the least loads that the samples cannot distinguish."""
        least = min(o.load for o in tried)
        near = [o for o in tried if o.load <= least * self.close]
        fewest = min(o.received for o in near)
        return min((o for o in near if o.received <= 1.02 * fewest), key=lambda o: o.load)

    def _of_fewer_copies(self, best: _Option, tried: Sequence[_Option], axes: Sequence[tuple[Axis, bool]]) -> _Option:
        """Return an option with clearly fewer copies for slightly more load, if it exists."""
        most = max(best.load, _ALLOWED * self.share)
        keys = self.sample.keys
        out, rows = keys.out[self.heavy], keys.rows[0][self.heavy] + keys.rows[1][self.heavy]
        # m output pairs of one key need at least 2 sqrt(m) input rows, so at most root**2 pairs fit.
        root = most / (1 + np.sqrt(1 + self.beta * most))
        if best.received <= 1.1 * float(np.maximum(rows, 2 * out / root).sum()):
            return best
        found = best

        def is_better(load: float, spreads: list[Spread]) -> bool:
            received = sum(s.received for s in spreads)
            saved = _SAVED if best.in_grids or not any(map(_is_grid, spreads)) else _SAVED_BY_GRIDS
            cost = load * received**_COPIES_WEIGH
            return received <= (1 - saved) * best.received and cost < found.load * found.received**_COPIES_WEIGH

        for option in tried:
            if option.load <= most and is_better(option.load, option.spreads):
                found = option
        ways = self._ways_in_grids(most) if self.keyed and self.mode == FREE and best.axis is None else []
        if len(self.heavy) <= _FEW_KEYS:
            for axis, both in axes:
                ways += self._ways_in_slices(axis, both, most)
        for along, spreads in sorted(ways, key=lambda way: sum(s.received for s in way[1])):
            if is_better(self.share, spreads):
                option = self._spread(along, False, spreads)
                if option.load <= most and is_better(option.load, spreads):
                    found = option
        return found

    def _ways_in_grids(self, most: float) -> list[tuple[Axis | None, list[Spread]]]:
        """Return keys of several workers' shares in cells of one size, and the other keys in smaller cells.

        Cells of one size leave few workers over. The smaller cells fill these: they copy more, but have fewer rows.
        """
        heavy = self._heavy_keys(None, False)
        ways: list[tuple[Axis | None, list[Spread]]] = []
        if len(heavy) > _MANY_KEYS:
            return ways
        loads = np.array([h.load for h in heavy])  # the heaviest first
        least = 2 + self.beta  # the load of two matching rows
        small = [[h.spread(max(least, f * self.share), 0.0) for h in heavy] for f in (0.08, 0.16, 0.32, 0.64)]
        for few in (1, 2, 4):
            n = int(np.count_nonzero(loads > few * self.share))
            for f in np.linspace(0.8, 1.02, 12) if n else ():
                large = [h.spread(float(f) * most, 0.0) for h in heavy[:n]]
                ways += [(None, [*large, *rest[n:]]) for rest in small]
        return ways

    def _ways_in_slices(self, axis: Axis, both: bool, most: float) -> list[tuple[Axis | None, list[Spread]]]:
        """Return slices that are grids of one shape, because equal cells fill the workers evenly."""
        ways: list[tuple[Axis | None, list[Spread]]] = []
        if both:
            return ways
        heavy = self._heavy_keys(axis, both)
        most -= 0.0 if self.keyed else self.sample.keys.lone / self.workers  # all cells share these rows
        for slack in (_SLACK, 0.0):
            for f in np.linspace(0.86, 1.0, 8):
                size = float(f) * most
                others: dict[int, Spread] = {}  # for keys that cannot be cut, or need too many slices
                for grid in _SHAPES:
                    if (self.mode in (None, RIGHT) and grid[0] > 1) or (self.mode in (None, LEFT) and grid[1] > 1):
                        continue
                    spreads: list[Spread] = []
                    for i, h in enumerate(heavy):
                        way = h.sliced(size, slack, grid) if h.load > size else h.one
                        if way is None:
                            if i not in others:
                                others[i] = h.spread(size, slack)
                            way = others[i]
                        spreads.append(way)
                    ways.append((axis, spreads))
        return ways

    def _sizes(self) -> list[float]:
        """Return the greatest loads of a cell to try."""
        if len(self.heavy) == 0:
            return [np.inf]
        share = self.share
        top = max(float(self.load[self.heavy].max()), share)
        sizes = [share * f for f in (0.26, 0.34, 0.51, 0.68, 0.85)]
        step = 1.02 * share
        while step < top and len(sizes) < 120:
            sizes.append(step)
            step *= 1.06 if step < 2 * share else 1.2
        return [*sizes, 2 * top]

    # -- what cannot be spread -----------------------------------------------------------------------------------

    def _dealt(self, s: int, spreads: list[Spread]) -> tuple[list[int], float]:
        """Return the columns with which grids deal rows of side s, and the share of distinct rows among them."""
        used = any(grid[s] > 1 for spread in spreads for grid in spread.entry.grids)
        return self.sample.dealt(s) if used else ([], 1.0)

    def _unspread(self, best: _Option) -> None:
        stay = [s for s in best.spreads if s.entry.cells == 1 and float(s.loads.max()) > 1.5 * self.share]
        if self.workers == 1 or not stay:
            return
        what = f"{len(stay)} heavy keys stay" if self.keyed else "a join without a key stays"
        if self.reader.plan.never:
            self.notes.append("the condition is never TRUE: nothing is joined")
        elif self.scheme == "hash":
            self.notes.append(f"{what} in one cell: scheme='hash' spreads by keys alone")
        elif self.scheme == "slices":
            self.notes.append(f"{what} in one cell: no axis of the condition can be cut for a {self.how.name} join")
        else:
            self.notes.append(f"{what} in one cell: a {self.how.name} join in a grid would load no worker less")
