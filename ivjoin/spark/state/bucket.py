"""One bucket's turn in a micro-batch, whatever keeps its state: open what came, run the operator, count.

All rows are probed and inserted first, then both frontiers move to what the ticks say, and what that decides comes out.
Rows are measured for lateness against the frontier that earlier micro-batches left, so neither the order of rows nor
that of tasks within a micro-batch changes anything.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.errors import MemoryLimitError
from ivjoin.expr.ordinal import ordinals
from ivjoin.frontier.order import Order
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.delays import DELAYS, Arrived, Delay
from ivjoin.spark.rows.pack import Seen, unpacked, whole
from ivjoin.spark.rows.results import COUNTS, GROWING, late_rows

__all__ = [
    "COUNTS", "GROWING", "Arrivals", "Keep", "Turn", "arrivals", "keep", "new_operator", "play",
    "restored", "taken",
]

Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(slots=True)
class Arrivals:
    """What a micro-batch brought for a bucket.

    Attributes
    ----------
    packed : (list of bytes, list of bytes)
        Rows of the left and right side, as ``pack`` packed them.
    seen : (Seen, Seen)
        How far each side has come, over all tasks.
    heard : list of dict
        What each map task tells the planner, in the planner's bucket.
    arrived : Arrived
        When the micro-batch's rows came, in all buckets.
    """

    packed: tuple[list[bytes], list[bytes]]
    seen: tuple[Seen, Seen]
    heard: list[dict[str, Any]] = field(default_factory=list)
    arrived: Arrived = field(default_factory=Arrived)


def arrivals(spec: JoinSpec, frames: Iterator[pd.DataFrame]) -> Arrivals:
    """A group's packed rows and ticks, sorted out."""
    plan = plan_of(spec)
    out = Arrivals(([], []), (Seen(plan, 0), Seen(plan, 1)))
    for frame in frames:
        for side, rows, tick in zip(frame["side"], frame["rows"], frame["seen"], strict=True):
            # An absent value is None or, where pandas saw none but absent ones, NaN.
            if isinstance(rows, (bytes, bytearray)):
                out.packed[int(side)].append(bytes(rows))
            if isinstance(tick, (bytes, bytearray)):
                edges, arrived, *heard = json.loads(bytes(tick))
                out.arrived.merge(arrived)
                out.seen[int(side)].merge(edges)
                out.heard += heard
    return out


def new_operator(spec: JoinSpec, budget: Budget | None = None) -> SymmetricHashJoin:
    """Return an operator without rows.

    Under ``on_late="raise"`` it drops late rows, too, and :func:`play` raises the error. The stored state is then the
    same for both, and a query that stopped at a late row can continue from its checkpoint with ``on_late="drop"``.
    """
    run = spec.with_late("drop") if spec.on_late == "raise" else spec
    return SymmetricHashJoin.from_plan(plan_of(run), late_within=False, budget=budget)


def restored(snapshot: bytes, budget: Budget | None = None) -> SymmetricHashJoin:
    """The operator that wrote a snapshot, within a limit.

    Raises
    ------
    MemoryLimitError
    """
    with _said_of_a_bucket():
        return SymmetricHashJoin.restore(snapshot, memory_limit=None if budget is None else budget.limit)


def play(
    op: SymmetricHashJoin, spec: JoinSpec, came: Arrivals, keep: Keep | None = None, *, again: bool = False
) -> Iterator[pa.RecordBatch]:
    """All rows of a micro-batch, then both frontiers; yields the output, of each batch what ``keep`` leaves.

    ``again``: whether an earlier call has accepted these rows, so that late ones were dropped.

    Raises
    ------
    LateRowError
        If a row is late under ``on_late="raise"``.
    """
    out = _played(op, spec, came, refuses=spec.on_late == "raise" and not again)
    with _said_of_a_bucket():
        yield from out if keep is None else (kept for batch in out if (kept := keep(batch)).num_rows)


@contextmanager
def _said_of_a_bucket() -> Iterator[None]:
    try:
        yield
    except MemoryLimitError as e:
        what = str(e).partition(" Fixes:")[0]
        raise MemoryLimitError(
            f"{what} Of a stream, memory_limit bounds the state of each bucket. Fixes: a greater memory_limit, and "
            "the query continues from its checkpoint; fewer rows in a micro-batch (maxFilesPerTrigger, "
            "maxOffsetsPerTrigger); a narrower window, or orders that evict rows; more buckets, with a new checkpoint"
        ) from e


def _played(op: SymmetricHashJoin, spec: JoinSpec, came: Arrivals, refuses: bool) -> Iterator[pa.RecordBatch]:
    for s in (0, 1):
        if came.packed[s]:
            pieces = [unpacked(rows, spec.schemas[s]) for rows in came.packed[s]]
            before = op.metrics.late_rows
            yield from _pushed(op, s, _in_order(op.plan, s, whole(pieces)))
            if refuses and op.metrics.late_rows > before:
                promised = [*(o.expr for o in spec.orders[s]), *(node for node, *_ in spec.bounds[s])]
                raise late_rows(op.metrics.late_rows - before, SIDES[s], promised)
    for s in (0, 1):
        yield from op.reach(SIDES[s], came.seen[s].declared)


def _pushed(op: SymmetricHashJoin, side: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Push the rows of a side: at once, or within a limit in pieces where none can be late for another's sake."""
    most = op.rows_at_once(SIDES[side], rows)
    plan = op.plan.sides[side]
    if rows.num_rows <= most or not all(n in plan.axes[:1] and _rises(o) for n, _, o in plan.orders):
        yield from op.push(SIDES[side], rows)
        return
    for start in range(0, rows.num_rows, most):
        yield from op.push(SIDES[side], rows.slice(start, most))


def _rises(order: Order) -> bool:
    return not order.descending and order.nulls is None


def _in_order(plan: JoinPlan, side: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, ascending in the primary axis: the index of a side is kept in that order, and Spark promises none."""
    axes = plan.sides[side].axes
    if not axes:
        return batch
    index = {name: i for i, name in enumerate(plan.sides[side].schema.names)}
    v = evaluate([axes[0]], lambda _, name: batch.column(index[name]), batch.num_rows)[0]
    image = ordinals(v.values, axes[0].type)
    if len(image) < 2 or bool((image[1:] >= image[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(image, kind="stable")))


@dataclass(slots=True)
class Turn:
    """Counts and clock of one turn."""

    before: dict[str, int]
    restored: bool = False
    caught_up: int = 0  # turns of other workers that were played again
    marks: list[int] = field(default_factory=lambda: [time.perf_counter_ns()])
    delay: Delay = field(default_factory=Delay)

    def mark(self, of_the_next: int = 0) -> None:
        """End of a stage: reading, joining, writing; some nanoseconds of it may count for the next one."""
        self.marks.append(time.perf_counter_ns() - of_the_next)

    def rows_in(self, op: SymmetricHashJoin) -> int:
        """Rows of both sides that came in this turn."""
        return sum(getattr(op.metrics, name) - self.before[name] for name in GROWING[:2])

    def counts(self, op: SymmetricHashJoin, bytes_written: int, bucket: int) -> str:
        """What the turn counted, as text that Spark takes apart again; last the number of the bucket."""
        self.mark()
        after = op.metrics.as_dict()
        counts = {name: after[name] - self.before[name] for name in GROWING}
        counts["rows_out"] = self.delay.rows_out  # what the operator puts out need not all be owned
        counts |= {name: after[name] for name in ("state_rows", "state_bytes")}
        counts |= zip(DELAYS, self.delay.counts, strict=True)
        counts |= {"bytes_written": bytes_written, "restored": int(self.restored), "caught_up": int(self.caught_up > 0)}
        spans = [b - a for a, b in zip(self.marks, self.marks[1:], strict=False)]
        counts |= {name: span // 1000 for name, span in zip(COUNTS[-3:], spans, strict=True)}
        return ",".join(str(n) for n in (*(counts[name] for name in COUNTS), bucket))


# -- operators kept in memory --------------------------------------------------------------------------------------

# Operators left by the last turn of each bucket in this worker, oldest first. Taken out while in use; good only while
# the state that Spark hands in carries the token that the operator's turn wrote.
_kept: OrderedDict[tuple[str, int], tuple[str, SymmetricHashJoin]] = OrderedDict()
_MOST_KEPT = 256
_MOST_KEPT_BYTES = 512 << 20


def taken(key: tuple[str, int]) -> tuple[str, SymmetricHashJoin] | None:
    """The operator in memory and the token of the state that it is; it is taken out."""
    return _kept.pop(key, None)


def keep(key: tuple[str, int], token: str, op: SymmetricHashJoin) -> None:
    """Hold an operator for the bucket's next turn, should this worker get it; together within the limit of one."""
    _kept[key] = (token, op)
    held = sum(o.metrics.state_bytes for _, o in _kept.values())
    most = _MOST_KEPT_BYTES if op.account.limit is None else min(_MOST_KEPT_BYTES, op.account.limit)
    while len(_kept) > _MOST_KEPT or (held > most and len(_kept) > 1):
        _, (_, old) = _kept.popitem(last=False)
        held -= old.metrics.state_bytes
