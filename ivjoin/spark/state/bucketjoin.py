"""Join the input of one bucket in one micro-batch, with its state in any backend."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pandas as pd

from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.codec import compressed, meta_text
from ivjoin.spark.rows.results import Results
from ivjoin.spark.spread.buckets import bucket_labels, count_in_task
from ivjoin.spark.spread.spec import identity
from ivjoin.spark.state.bucket import Arrivals, Turn, keep, play
from ivjoin.spark.state.journal import StateBackend, opened
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread

__all__ = ["BucketJoin"]


class BucketJoin:
    def __init__(
        self, spec: JoinSpec, buckets: int | None, results: Results, spread: StreamSpread = UNSPREAD,
        budget: Budget | None = None,
    ) -> None:
        self.spec = spread.run(spec)
        self._identity, self._buckets = identity(spec) | spread.identity, buckets
        self._owned, self._plans = spread.owner(spec), spread.plans
        self._results, self._budget = results, budget

    @cached_property
    def meta(self) -> str:
        """The identity of the join, which its state carries; known in a task."""
        return meta_text(self._identity, len(self._labels))

    @cached_property
    def _labels(self) -> tuple[int, ...]:
        return bucket_labels(count_in_task(self._buckets))

    def turn(self, label: int, came: Arrivals, state: StateBackend, turn: Turn) -> Iterator[pd.DataFrame]:
        """Join the input, yield the results, and write the state and the counts."""
        name = (self.meta, label)
        op = opened(self.spec, name, state, turn, self._budget)
        turn.before = op.metrics.as_dict()
        turn.mark()
        joined = play(op, self.spec, came, self._owned, late=self._results.late)
        yield from self._results.frames(turn.delay.counted(joined, came.arrived), label)
        turn.mark(self._results.sink_ns)
        written = state.written(compressed(op.snapshot()) if state.rebased else None)
        keep(name, state.after, op)
        yield self._results.counts(turn.counts(op, written, self._labels.index(label)))

    def plans_in(self, label: int) -> bool:
        return self._plans is not None and label == self._labels[0]

    def note(self, said: str, came: Arrivals) -> str:
        assert self._plans is not None
        return self._plans.planned(said, came.heard, [s.edges for s in came.seen])
