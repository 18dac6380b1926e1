"""Several operators side by side, each with the keys that hash to it: one join on as many threads.

The kernels let other Python threads run while they work, so partitions of the keys are joined at the same time in one
process. A row's order is a matter of its whole side, not of its partition: rows are screened for lateness before they
are dealt out, and after a piece each operator learns how far the side has come over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import Empty, Full, Queue
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import ConditionError
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.core import frontiers_of
from ivjoin.operator.intake import Intake
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.planner import JoinPlan

__all__ = ["ParallelJoin", "check_keys"]

_SIDES = ("left", "right")
_AHEAD = 16  # output batches that a partition may hold ready
_WAIT = 0.05  # seconds between two looks at whether anybody still reads
_SUMMED = (
    "left_rows_in", "right_rows_in", "rows_out", "left_rows_retired", "right_rows_retired", "state_rows", "state_bytes",
)  # fmt: skip


def check_keys(plan: JoinPlan, threads: int) -> None:
    """Refuse a plan whose rows cannot be dealt out.

    Raises
    ------
    ConditionError
        If no equality of columns spreads the rows.
    """
    keys = plan.sides[0].keys + plan.sides[1].keys
    if not keys or any(n.op not in ("column", "cast") or any(a.op != "column" for a in n.args) for n in keys):
        raise ConditionError(
            f"threads={threads} deals rows out by their join keys, and this join has "
            f"{'keys that are computed' if keys else 'none'}; use threads=1, or name key columns in `on`"
        )


class ParallelJoin:
    """What :class:`SymmetricHashJoin` does, by ``threads`` of them; fed piece by piece, output partition by partition.

    Parameters
    ----------
    plan : JoinPlan
        Screens the rows; its key expressions must be columns, which cannot err.
    make : function
        A new operator for the same join that accepts late rows (``on_late="join"``).
    threads : int
        At least 1.
    errors_first : bool
        As ``SymmetricHashJoin.from_plan`` has it.
    """

    def __init__(
        self, plan: JoinPlan, make: Callable[[], SymmetricHashJoin], threads: int, errors_first: bool = False
    ) -> None:
        self._plan = plan
        self._parts = [make() for _ in range(threads)]
        self._frontiers = frontiers_of(plan)
        self._intake = Intake(plan, self._frontiers, errors_first=errors_first)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ivjoin")
        self._metrics = JoinMetrics()

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts over all partitions; the peaks are of the sums."""
        m = self._metrics
        parts = [op.metrics for op in self._parts]
        for name in _SUMMED:
            setattr(m, name, sum(getattr(p, name) for p in parts))
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)
        return replace(m)

    def push(self, side: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Feed a batch to a side; what :meth:`SymmetricHashJoin.push` raises, and iterate to take the output.

        Raises
        ------
        SchemaError, LateRowError, EvaluationError
        """
        p = _SIDES.index(side)
        self._parts[0].check(side, batch)
        batch, late = self._intake.screen(p, batch)
        self._metrics.late_rows += late
        where = self._intake.partitions(p, batch, len(self._parts))
        edges = [t.edge if t.seen_value else None for t in self._frontiers[p].trackers]

        def work(number: int) -> Iterator[pa.RecordBatch]:
            op = self._parts[number]
            mine = np.flatnonzero(where == number)
            if len(mine):
                yield from op.push(side, batch.take(pa.array(mine)))
            yield from op.reach(side, edges)

        return self._together(work)

    def finish(self, side: str | None = None) -> Iterator[pa.RecordBatch]:
        """End one side, or both; iterate to take what that decides."""
        return self._together(lambda number: self._parts[number].finish(side))

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Which side (0 left, 1 right) to read next."""
        return self._parts[0].lagging(rows_left, rows_right)

    # -- threads -------------------------------------------------------------------------------------------------

    def _together(self, work: Callable[[int], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """The output of every partition's work, partition by partition, while all of them go on."""
        queues: list[Queue[pa.RecordBatch | None]] = [Queue(_AHEAD) for _ in self._parts]
        stop = Event()
        jobs = [self._pool.submit(_run, work, i, queue, stop) for i, queue in enumerate(queues)]
        try:
            for queue, job in zip(queues, jobs, strict=True):
                yield from _taken(queue, job)
        finally:
            stop.set()
            for job in jobs:
                job.exception()
        _ = self.metrics  # the state when a call has ended is what the peaks are of


def _run(
    work: Callable[[int], Iterator[pa.RecordBatch]], number: int, queue: Queue[pa.RecordBatch | None], stop: Event
) -> None:
    """One partition's work, into its queue; a None ends it, after an error too."""
    try:
        for batch in work(number):
            _put(queue, batch, stop)
    finally:
        _put(queue, None, stop)


def _put(queue: Queue[Any], item: Any, stop: Event) -> None:
    while not stop.is_set():
        try:
            queue.put(item, timeout=_WAIT)
            return
        except Full:
            continue


def _taken(queue: Queue[pa.RecordBatch | None], job: Future[None]) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = queue.get(timeout=_WAIT)
        except Empty:
            if job.done():
                job.result()
            continue
        if batch is None:
            job.result()
            return
        yield batch
