"""Which share of the pairs is left where rows were dropped: a sample of the dropped rows goes on being probed.

A pair is lost where the earlier of its rows was dropped before the later one came. So the pairs lost are the matches
that dropped rows would still have had. Each of these rows is in the sample with the same chance, whatever it is worth:
the sum over the sample by that chance estimates the loss (Horvitz and Thompson, 1952), with a variance estimated
likewise. When the sample is halved, what it has found by then stays, by the chance there was: the estimate never falls.
Where few rows have many of the matches, a sample mostly misses them, and the estimate is too low more often than too
high: so the error is a factor of the loss, not a distance, and a row is added that the sample might have had.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from math import exp
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.nodes import columns_of
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator import steps
from ivjoin.operator.budget import Budget
from ivjoin.operator.core import Core
from ivjoin.operator.small_parts import put
from ivjoin.plan.cache import plan_of
from ivjoin.plan.planner import JoinPlan, SidePlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.plain import in_few_batches

__all__ = ["Recall"]

_NUMBER = "#ivjoin number"
_MOST_ROWS = 1024  # of a sample, a side
_GATHERED = 16_384  # rows that come, before the sample is probed with them
_TOGETHER = 1024  # rows: fewer are not kept apart from those that come after them
_MOST_FACTOR = 50.0
_SURE = 2.6  # standard deviations: more than 1.96, for what few rows say of the spread


class _Sample:
    """Dropped rows of one side that go on being probed."""

    def __init__(self) -> None:
        self.rows: pa.Table | None = None
        self.since = np.empty(0, dtype=np.int64)  # number of the first push that does not find the row
        self.found = np.empty(0, dtype=np.float64)  # matches since the sample was halved
        # Of matches before: their sum, each by 1 / chance - 1 of when it was found. Two matches of a row go together.
        self.before = np.empty(0, dtype=np.float64)
        self.axes = np.empty((0, 0), dtype=np.int64)

    def keep(self, which: np.ndarray) -> None:
        if self.rows is not None:
            self.rows = self.rows.filter(pa.array(which))
            self.since, self.found, self.axes = self.since[which], self.found[which], self.axes[:, which]
            self.before = self.before[which]


class Recall:
    """Estimates the share of pairs that is kept.

    Parameters
    ----------
    core : Core
    budget : Budget
    rng : numpy.random.Generator
    """

    def __init__(self, core: Core, budget: Budget, rng: np.random.Generator) -> None:
        self._core = ref(core)
        self._rng = rng
        self._rate = 1.0
        self._samples = _Sample(), _Sample()
        self._gathered: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._waiting = self._waiting_bytes = self._push = 0
        # After the last batch that was taken: one that is on its way still matches what its own values prune.
        self._bounds = _bounds_of(core)
        self._lost = self._variance = 0.0  # of rows that can match no more, and of matches before the last halving
        self._most = int(min(max(budget.limit // 4096, 16), _MOST_ROWS))
        self.most_bytes = max(budget.limit // 16, 2048)
        self._names: list[list[str]] = []
        self._plan: JoinPlan | None = None
        if core.how.name == "inner":
            self._names = _needed(core.plan)

    @property
    def nbytes(self) -> int:
        """Bytes of the sample and of the rows that wait for it."""
        return self._waiting_bytes + self._sample_bytes()

    def _sample_bytes(self) -> int:
        return sum(0 if s.rows is None else s.rows.nbytes + 32 * len(s.since) + s.axes.nbytes for s in self._samples)

    def saw(self, p: int, batch: pa.RecordBatch) -> None:
        """A batch was taken, and has been matched with what is stored."""
        self._push += 1
        if not self._names:
            return
        if self._samples[1 - p].rows is not None:
            self._gather(p, batch)
        core = self._core()
        assert core is not None
        self._bounds = _bounds_of(core)

    def _gather(self, p: int, batch: pa.RecordBatch) -> None:
        """Keep what the sample is to be matched with."""
        numbers = pa.array(np.full(batch.num_rows, self._push, dtype=np.int64))
        columns = [batch.column(n) for n in self._names[p]]
        piece = pa.RecordBatch.from_arrays([*columns, numbers], names=[*self._names[p], _NUMBER])
        if self._waiting + batch.num_rows > _GATHERED or self._waiting_bytes + piece.nbytes > self.most_bytes // 2:
            self.look()
        put(self._gathered[p], piece, _TOGETHER, _in_one, len)
        self._waiting += batch.num_rows
        self._waiting_bytes += piece.nbytes

    def dropped(self, s: int, ids: np.ndarray) -> None:
        """Rows are about to be dropped."""
        core = self._core()
        if not self._names or core is None:
            return
        chosen = ids[self._rng.random(len(ids)) < self._rate]
        if not len(chosen):
            return
        if self._waiting:
            self.look()  # what waits came before
        store, side = core.stores[s], core.plan.sides[s]
        arrays = [store.gather(core.places[s][core.index[s][n]], chosen) for n in self._names[s]]
        rows = pa.table(arrays, names=self._names[s])
        axes = np.stack([store.axis_values(a, chosen) for a in range(len(side.axes))]) if side.axes else np.empty(
            (0, len(chosen)), dtype=np.int64
        )
        sample = self._samples[s]
        if sample.rows is None:
            sample.rows, sample.axes = rows.slice(0, 0), axes[:, :0]
        if len(sample.axes) != len(axes):  # more has been promised since
            sample.axes = _axes_of(side, sample.rows)
        sample.rows = pa.concat_tables([sample.rows, rows]).combine_chunks()
        sample.since = np.concatenate([sample.since, np.full(len(chosen), self._push + 1)])
        sample.found = np.concatenate([sample.found, np.zeros(len(chosen))])
        sample.before = np.concatenate([sample.before, np.zeros(len(chosen))])
        sample.axes = np.concatenate([sample.axes, axes], axis=1)
        if self._is_large():
            self._bury()
        while self._is_large():
            self._halve()

    def _halve(self) -> None:
        for x in self._samples:
            self._count(x, slice(None))
            x.before += x.found * (1 / self._rate - 1)
            x.found[:] = 0
            x.keep(self._rng.random(len(x.since)) < 0.5)
        self._rate /= 2

    def _is_large(self) -> bool:
        return max(len(x.since) for x in self._samples) > self._most or self._sample_bytes() > self.most_bytes // 2

    def look(self) -> None:
        """Match the sample with the rows that have come, and say what that makes of the recall."""
        core = self._core()
        if not self._names or core is None or not self._has_dropped(core):
            return
        for s, sample in enumerate(self._samples):
            came = self._gathered[1 - s]
            if came and sample.rows is not None and len(sample.since):
                numbered = sample.rows.append_column(_NUMBER, pa.array(np.arange(len(sample.since))))
                sample.found += self._matches(core, s, numbered, pa.Table.from_batches(came), sample.since)
            came.clear()
        self._waiting = self._waiting_bytes = 0
        self._bury()
        lost, variance = self._lost, self._variance
        for sample in self._samples:
            each, squares = self._sums(sample, slice(None))
            lost, variance = lost + each, variance + squares
        m = core.metrics
        found = m.rows_out
        m.recall, m.recall_error = _share(found, lost), 0.0
        if self._rate < 1:
            variance += (1 - self._rate) / self._rate**2  # of a row with one match, which may be all that was not seen
            off = _SURE * variance**0.5
            factor = exp(min(off / lost, _MOST_FACTOR)) if lost else 1.0
            least, most = (lost / factor, lost * factor) if lost else (0.0, off)
            m.recall_error = max(_share(found, least) - m.recall, m.recall - _share(found, most))

    def _sums(self, sample: _Sample, which: np.ndarray | slice) -> tuple[float, float]:
        """The matches lost that some rows of the sample stand for, and the variance of that."""
        found, before, rate = sample.found[which], sample.before[which], self._rate
        # of a row that is in the sample by a chance p and later by q, the two numbers it stands for vary by 1 / p - 1
        squares = float((found**2).sum()) * (1 - rate) / rate**2 + 2 * float((found * before).sum()) / rate
        return float(found.sum()) / rate, squares

    def _count(self, sample: _Sample, which: np.ndarray | slice) -> None:
        """What some rows have lost stays."""
        lost, variance = self._sums(sample, which)
        self._lost += lost
        self._variance += variance

    def save(self) -> dict[str, Any] | None:
        """What a snapshot keeps of it, in JSON's own types; None where there is nothing to estimate."""
        if not self._names:
            return None
        self.look()
        samples: list[dict[str, Any] | None] = []
        for sample in self._samples:
            if sample.rows is None:
                samples.append(None)
                continue
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, sample.rows.schema) as writer:
                writer.write_table(sample.rows)
            rows = base64.b64encode(sink.getvalue().to_pybytes()).decode()
            samples.append({
                "rows": rows, "found": sample.found.tolist(), "before": sample.before.tolist(),
                "axes": sample.axes.tolist(),
            })
        return {"rate": self._rate, "lost": self._lost, "variance": self._variance, "samples": samples}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on where :meth:`save` was called."""
        if not self._names:
            return
        self._rate, self._lost, self._variance = saved["rate"], saved["lost"], saved["variance"]
        core = self._core()
        assert core is not None
        for sample, side, kept in zip(self._samples, core.plan.sides, saved["samples"], strict=True):
            if kept is not None:
                sample.rows = pa.ipc.open_stream(base64.b64decode(kept["rows"])).read_all().combine_chunks()
                sample.rows.validate(full=True)
                sample.found = np.array(kept["found"], dtype=np.float64)
                sample.before = np.array(kept.get("before", np.zeros(len(sample.found))), dtype=np.float64)
                sample.since = np.zeros(len(sample.found), dtype=np.int64)
                sample.axes = _axes_of(side, sample.rows)  # which may be others, in another order

    @staticmethod
    def _has_dropped(core: Core) -> bool:
        return bool(core.metrics.shed_left or core.metrics.shed_right)

    def _bury(self) -> None:
        """Rows that no row to come can match: what they have lost stays, they go."""
        for s, sample in enumerate(self._samples):
            bounds = self._bounds[s]
            if sample.rows is None or not len(sample.since):
                continue
            alive = np.ones(len(sample.since), dtype=bool)
            for a in range(min(len(sample.axes), len(bounds))):
                alive &= (sample.axes[a] >= bounds[a, 0]) & (sample.axes[a] <= bounds[a, 1])
            if self._gathered[1 - s]:
                continue  # some of what it may match waits
            self._count(sample, ~alive)
            sample.keep(alive)

    def _matches(self, core: Core, s: int, dropped: pa.Table, came: pa.Table, since: np.ndarray) -> np.ndarray:
        """For each dropped row of side s, how many of the other side's rows would have found it : float64[n]."""
        plan = self._plan = self._plan or _pairs_plan(core.plan, self._names)
        inner = Core(plan)
        found = np.zeros(len(since))
        tables = (dropped, came) if s == 0 else (came, dropped)
        try:
            for p in (s, 1 - s):
                for batch in tables[p].cast(plan.sides[p].schema).combine_chunks().to_batches():
                    out = steps.take(inner, p, batch)
                    for pairs in [out] if isinstance(out, pa.RecordBatch) else out or ():
                        numbers = [pairs.column(i).to_numpy() for i in _number_places(pairs)]
                        at, push = numbers[s], numbers[1 - s]
                        at = at[push >= since[at]]
                        found += np.bincount(at, minlength=len(found))
        except EvaluationError:
            pass  # the join itself would have said so
        return found


def _in_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    one, *apart = in_few_batches(batches)
    return None if apart else one  # whose dictionaries have no room for one another


def _bounds_of(core: Core) -> list[np.ndarray]:
    """The bounds of either side's axes : int64[a, 2] and more words."""
    return [core.state["bounds", s][: len(side.axes)].copy() for s, side in enumerate(core.plan.sides)]


def _axes_of(side: SidePlan, rows: pa.Table) -> np.ndarray:
    """The values of a side's axes for dropped rows : int64[a, n]."""
    out = np.empty((len(side.axes), rows.num_rows), dtype=np.int64)
    batches = rows.combine_chunks().to_batches()
    if batches:
        vectors = evaluate(side.axes, lambda _, name: batches[0].column(name), rows.num_rows)
        for a, (node, vector) in enumerate(zip(side.axes, vectors, strict=True)):
            out[a] = ordinals(vector.values, node.type)
    return out


def _share(found: float, lost: float) -> float:
    return found / (found + lost) if found + lost else 1.0


def _number_places(batch: pa.RecordBatch) -> list[int]:
    return [i for i, n in enumerate(batch.schema.names) if n.startswith(_NUMBER)]


def _needed(plan: JoinPlan) -> list[list[str]]:
    """Columns of either side that the question reads."""
    spec = plan.spec
    read = [] if spec.condition is None else list(columns_of(spec.condition))
    out = []
    for s, schema in enumerate(spec.schemas):
        names = {pair[s] for pair in spec.on} | {c.params[1] for c in read if c.params[0] == SIDES[s]}
        out.append([n for n in schema.names if n in names])
    return out


def _pairs_plan(plan: JoinPlan, names: list[list[str]]) -> JoinPlan:
    """The same question as a join without orders of these columns and a number."""
    number = pa.field(_NUMBER, pa.int64())
    left, right = (
        pa.schema([*(schema.field(n) for n in names[s]), number]) for s, schema in enumerate(plan.spec.schemas)
    )
    spec = replace(
        plan.spec, schemas=(left, right), orders=((), ()), bounds=((), ()), how="inner", left_over=(),
        suffix="#right", batch_size=65536,
    )
    return plan_of(spec)
