"""Estimate the share of pairs that a shedding join emits. It continues to probe a sample of dropped rows.

A pair is lost if its earlier row was dropped before its later row arrived. The lost pairs are therefore the later
matches of dropped rows. Every dropped row enters the sample with the same probability. The matches of the sample,
divided by that probability, estimate the loss (Horvitz and Thompson, 1952). The variance is estimated in the same way.
When the sample is halved, its earlier matches still count with the old probability, so the estimate never decreases.

If few rows have many of the matches, a sample mostly misses those rows. The estimate is then more often too low than
too high. The error is therefore a factor of the loss, and includes one row with one match that the sample missed.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from math import exp
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.conditions.snapshot_checks import damaged
from ivjoin.errors import EvaluationError, came
from ivjoin.expr.nodes import columns_of
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.match import steps
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan, SidePlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.plain import in_few_batches

__all__ = ["Recall"]

_NUMBER = "#ivjoin number"
_MOST_ROWS = 1024  # greatest number of sampled rows of one side
_GATHERED = 16_384  # rows that arrive before they probe the sample
_MOST_PARTS = 64  # batches that are collected before they are merged
_MOST_FACTOR = 50.0
_SURE = 2.6  # standard deviations; more than 1.96, because few rows underestimate the variance


class _Sample:
    """Dropped rows of one side that are still probed."""

    def __init__(self) -> None:
        self.rows: pa.Table | None = None
        self.since = np.empty(0, dtype=np.int64)  # number of the first push that cannot match the row
        self.found = np.empty(0, dtype=np.float64)  # matches since the sample was last halved
        # The sum of earlier matches, each times 1 / probability - 1 at that time. The variance needs it.
        self.before = np.empty(0, dtype=np.float64)
        self.axes = np.empty((0, 0), dtype=np.int64)

    def keep(self, which: np.ndarray) -> None:
        if self.rows is not None:
            self.rows = self.rows.filter(pa.array(which))
            self.since, self.found, self.axes = self.since[which], self.found[which], self.axes[:, which]
            self.before = self.before[which]


class Recall:
    """Estimate the share of the pairs that the join emits."""

    def __init__(self, engine: PairState, budget: Budget, rng: np.random.Generator) -> None:
        self._engine = ref(engine)
        self._rng = rng
        self._rate = 1.0
        self._samples = _Sample(), _Sample()
        self._gathered: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._waiting = self._waiting_bytes = self._push = 0
        # The bounds after the last pushed batch. A batch still matches rows that its own values evict.
        self._bounds = _bounds_of(engine)
        self._lost = self._variance = 0.0  # of rows without future matches, and of matches before the last halving
        self._most = int(min(max(budget.limit // 4096, 16), _MOST_ROWS))
        self.most_bytes = max(budget.limit // 16, 2048)
        self._names: list[list[str]] = []
        self._plan: JoinPlan | None = None
        if engine.how.name == "inner":
            self._names = _needed(engine.plan)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the sample and of the rows that will probe it."""
        return self._waiting_bytes + self._sample_bytes()

    def _sample_bytes(self) -> int:
        return sum(0 if s.rows is None else s.rows.nbytes + 32 * len(s.since) + s.axes.nbytes for s in self._samples)

    def saw(self, p: int, batch: pa.RecordBatch) -> None:
        """Record a batch of side p after it was joined with the stored rows."""
        self._push += 1
        if not self._names:
            return
        if self._samples[1 - p].rows is not None:
            self._gather(p, batch)
        engine = self._engine()
        assert engine is not None
        self._bounds = _bounds_of(engine)

    def _gather(self, p: int, batch: pa.RecordBatch) -> None:
        """Store rows that will probe the sample."""
        numbers = pa.array(np.full(batch.num_rows, self._push, dtype=np.int64))
        columns = [batch.column(n) for n in self._names[p]]
        piece = pa.RecordBatch.from_arrays([*columns, numbers], names=[*self._names[p], _NUMBER])
        if self._waiting + batch.num_rows > _GATHERED or self._waiting_bytes + piece.nbytes > self.most_bytes // 2:
            self.look()
        parts = self._gathered[p]
        parts.append(piece)
        if len(parts) % _MOST_PARTS == 0:
            parts[:] = in_few_batches(parts)
        self._waiting += batch.num_rows
        self._waiting_bytes += piece.nbytes

    def dropped(self, s: int, ids: np.ndarray) -> None:
        """Add rows of side s to the sample before they are dropped."""
        engine = self._engine()
        if not self._names or engine is None:
            return
        chosen = ids[self._rng.random(len(ids)) < self._rate]
        if not len(chosen):
            return
        if self._waiting:
            self.look()  # probe first: the collected rows arrived before these are dropped
        store, side = engine.stores[s], engine.plan.sides[s]
        arrays = [store.gather(engine.places[s][engine.index[s][n]], chosen) for n in self._names[s]]
        rows = pa.table(arrays, names=self._names[s])
        axes = np.stack([store.axis_values(a, chosen) for a in range(len(side.axes))]) if side.axes else np.empty(
            (0, len(chosen)), dtype=np.int64
        )
        sample = self._samples[s]
        if sample.rows is None:
            sample.rows, sample.axes = rows.slice(0, 0), axes[:, :0]
        if len(sample.axes) != len(axes):  # promises have added axes
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
        """Probe the sample with the collected rows, and update the recall in the metrics."""
        engine = self._engine()
        if not self._names or engine is None or not (engine.metrics.shed_left or engine.metrics.shed_right):
            return
        for s, sample in enumerate(self._samples):
            came = self._gathered[1 - s]
            if came and sample.rows is not None and len(sample.since):
                numbered = sample.rows.append_column(_NUMBER, pa.array(np.arange(len(sample.since))))
                sample.found += self._matches(engine, s, numbered, pa.Table.from_batches(came), sample.since)
            came.clear()
        self._waiting = self._waiting_bytes = 0
        self._bury()
        lost, variance = self._lost, self._variance
        for sample in self._samples:
            each, squares = self._sums(sample, slice(None))
            lost, variance = lost + each, variance + squares
        m = engine.metrics
        found = m.rows_out
        m.recall, m.recall_error = _share(found, lost), 0.0
        if self._rate < 1:
            variance += (1 - self._rate) / self._rate**2  # for one row with one match that the sample missed
            off = _SURE * variance**0.5
            factor = exp(min(off / lost, _MOST_FACTOR)) if lost else 1.0
            least, most = (lost / factor, lost * factor) if lost else (0.0, off)
            m.recall_error = max(_share(found, least) - m.recall, m.recall - _share(found, most))

    def _sums(self, sample: _Sample, which: np.ndarray | slice) -> tuple[float, float]:
        """Return the estimated number of lost matches that some sampled rows represent, and its variance."""
        found, before, rate = sample.found[which], sample.before[which], self._rate
        # For a row that is sampled with probability p and later q, the covariance of its estimates is 1 / p - 1.
        squares = float((found**2).sum()) * (1 - rate) / rate**2 + 2 * float((found * before).sum()) / rate
        return float(found.sum()) / rate, squares

    def _count(self, sample: _Sample, which: np.ndarray | slice) -> None:
        lost, variance = self._sums(sample, which)
        self._lost += lost
        self._variance += variance

    def save(self) -> dict[str, Any] | None:
        """Return the sample for a snapshot, as JSON types, or None if nothing is estimated."""
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
        """Restore the result of :meth:`save`. An impossible sample or number raises a SnapshotError."""
        if not self._names:
            return
        self._rate, self._lost, self._variance = _numbers([saved[n] for n in ("rate", "lost", "variance")])
        if not 0 < self._rate <= 1:
            raise damaged(f"one of {self._rate} dropped rows is in the sample; expected a share")
        engine = self._engine()
        assert engine is not None
        for s, (sample, kept) in enumerate(zip(self._samples, saved["samples"], strict=True)):
            if kept is None:
                continue
            sample.rows = pa.ipc.open_stream(base64.b64decode(kept["rows"])).read_all().combine_chunks()
            sample.rows.validate(full=True)
            side = engine.plan.sides[s]
            wanted = [engine.layouts[s].stored[engine.places[s][engine.index[s][n]]] for n in self._names[s]]
            if sample.rows.schema.names != self._names[s] or sample.rows.schema.types != wanted:
                raise damaged(f"dropped rows are {sample.rows.schema.types}; expected {wanted}")
            sample.found = _numbers(kept["found"])
            sample.before = _numbers(kept.get("before", [0.0] * len(sample.found)))
            if not len(sample.found) == len(sample.before) == sample.rows.num_rows:
                raise damaged(f"{sample.rows.num_rows} dropped rows have {len(sample.found)} counts")
            sample.since = np.zeros(len(sample.found), dtype=np.int64)
            sample.axes = _axes_of(side, sample.rows)  # computed, because the number and order of axes may differ

    def _bury(self) -> None:
        """Remove sampled rows that no future row can match, and add their loss to the total."""
        for s, sample in enumerate(self._samples):
            bounds = self._bounds[s]
            if sample.rows is None or not len(sample.since) or self._gathered[1 - s]:
                continue  # rows that it may match have not probed it yet
            alive = np.ones(len(sample.since), dtype=bool)
            for a in range(min(len(sample.axes), len(bounds))):
                alive &= (sample.axes[a] >= bounds[a, 0]) & (sample.axes[a] <= bounds[a, 1])
            self._count(sample, ~alive)
            sample.keep(alive)

    def _matches(self, engine: PairState, s: int, dropped: pa.Table, came: pa.Table, since: np.ndarray) -> np.ndarray:
        """Return how many rows of the other side each dropped row of side s would have matched : float64[n]."""
        plan = self._plan = self._plan or _pairs_plan(engine.plan, self._names)
        inner = PairState(plan)
        found = np.zeros(len(since))
        tables = (dropped, came) if s == 0 else (came, dropped)
        try:
            for p in (s, 1 - s):
                for batch in tables[p].cast(plan.sides[p].schema).combine_chunks().to_batches():
                    out = steps.push(inner, p, batch)
                    for pairs in [out] if isinstance(out, pa.RecordBatch) else out or ():
                        numbers = [pairs.column(n).to_numpy() for n in pairs.schema.names if n.startswith(_NUMBER)]
                        at, push = numbers[s], numbers[1 - s]
                        at = at[push >= since[at]]
                        found += np.bincount(at, minlength=len(found))
        except EvaluationError:
            pass  # the join itself raises this error
        return found


def _numbers(saved: Any) -> np.ndarray:
    """Return the counts or shares of a snapshot : float64[n]."""
    found = np.array(saved)
    if found.dtype.kind not in "if" and len(found):
        raise damaged(f"counts of dropped rows are {came(saved)}; expected numbers")
    found = found.astype(np.float64)
    if found.ndim != 1 or not np.isfinite(found).all() or (found < 0).any():
        raise damaged(f"counts of dropped rows are {came(saved)}; expected numbers from zero")
    return found


def _bounds_of(engine: PairState) -> list[np.ndarray]:
    """Return the bounds of each side's axes : int64[a, n], with further words."""
    return [engine.state["bounds", s][: len(side.axes)].copy() for s, side in enumerate(engine.plan.sides)]


def _axes_of(side: SidePlan, rows: pa.Table) -> np.ndarray:
    """Return the values of a side's axes for dropped rows : int64[a, n]."""
    out = np.empty((len(side.axes), rows.num_rows), dtype=np.int64)
    batches = rows.combine_chunks().to_batches()
    if batches:
        vectors = evaluate(side.axes, lambda _, name: batches[0].column(name), rows.num_rows)
        for a, (node, vector) in enumerate(zip(side.axes, vectors, strict=True)):
            out[a] = ordinals(vector.values, node.type)
    return out


def _share(found: float, lost: float) -> float:
    return found / (found + lost) if found + lost else 1.0


def _needed(plan: JoinPlan) -> list[list[str]]:
    """Return the columns of each side that keys and condition read."""
    spec = plan.spec
    read = [] if spec.condition is None else list(columns_of(spec.condition))
    out = []
    for s, schema in enumerate(spec.schemas):
        names = {pair[s] for pair in spec.on} | {c.params[1] for c in read if c.params[0] == SIDES[s]}
        out.append([n for n in schema.names if n in names])
    return out


def _pairs_plan(plan: JoinPlan, names: list[list[str]]) -> JoinPlan:
    """Return a plan of the same condition without orders, for these columns and a row number."""
    number = pa.field(_NUMBER, pa.int64())
    left, right = (
        pa.schema([*(schema.field(n) for n in names[s]), number]) for s, schema in enumerate(plan.spec.schemas)
    )
    spec = replace(
        plan.spec, schemas=(left, right), orders=((), ()), bounds=((), ()), how="inner", left_over=(),
        suffix="#right", batch_size=65536,
    )
    return plan_of(spec)
