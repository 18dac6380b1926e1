"""Second stage of a streaming join: the operator of one bucket, run over what a micro-batch brought for it.

In one call: restore the operator (or take it from this worker's memory), probe and insert the rows of both sides, move
both frontiers to what the ticks say, prune and emit, write the state. Rows are measured for lateness against the
frontier that earlier micro-batches left, so the order of rows and of tasks within a micro-batch changes nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.ordinal import ordinals
from ivjoin.plan import SIDES, JoinPlan
from ivjoin.spark.codec import FORMAT, meta_text, read_state, version_token
from ivjoin.spark.frames import as_frame
from ivjoin.spark.frontier import reach
from ivjoin.spark.pack import Seen, unpacked
from ivjoin.spark.spec import JoinSpec, identity
from ivjoin.symmetric import SymmetricHashJoin

__all__ = ["COUNTS", "COUNTS_COLUMN", "bucket_function", "run_bucket"]

COUNTS_COLUMN = "_ivjoin_counts"
# What one call counts, in the order of the text in COUNTS_COLUMN; times in microseconds.
COUNTS = (
    "left_rows_in", "right_rows_in", "rows_out", "left_rows_retired", "right_rows_retired", "late_rows", "state_rows",
    "state_bytes", "bytes_written", "restored", "read_us", "join_us", "write_us",
)
_GROWING = COUNTS[:6]

# Operators left by the last call of each bucket in this worker, oldest first. Taken out while in use; good only while
# the state that Spark hands in carries the token that the operator wrote.
_kept: OrderedDict[tuple[str, int], tuple[str, SymmetricHashJoin]] = OrderedDict()
_MOST_KEPT = 256
_MOST_KEPT_BYTES = 512 << 20

StateFunction = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def bucket_function(spec: JoinSpec, buckets: int) -> StateFunction:
    """The function that ``applyInPandasWithState`` calls once per bucket and micro-batch."""
    meta = meta_text(identity(spec), buckets)

    def join_bucket(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        clock = time.perf_counter_ns()
        op, restored = _opened(spec, meta, int(key[0]), state.get if state.exists else None)
        before = op.metrics.as_dict()
        parts, seen = _taken(spec, frames)
        read = time.perf_counter_ns()
        for batch in run_bucket(op, parts, seen):
            yield as_frame(batch.append_column(COUNTS_COLUMN, pa.nulls(batch.num_rows, pa.string())))
        joined = time.perf_counter_ns()
        payload = op.snapshot()
        token = version_token(payload)
        state.update((FORMAT, meta, token, payload))
        _keep((meta, int(key[0])), token, op)
        after = op.metrics.as_dict()
        counts = {name: after[name] - before[name] for name in _GROWING}
        counts |= {name: after[name] for name in ("state_rows", "state_bytes")}
        counts |= {"bytes_written": len(payload), "restored": int(restored)}
        spans = (read - clock, joined - read, time.perf_counter_ns() - joined)
        counts |= {name: span // 1000 for name, span in zip(("read_us", "join_us", "write_us"), spans, strict=True)}
        yield as_frame(_trailer(op.schema, ",".join(str(counts[name]) for name in COUNTS)))

    return join_bucket


def run_bucket(
    op: SymmetricHashJoin, parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]], seen: tuple[Seen, Seen]
) -> Iterator[pa.RecordBatch]:
    """All rows of a micro-batch, then both frontiers; yields the output."""
    for s in (0, 1):
        batch = _in_order(op.plan, s, parts[s])
        if batch is not None:
            yield from op.push(SIDES[s], batch)
    for s in (0, 1):
        yield from reach(op, s, seen[s].edges)


def _opened(spec: JoinSpec, meta: str, label: int, stored: Any) -> tuple[SymmetricHashJoin, bool]:
    """The bucket's operator (a new one, the one in memory, or one made from the state), and whether it was restored."""
    kept = _kept.pop((meta, label), None)
    if stored is None:
        return SymmetricHashJoin.from_plan(spec.plan(), late_within=False), False
    state = read_state(stored, meta)
    if kept is not None and kept[0] == state.token:
        return kept[1], False
    return SymmetricHashJoin.restore(state.payload), True


def _keep(key: tuple[str, int], token: str, op: SymmetricHashJoin) -> None:
    _kept[key] = (token, op)
    held = sum(o.metrics.state_bytes for _, o in _kept.values())
    while len(_kept) > _MOST_KEPT or (held > _MOST_KEPT_BYTES and len(_kept) > 1):
        _, (_, old) = _kept.popitem(last=False)
        held -= old.metrics.state_bytes


def _taken(
    spec: JoinSpec, frames: Iterator[pd.DataFrame]
) -> tuple[tuple[list[pa.RecordBatch], list[pa.RecordBatch]], tuple[Seen, Seen]]:
    """The packed rows of a group, opened, and what the ticks say of each side."""
    plan = spec.plan()
    parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    seen = (Seen(plan, 0), Seen(plan, 1))
    for frame in frames:
        for side, rows, tick in zip(frame["side"], frame["rows"], frame["seen"], strict=True):
            if rows is not None:
                parts[side].append(unpacked(rows, spec.schemas[side]))
            if tick is not None:
                seen[side].merge(tick)
    return parts, seen


def _in_order(plan: JoinPlan, side: int, pieces: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """One batch, ascending in the primary axis: the index of a side is kept in that order, and Spark promises none."""
    if not pieces:
        return None
    batch = pieces[0] if len(pieces) == 1 else pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
    axes = plan.sides[side].axes
    if not axes:
        return batch
    index = {name: i for i, name in enumerate(plan.sides[side].schema.names)}
    v = evaluate([axes[0]], lambda _, name: batch.column(index[name]), batch.num_rows)[0]
    image = ordinals(v.values, axes[0].type)
    if len(image) < 2 or bool((image[1:] >= image[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(image, kind="stable")))


def _trailer(schema: pa.Schema, counts: str) -> pa.Table:
    """Two rows that carry the counts, dropped before the user sees them.

    Two, because PySpark pads a batch that has fewer rows than states, and never has to when each call adds two.
    """
    columns = [pa.nulls(2, f.type) for f in schema]
    return pa.table([*columns, pa.array([counts, ""])], names=[*schema.names, COUNTS_COLUMN])
