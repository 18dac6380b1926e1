"""``plan_join``: find the cells with the most even load from samples of both sides."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ivjoin.arguments import known_options, number, one_of, worker_count
from ivjoin.errors import OptionError, came
from ivjoin.plan.cache import planned
from ivjoin.plan.spec import SIDES
from ivjoin.routing.grids.grid_sizes import FREE, LEFT, RIGHT
from ivjoin.routing.grids.placing import placed
from ivjoin.routing.heavy_keys import Division, HeavyKeys
from ivjoin.routing.loads import indivisible, measured
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.report import BETA
from ivjoin.routing.rows.cells import Layout
from ivjoin.routing.rows.reach import Axis, reach_of
from ivjoin.routing.rows.reader import Reader, as_batch
from ivjoin.routing.sampling import Sample
from ivjoin.routing.spreading import Spread

__all__ = ["SCHEMES", "plan_join"]

SCHEMES = ("auto", "hash", "slices", "grid")
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
        The number of workers, from 1 to 100,000.
    scheme : {"auto", "hash", "slices", "grid"}
        How heavy keys, and joins without a key, are spread. "auto" selects the scheme in which the busiest worker has
        the least load. If a scheme is not possible, a key stays in one cell, and the plan's notes give the reason.
    left_rows, right_rows : float, optional
        The number of rows of each side; by default the rows of the sample.
    beta : float
        The cost of an output row, in input rows.
    current : RoutingPlan, optional
        The plan in use. A key with its own cells retains some cells until its weight is half of the threshold.
    key_hash : str, optional
        An int64 column of both sides without nulls, equal if all equality keys are equal. Keys are not hashed again.

    Raises
    ------
    OptionError, ColumnError, ConditionError, UnsupportedError, OrderError, SchemaError
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> left = pa.table({"t": np.arange(1000), "v": np.arange(1000)})
    >>> p = plan_join(left, left, condition="l.t BETWEEN r.t - 5 AND r.t + 5", workers=4)
    >>> rows, cells, owned = p.cells("left", left.to_batches()[0])
    >>> len(rows), len(set(cells)), p.report.replication < 1.05
    (1000, 4, True)
    """
    one_of("scheme", scheme, SCHEMES, hint=True)
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
    sample = Sample(reader, batches, (rows[0], rows[1]))
    return _Planner(sample, workers, scheme, beta, current).run()


class _Planner:
    def __init__(self, sample: Sample, workers: int, scheme: str, beta: float, current: RoutingPlan | None) -> None:
        self.sample = sample
        self.reader = sample.reader
        self.how = sample.how
        self.workers = workers
        self.scheme = scheme
        self.beta = beta
        self.notes = list(self.reader.reach.notes)
        self.keys = HeavyKeys(sample, workers, scheme, beta, current)
        seen = sum(b.num_rows for b in sample.batches)
        self.close = _CLOSE + (0.0 if sample.is_whole else float(np.sqrt(workers / seen)))

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
            worker_of=where, reader=self.reader, layout=layout, axis=best.axis,
            dealt=(dealt[0][0], dealt[1][0]),
            measure=functools.partial(
                measured, sample=self.sample, beta=self.beta, mode=indivisible(self.reader.plan, self.reader.reach)
            ),
        )
        for s in (0, 1):
            if self.sample.is_most(s):
                plan.share_out(s, self.sample.batches[s])
        return plan

    def _axes(self) -> list[tuple[Axis, bool]]:
        """Return the axes to try, each with whether both sides have a home on it."""
        if self.scheme not in ("auto", "slices") or len(self.keys.heavy) == 0 or self.reader.plan.never:
            return []
        preserved = self.how.preserved
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

    def _options(self, axis: Axis | None, both: bool) -> list[Division]:
        heavy = self.keys.along(axis, both)
        tried: list[Division] = []
        for size in self._sizes():
            # cells larger than the fullest worker's load do not help
            if tried and size > 2 * min(o.load for o in tried):
                break
            tried.append(self.keys.sized(axis, both, heavy, size, _SLACK))
        slacks = (_SLACK, 0.0) if axis is not None else (0.0,)
        near = min(o.load for o in tried)
        for step in np.linspace(0.85, 1.05, 11) if len(heavy) else ():
            tried += [self.keys.sized(axis, both, heavy, float(step * near), slack) for slack in slacks]
        for slack in slacks if not self.keys.keyed else ():
            # the smallest size that gives each worker one cell
            low, high = 0.5 * self.keys.share, 1.1 * near
            while high > 1.002 * low:
                size = (low + high) / 2
                tried.append(self.keys.sized(axis, both, heavy, size, slack))
                low, high = (size, high) if len(tried[-1].worker_of) > self.workers else (low, size)
        return tried

    def _best(self, tried: Sequence[Division]) -> Division:
        """Return the option with the fewest copies among the least loads that the samples cannot distinguish."""
        least = min(o.load for o in tried)
        near = [o for o in tried if o.load <= least * self.close]
        fewest = min(o.received for o in near)
        return min((o for o in near if o.received <= 1.02 * fewest), key=lambda o: o.load)

    def _of_fewer_copies(
        self, best: Division, tried: Sequence[Division], axes: Sequence[tuple[Axis, bool]]
    ) -> Division:
        """Return an option with clearly fewer copies for slightly more load, if it exists."""
        most = max(best.load, _ALLOWED * self.keys.share)
        keys = self.sample.keys
        out, rows = keys.out[self.keys.heavy], keys.rows[0][self.keys.heavy] + keys.rows[1][self.keys.heavy]
        # m output pairs of one key need at least 2 sqrt(m) input rows, so at most root**2 pairs fit.
        root = most / (1 + np.sqrt(1 + self.beta * most))
        if best.received <= 1.1 * float(np.maximum(rows, 2 * out / root).sum()):
            return best
        found = best

        def is_better(load: float, spreads: list[Spread]) -> bool:
            received = sum(s.received for s in spreads)
            saved = _SAVED if best.in_grids or not any(s.in_grids for s in spreads) else _SAVED_BY_GRIDS
            cost = load * received**_COPIES_WEIGH
            return received <= (1 - saved) * best.received and cost < found.load * found.received**_COPIES_WEIGH

        for option in tried:
            if option.load <= most and is_better(option.load, option.spreads):
                found = option
        ways = self._ways_in_grids(most) if self.keys.keyed and self.keys.mode == FREE and best.axis is None else []
        if len(self.keys.heavy) <= _FEW_KEYS:
            for axis, both in axes:
                ways += self._ways_in_slices(axis, both, most)
        for along, spreads in sorted(ways, key=lambda way: sum(s.received for s in way[1])):
            if is_better(self.keys.share, spreads):
                option = self.keys.division(along, False, spreads)
                if option.load <= most and is_better(option.load, spreads):
                    found = option
        return found

    def _ways_in_grids(self, most: float) -> list[tuple[Axis | None, list[Spread]]]:
        """Return keys of several workers' shares in cells of one size, and the other keys in smaller cells.

        Cells of one size leave few workers over. The smaller cells fill these: they copy more, but have fewer rows.
        """
        heavy = self.keys.along(None, False)
        ways: list[tuple[Axis | None, list[Spread]]] = []
        if len(heavy) > _MANY_KEYS:
            return ways
        loads = np.array([h.load for h in heavy])  # the heaviest first
        least = 2 + self.beta  # the load of two matching rows
        small = [[h.spread(max(least, f * self.keys.share), 0.0) for h in heavy] for f in (0.08, 0.16, 0.32, 0.64)]
        for few in (1, 2, 4):
            n = int(np.count_nonzero(loads > few * self.keys.share))
            for f in np.linspace(0.8, 1.02, 12) if n else ():
                large = [h.spread(float(f) * most, 0.0) for h in heavy[:n]]
                ways += [(None, [*large, *rest[n:]]) for rest in small]
        return ways

    def _ways_in_slices(self, axis: Axis, both: bool, most: float) -> list[tuple[Axis | None, list[Spread]]]:
        """Return slices that are grids of one shape, because equal cells fill the workers evenly."""
        ways: list[tuple[Axis | None, list[Spread]]] = []
        if both:
            return ways
        heavy, mode = self.keys.along(axis, both), self.keys.mode
        most -= 0.0 if self.keys.keyed else self.sample.keys.lone / self.workers  # all cells share these rows
        for slack in (_SLACK, 0.0):
            for f in np.linspace(0.86, 1.0, 8):
                size = float(f) * most
                others: dict[int, Spread] = {}  # for keys that cannot be cut, or need too many slices
                for grid in _SHAPES:
                    if (mode in (None, RIGHT) and grid[0] > 1) or (mode in (None, LEFT) and grid[1] > 1):
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
        if len(self.keys.heavy) == 0:
            return [np.inf]
        share = self.keys.share
        top = max(float(self.keys.load[self.keys.heavy].max()), share)
        sizes = [share * f for f in (0.26, 0.34, 0.51, 0.68, 0.85)]
        step = 1.02 * share
        while step < top and len(sizes) < 120:
            sizes.append(step)
            step *= 1.06 if step < 2 * share else 1.2
        return [*sizes, 2 * top]

    def _dealt(self, s: int, spreads: list[Spread]) -> tuple[list[int], float]:
        """Return the columns with which grids deal rows of side s, and the share of distinct rows among them."""
        used = any(grid[s] > 1 for spread in spreads for grid in spread.entry.grids)
        return self.sample.dealt(s) if used else ([], 1.0)

    def _unspread(self, best: Division) -> None:
        stay = [s for s in best.spreads if s.entry.cells == 1 and float(s.loads.max()) > 1.5 * self.keys.share]
        if self.workers == 1 or not stay:
            return
        what = f"{len(stay)} heavy keys stay" if self.keys.keyed else "a join without a key stays"
        if self.reader.plan.never:
            self.notes.append("the condition is never TRUE: nothing is joined")
        elif self.scheme == "hash":
            self.notes.append(f"{what} in one cell: scheme='hash' spreads only by keys")
        elif self.scheme == "slices":
            self.notes.append(f"{what} in one cell: no axis of the condition can be cut for a {self.how.name} join")
        else:
            self.notes.append(f"{what} in one cell: a {self.how.name} join in a grid would load no worker less")
