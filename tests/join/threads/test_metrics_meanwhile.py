"""Metrics read while another thread works: a valid answer that does not spoil later ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import Order, SymmetricHashJoin
from ivjoin.operator.match.kernel import reuse
from ivjoin.shj.store.rows import schedules, stored_rows

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "s": pa.string()})


def batch(seed: int, rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.integers(0, 2, rows)) + rng.integers(0, 50, rows)
    return pa.record_batch([pa.array(rng.integers(0, 9, rows)), pa.array(t), pa.array(["text"] * rows)], schema=SCHEMA)


def operator() -> SymmetricHashJoin:
    reuse.forget()  # or it begins with the room that one before it has left
    order = Order("t", slack=10_000)
    return SymmetricHashJoin(
        SCHEMA, SCHEMA, on="k", condition="l.t BETWEEN r.t - 5 AND r.t + 9", left_order=order, right_order=order
    )


def test_a_schedule_that_begins_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator()
    for p in ("left", "right"):
        list(op.push(p, batch(1, 300)))
    counted = op.metrics.state_bytes
    held = op._engine.stores[0].schedules
    heap = np.zeros(4, dtype=np.int64)
    size, came = schedules.in_memory, []

    def another_begins(array: np.ndarray) -> int:
        came.append(array)
        held._heaps[7, len(came)] = heap
        return size(array)

    assert held._heaps, "rows come out of order"
    monkeypatch.setattr(schedules, "in_memory", another_begins)
    assert op.metrics.state_bytes == counted and came
    for i in range(len(came)):  # a later operator takes the others over
        del held._heaps[7, i + 1]


@pytest.mark.parametrize("at", [0, 1])
def test_rows_that_arrive_meanwhile(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count taken while memory grows is not reported afterwards."""
    op, plain = operator(), operator()
    batches: list[tuple[str, pa.RecordBatch]] = [("left", batch(1, 50)), ("right", batch(2, 50))]
    for o in (op, plain):
        for p, b in batches:
            list(o.push(p, b))
    size: Any = stored_rows.in_memory
    calls: list[int] = []

    def grown(array: np.ndarray) -> int:
        found: int = size(array)
        calls.append(found)
        if len(calls) == 1 + at:
            for p in ("left", "right"):
                list(op.push(p, batch(3, 5000)))
        return found

    monkeypatch.setattr(stored_rows, "in_memory", grown)
    assert op.metrics.state_bytes > 0
    monkeypatch.undo()
    for p in ("left", "right"):
        list(plain.push(p, batch(3, 5000)))
    assert len(calls) > 1
    assert op.metrics.state_bytes == plain.metrics.state_bytes
    assert op.metrics.state_rows == plain.metrics.state_rows
