"""Let the state of a bucket continue in a join that differs in what may change (``spread.spec``)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ivjoin.operator.snapshot import MAGIC, VERSION, frontier_state, load_frontier, opened, sealed
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import JoinSpec

__all__ = ["moved"]


def moved(snapshot: bytes, spec: JoinSpec) -> bytes:
    """Return the snapshot of an operator as a snapshot of another join, with the same rows and frontiers.

    An order with a greater slack accepts later rows from now on. Rows that could match these may be gone already. So
    what the order has promised before becomes a watermark: a row below it is still late.
    """
    header, parts = opened(snapshot, MAGIC, VERSION)
    old, new = plan_of(JoinSpec.from_json(header["plan"])), plan_of(spec)
    header["plan"] = spec.as_json
    header["frontiers"] = [_frontier(saved, new, s) for s, saved in enumerate(header["frontiers"])]
    tables = [_columns(part, old, new, s) for s, part in enumerate(parts)]
    header["sizes"] = [len(table) for table in tables]
    return sealed(MAGIC, VERSION, header, tables)


def _frontier(saved: dict[str, Any], plan: JoinPlan, s: int) -> dict[str, Any]:
    frontier = plan.frontiers()[s]
    limits = [order["limit"] for order in saved["orders"]]
    for tracker, order in zip(frontier.trackers, saved["orders"], strict=True):
        order["limit"] = tracker.least_after(order["edge"])
    load_frontier(frontier, saved, s, plan.spec.schemas[s])
    for tracker, limit in zip(frontier.trackers, limits, strict=True):
        if limit != tracker.limit:
            frontier.promise(tracker.node, ~limit if tracker.descending else limit, tracker.descending)
    return frontier_state(frontier)


def _columns(part: bytes, old: JoinPlan, new: JoinPlan, s: int) -> bytes:
    """Return the stored rows of a side with their columns in the order of another plan."""
    before, after = ([p.sides[s].schema.names[i] for i in p.sides[s].stored] for p in (old, new))
    if before == after:
        return part
    batch = pa.ipc.open_stream(pa.py_buffer(part)).read_next_batch()
    columns = [batch.column(before.index(name)) for name in after] + [batch.columns[-1]]
    moved_rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, moved_rows.schema) as writer:
        writer.write_batch(moved_rows)
    return sink.getvalue().to_pybytes()
