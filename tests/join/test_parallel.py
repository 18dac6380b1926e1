"""band_join(threads=...) against one thread: the same rows, whatever the keys, and errors that come through."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import ConditionError, EvaluationError, IvjoinError, LateRowError, Order, band_join

BAND = "l.x BETWEEN r.x - 6 AND r.x + 3"


def side(seed: int, rows: int, rough: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.integers(0, 2, rows)) - rng.integers(0, rough + 1, rows)
    k = rng.integers(0, 40, rows)
    null = rng.random(rows) < 0.05
    return pa.table({
        "k": pa.array(k, pa.int32(), mask=null), "s": pa.array([f"key {i % 7}" for i in k], mask=null),
        "x": x, "v": np.arange(rows),
    })  # fmt: skip


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("on", ["k", "s", ["k", "s"]])
@pytest.mark.parametrize(
    "how", ["inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti"]
)
def test_the_same_rows(how: str, on: Any, threads: int) -> None:
    left, right = side(1, 3000, 2), side(2, 3000, 2)
    order = Order("x", slack=2)
    options = {"on": on, "condition": BAND + " AND l.v <> r.v", "how": how, "left_order": order, "right_order": order}
    one = band_join(left, right, **options)
    many = band_join(
        left.to_batches(max_chunksize=200), right.to_batches(max_chunksize=200), threads=threads, **options
    )
    assert rows_of(many.read_all()) == rows_of(one.read_all())
    a, b = one.metrics, many.metrics
    assert (a.left_rows_in, a.right_rows_in, a.rows_out) == (b.left_rows_in, b.right_rows_in, b.rows_out)
    assert b.state_rows == 0
    assert 0 < b.peak_state_rows < 900


@pytest.mark.parametrize("on_late", ["raise", "drop", "join"])
def test_lateness_is_that_of_the_side_not_of_a_partition(on_late: str) -> None:
    left, right = side(3, 2000, 3), side(4, 2000)
    options = {"on": "k", "condition": BAND, "left_order": "x", "right_order": "x", "on_late": on_late}

    def run(threads: int) -> tuple[Any, int]:
        stream = band_join(left.to_batches(max_chunksize=64), right, threads=threads, **options)
        try:
            return rows_of(stream.read_all()), stream.metrics.late_rows
        except LateRowError as e:
            return str(e), 0

    many, one = run(2), run(1)
    assert many[1] == one[1]
    if on_late != "join":  # what a late row still finds depends on what has been pruned when it comes
        assert many[0] == one[0]
    else:
        assert many[1] > 0


def test_an_error_of_one_partition_ends_the_join() -> None:
    left = pa.table({"k": np.arange(100), "x": np.arange(100), "d": [0 if i == 70 else 1 for i in range(100)]})
    with pytest.raises(EvaluationError, match="by zero"):
        band_join(left, left, on="k", condition="l.x % r.d = 0", threads=2).read_all()


def test_a_reader_that_stops_leaves_no_thread_at_work() -> None:
    n = 2000
    left = pa.table({"k": np.arange(n) % 2, "x": np.zeros(n, dtype=np.int64)})
    stream = band_join(left, left, on="k", condition="l.x = r.x OR l.x < 0", batch_size=100, threads=2)
    batches = iter(stream)
    first = next(batches)
    assert first.num_rows == 100
    batches.close()  # type: ignore[attr-defined]
    busy = [t for t in threading.enumerate() if t.name.startswith("ivjoin")]
    assert all(t.is_alive() for t in busy)  # the pool's idle workers; none is stuck, or close() would not have returned
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"condition": BAND, "threads": 2}, "none; use threads=1"),
        ({"condition": "l.k + 1 = r.k", "threads": 2}, "computed; use threads=1"),
        ({"on": "k", "threads": 0}, "threads is 0"),
        ({"on": "k", "threads": True}, "threads is True"),
    ],
)
def test_what_cannot_be_dealt_out_is_refused(options: dict[str, Any], message: str) -> None:
    left = side(1, 10)
    with pytest.raises((ConditionError, IvjoinError), match=message):
        band_join(left, left, **options)
