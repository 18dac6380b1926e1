"""Run one bucket's turn in a micro-batch: unpack its input, run the operator, count. Any backend may store the state.

A turn first probes and inserts all rows. Then both frontiers advance to the values in the ticks, and the rows that this
decides are emitted. A row is late if it is below the frontier after the earlier micro-batches. The result therefore
does not depend on the order of rows or tasks within a micro-batch.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import pandas as pd
import pyarrow as pa

from ivjoin.frontier.order import Order
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import in_order
from ivjoin.spark.rows.late import KEEP, LateRows
from ivjoin.spark.rows.pack import Seen, unpacked, whole
from ivjoin.spark.rows.results import COUNTS, DELAYS, GROWING, Arrived, Delay, late_rows, limit_explained

__all__ = [
    "COUNTS", "GROWING", "Arrivals", "Keep", "Turn", "arrivals", "keep", "new_operator", "play", "received", "restored",
    "run_spec", "taken",
]  # fmt: skip

Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(slots=True)
class Arrivals:
    """The input of a bucket in one micro-batch."""

    packed: tuple[list[bytes], ...]  # rows of each side, as ``pack`` packed them
    seen: tuple[Seen, ...]  # the greatest values of the orders of each side, over all tasks
    heard: list[dict[str, Any]] = field(default_factory=list)  # reports to the planner, only in its bucket
    arrived: Arrived = field(default_factory=Arrived)  # when the micro-batch's rows arrived, in all buckets


def arrivals(spec: JoinSpec, frames: Iterator[pd.DataFrame]) -> Arrivals:
    plan = plan_of(spec)
    return received((Seen(plan, 0), Seen(plan, 1)), frames)


def received(seen: tuple[Seen, ...], frames: Iterator[pd.DataFrame]) -> Arrivals:
    """Separate a group's packed rows from its ticks, by side."""
    out = Arrivals(tuple([] for _ in seen), seen)
    for frame in frames:
        for side, rows, tick in zip(frame["side"], frame["rows"], frame["seen"], strict=True):
            # An absent value is None. If all values of a column are absent, pandas stores NaN.
            if isinstance(rows, (bytes, bytearray)):
                out.packed[int(side)].append(bytes(rows))
            if isinstance(tick, (bytes, bytearray)):
                edges, arrived, *heard = json.loads(bytes(tick))
                out.arrived.merge(arrived)
                out.seen[int(side)].merge(edges)
                out.heard += heard
    return out


def new_operator(spec: JoinSpec, budget: Budget | None = None) -> SymmetricHashJoin:
    """Return an operator without rows, for the join of :func:`run_spec`."""
    return SymmetricHashJoin.from_plan(plan_of(run_spec(spec)), late_within=False, budget=budget)


def run_spec(spec: JoinSpec) -> JoinSpec:
    """Return the join that the operator of a bucket runs.

    With ``on_late="raise"``, the operator also drops late rows, and :func:`play` raises the error. A query that stopped
    at a late row can therefore continue from its checkpoint with ``on_late="drop"``.
    """
    return spec.with_late("drop") if spec.on_late in ("raise", KEEP) else spec


def restored(snapshot: bytes, budget: Budget | None = None) -> SymmetricHashJoin:
    """Return the operator that wrote a snapshot, with the memory limit of the budget."""
    with limit_explained(_OF_A_BUCKET):
        return SymmetricHashJoin.restore(snapshot, memory_limit=None if budget is None else budget.limit)


def play(
    op: SymmetricHashJoin, spec: JoinSpec, came: Arrivals, keep: Keep | None = None, *, again: bool = False,
    late: LateRows | None = None,
) -> Iterator[pa.RecordBatch]:
    """Push all rows of a micro-batch, then advance both frontiers. Yield the output, filtered by ``keep``.

    Late rows raise no error if an earlier call has accepted them (``again``), or if ``late`` collects them.
    """
    out = _played(op, spec, came, spec.on_late == "raise" and not again and late is None, late)
    with limit_explained(_OF_A_BUCKET):
        yield from out if keep is None else (kept for batch in out if (kept := keep(batch)).num_rows)


_OF_A_BUCKET = (
    "Of a stream, memory_limit bounds the state of each bucket. Fixes: a greater memory_limit, and the query continues "
    "from its checkpoint; fewer rows in a micro-batch (maxFilesPerTrigger, maxOffsetsPerTrigger); a narrower window, "
    "or orders that evict rows; more buckets, with a new checkpoint"
)


def _played(
    op: SymmetricHashJoin, spec: JoinSpec, came: Arrivals, refuses: bool, late: LateRows | None
) -> Iterator[pa.RecordBatch]:
    for s in (0, 1):
        if came.packed[s]:
            pieces = [unpacked(rows, spec.schemas[s]) for rows in came.packed[s]]
            before = op.metrics.late_rows
            if late is not None:
                late.watch(op, s)
            yield from _pushed(op, s, in_order(op.plan, s, whole(pieces)))
            if refuses and op.metrics.late_rows > before:
                promised = [*(o.expr for o in spec.orders[s]), *(node for node, *_ in spec.bounds[s])]
                raise late_rows(op.metrics.late_rows - before, SIDES[s], promised)
    op.report_late(None)
    for s in (0, 1):
        yield from op.reach(SIDES[s], came.seen[s].declared)


def _pushed(op: SymmetricHashJoin, side: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Push the rows of a side at once; with a memory limit in pieces, if no piece can make later rows late."""
    most = op.rows_at_once(SIDES[side], rows)
    plan = op.plan.sides[side]
    if rows.num_rows <= most or not all(n in plan.axes[:1] and _rises(o) for n, _, o in plan.orders):
        yield from op.push(SIDES[side], rows)
        return
    for start in range(0, rows.num_rows, most):
        yield from op.push(SIDES[side], rows.slice(start, most))


def _rises(order: Order) -> bool:
    return not order.descending and order.nulls is None


@dataclass(slots=True)
class Turn:
    before: dict[str, int] = field(default_factory=dict)
    restored: bool = False
    caught_up: int = 0  # turns of other workers that this worker replayed from the log
    start: int = field(default_factory=perf_counter_ns)
    read: int = 0  # when the operator had the state of the turn before
    delay: Delay = field(default_factory=Delay)

    def counts(self, op: SymmetricHashJoin, bytes_written: int, bucket: int) -> str:
        """Return the counts of the turn as text, which Spark parses. The last value is the number of the bucket."""
        after = op.metrics.as_dict()
        counts = {name: after[name] - self.before[name] for name in GROWING}
        counts["rows_out"] = self.delay.rows_out  # the operator may emit rows that this bucket does not own
        counts |= {name: after[name] for name in ("state_rows", "state_bytes")}
        counts |= zip(DELAYS, self.delay.counts, strict=True)
        counts |= {"bytes_written": bytes_written, "restored": int(self.restored), "caught_up": int(self.caught_up > 0)}
        counts |= zip(COUNTS[-3:], self.delay.stages(self.start, self.read), strict=True)
        return ",".join(str(n) for n in (*(counts[name] for name in COUNTS), bucket))


# -- operators cached in memory ------------------------------------------------------------------------------------

# Operators that the last turn of each bucket left in this worker, oldest first. A turn removes its operator while it
# uses it. An operator is valid only if the state from Spark has the token that the operator's turn wrote.
_kept: OrderedDict[tuple[str, int], tuple[str, SymmetricHashJoin]] = OrderedDict()
_MOST_KEPT = 256
_MOST_KEPT_BYTES = 512 << 20


def taken(key: tuple[str, int]) -> tuple[str, SymmetricHashJoin] | None:
    """Remove the cached operator of a bucket and return it with the token of its state."""
    return _kept.pop(key, None)


def keep(key: tuple[str, int], token: str, op: SymmetricHashJoin) -> None:
    """Cache an operator in case this worker runs the bucket's next turn. All of them share one operator's limit."""
    _kept[key] = (token, op)
    size = sum(o.metrics.state_bytes for _, o in _kept.values())
    most = _MOST_KEPT_BYTES if op.account.limit is None else min(_MOST_KEPT_BYTES, op.account.limit)
    while len(_kept) > _MOST_KEPT or (size > most and len(_kept) > 1):
        _, (_, old) = _kept.popitem(last=False)
        size -= old.metrics.state_bytes
