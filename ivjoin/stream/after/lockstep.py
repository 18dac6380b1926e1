"""Run several lookups of each left row of pushed inputs, with one operator each. Emit rows when all have finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from ivjoin.errors import MemoryLimitError, ProtocolError
from ivjoin.frontier.late import Report
from ivjoin.frontier.tracking import Frontier
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.arrow import whole_numbers
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import from_plain_rows, plain_rows, rows_at
from ivjoin.stream.sources.columns import Chosen

__all__ = ["Lockstep"]


class Lockstep:
    """Several operators that receive the same rows. A left row is emitted when each operator has emitted it.

    In the output of ``steps``, the first column ``number`` has the left rows' numbers. ``raw`` is the output schema.
    """

    def __init__(
        self, steps: Sequence[Chosen], number: str, raw: pa.Schema, batch_size: int, errors_first: bool,
        budget: Budget | None,
    ) -> None:
        self._steps, self._number, self._raw, self._size, self._budget = steps, number, raw, batch_size, budget
        own = None if budget is None else replace(budget, limit=max(1, budget.limit // len(steps)))
        self._ops = [SymmetricHashJoin.from_plan(s.plan, errors_first=errors_first, budget=own) for s in steps]
        self._waiting: list[list[pa.RecordBatch]] = [[] for _ in steps]
        self._base = 0  # the number of the first row that may not be emitted yet
        self._emitted = np.zeros(0, dtype=np.int32)  # how many operators have emitted each row from ``_base`` on
        self._out = 0
        self._peak = 0, 0

    @property
    def plan(self) -> JoinPlan:
        return self._ops[0].plan

    @property
    def frontiers(self) -> tuple[Frontier, Frontier]:
        return self._ops[0].frontiers

    @property
    def metrics(self) -> JoinMetrics:
        """Count the rows, and the state of all operators together, including rows that wait for one of them."""
        every = [op.metrics for op in self._ops]
        waiting = [batch for step in self._waiting for batch in step]
        rows = sum(m.state_rows for m in every) + sum(batch.num_rows for batch in waiting)
        nbytes = sum(m.state_bytes for m in every) + sum(batch.nbytes for batch in waiting)
        self._peak = max(self._peak[0], rows), max(self._peak[1], nbytes)
        return replace(
            every[0], rows_out=self._out, state_rows=rows, state_bytes=nbytes, peak_state_rows=self._peak[0],
            peak_state_bytes=self._peak[1], spilled_rows=sum(m.spilled_rows for m in every),
            spilled_bytes=sum(m.spilled_bytes for m in every),
        )

    def report_late(self, report: Report | None) -> None:
        """Set a function that is called with the side and each batch of late rows."""
        if self.plan.spec.on_late != "drop":
            return

        def late(side: str, batch: pa.RecordBatch) -> None:
            if side == SIDES[0]:
                self._emitted[np.asarray(batch.column(self._number)) - self._base] = len(self._ops) + 1
                batch = batch.drop_columns([self._number])
            if report is not None:
                report(side, batch)

        self._ops[0].report_late(late)

    def output_bounds(self) -> NoReturn:
        raise ProtocolError("output_bounds() is not known for offsets= and interpolate=; call asof_join without these")

    def close(self) -> None:
        self._waiting = [[] for _ in self._steps]

    def lagging(self, rows_left: int, rows_right: int) -> int:
        return self._ops[0].lagging(rows_left, rows_right)

    def push(self, side: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if side == SIDES[0]:
            first = self._base + len(self._emitted)
            numbers = whole_numbers(np.arange(first, first + batch.num_rows))
            self._emitted = np.concatenate((self._emitted, np.zeros(batch.num_rows, dtype=np.int32)))
            batch = batch.append_column(pa.field(self._number, pa.int64(), nullable=False), numbers)
        p = SIDES.index(side)
        yield from self._each(lambda op, step: op.push(side, batch.select(step.names[p])))

    def advance(self, side: str, values: Mapping[Any, Any]) -> Iterator[pa.RecordBatch]:
        yield from self._each(lambda op, _: op.advance(side, values))

    def finish(self, side: str | None = None) -> Iterator[pa.RecordBatch]:
        yield from self._each(lambda op, _: op.finish(side))

    def _each(
        self, call: Callable[[SymmetricHashJoin, Chosen], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Call all operators, and yield the rows that all of them have now emitted."""
        for op, step, waiting in zip(self._ops, self._steps, self._waiting, strict=True):
            for batch in call(op, step):
                waiting.append(step.pick(batch))
                self._emitted[np.asarray(waiting[-1].column(0)) - self._base] += 1
        if self._budget is not None and (nbytes := self.metrics.state_bytes) > self._budget.limit:
            raise MemoryLimitError(
                f"the lookups store {nbytes:,} bytes, more than the memory_limit of {self._budget.limit:,}; give fewer "
                "or nearer offsets, or a greater limit"
            )
        ready = self._emitted == len(self._ops)
        if ready.any():
            first, *others = (self._taken(i, ready) for i in range(len(self._ops)))
            self._emitted[ready] += 1
            arrays = [*first.columns[1:], *(column for rows in others for column in rows.columns[1:])]
            whole = pa.RecordBatch.from_arrays(arrays, self._raw.names) if arrays else first
            for start in range(0, len(whole), self._size):
                for batch in from_plain_rows(whole.slice(start, self._size), self._raw):
                    self._out += batch.num_rows
                    yield batch
        done = self._emitted > len(self._ops)
        over = len(done) if done.all() else int(done.argmin())
        self._base, self._emitted = self._base + over, self._emitted[over:]

    def _taken(self, i: int, ready: np.ndarray) -> pa.RecordBatch:
        """Return the ready rows of an operator, sorted by number. The other rows continue to wait."""
        found, rest = [], []
        for batch in self._waiting[i]:
            there = ready[np.asarray(batch.column(0)) - self._base]
            every = bool(there.all())
            if there.any():
                found.append(batch if every else rows_at(batch, np.flatnonzero(there)))
            if not every:
                rest.append(rows_at(batch, np.flatnonzero(~there)) if there.any() else batch)
        self._waiting[i] = rest
        rows, = combined(plain_rows(pa.Table.from_batches(found))).to_batches()
        numbers = np.asarray(rows.column(0))
        return rows if (numbers[1:] > numbers[:-1]).all() else rows_at(rows, np.argsort(numbers))
