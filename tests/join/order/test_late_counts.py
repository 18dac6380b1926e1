"""Late rows are counted for each side, also after an operator rebuilds its state."""

from __future__ import annotations

import pyarrow as pa

from ivjoin import SymmetricHashJoin


def batch(*rows: tuple[int, int, int]) -> pa.RecordBatch:
    return pa.record_batch(dict(zip("abt", (pa.array(c) for c in zip(*rows, strict=True)), strict=True)))


def test_a_computed_key_that_is_given_up_loses_no_late_row() -> None:
    late: list[int] = []
    one = batch((4, 2, 10))
    op = SymmetricHashJoin(
        one.schema, one.schema, condition="l.a div l.b = r.a AND l.t <= r.t + 5 AND l.a < 100", left_order="t",
        on_late=lambda side, rows: late.extend(rows["t"].to_pylist()),
    )
    list(op.push("left", batch((4, 2, 10), (4, 2, 1), (4, 2, 2))))
    list(op.push("left", batch((200, 0, 11), (4, 2, 3))))
    assert late == [1, 2, 3]
    assert (op.metrics.late_rows, op.metrics.left_late_rows, op.metrics.right_late_rows) == (3, 3, 0)
    op.push("right", batch((2, 1, 12))).close()  # the operator stops, and lets its state go
    assert (op.metrics.late_rows, op.metrics.left_late_rows) == (3, 3)
