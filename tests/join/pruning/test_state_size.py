"""After many rows with a small window, the state is about the size of the window: every way to leak rows."""

from __future__ import annotations

import gc
import itertools
import weakref
from functools import lru_cache
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
from join.weak import WEAK, Weak, expected, in_order, ints, record
from seeds import each, in_blocks

import ivjoin
from ivjoin import Order, SymmetricHashJoin
from ivjoin.operator.match.kernel import reuse

BATCH = 256
FAST, LONG = 5_000, 1_000_000


def joined(how: str, pairs: np.ndarray, n: int, m: int) -> np.ndarray:
    """The output of a join type from its matching pairs, -1 where a side is absent."""
    lone = np.setdiff1d(np.arange(n), pairs[:, 0])
    other = np.setdiff1d(np.arange(m), pairs[:, 1])
    lone, other = (np.stack([x, np.full(len(x), -1)], axis=1) for x in (lone, other))
    met, seen = (np.unique(pairs[:, k]) for k in (0, 1))
    return in_order(
        {
            "inner": pairs, "left": np.concatenate([pairs, lone]), "right": np.concatenate([pairs, other[:, ::-1]]),
            "full": np.concatenate([pairs, lone, other[:, ::-1]]),
            "left_semi": np.stack([met, np.full(len(met), -1)], axis=1),
            "left_anti": lone,
            "right_semi": np.stack([np.full(len(seen), -1), seen], axis=1),
            "right_anti": other[:, ::-1],
        }[how]
    )


def call(weak: Weak, how: str) -> dict[str, Any]:
    options = {
        k: ivjoin.Order(**v) if k.endswith("order") and isinstance(v, dict) else v for k, v in weak.options.items()
    }
    return {"condition": weak.condition, "how": how, **options}


def out_pairs(how: str, batches: list[pa.RecordBatch], schema: pa.Schema) -> np.ndarray:
    table = pa.Table.from_batches(batches, schema)
    absent = pa.array(np.full(table.num_rows, -1))
    n = table.column("n").fill_null(-1)
    if how.startswith("left_"):
        columns = [n, absent]
    elif how.startswith("right_"):
        columns = [absent, n]
    else:
        columns = [n, table.column("n_right").fill_null(-1)]
    return in_order(np.stack([c.to_numpy() for c in columns], axis=1))


def run(weak: Weak, how: str, n: int, batch: int) -> tuple[np.ndarray, Any]:
    """Batches of both sides in turn."""
    left, right = (record(make(n), weak.types, weak.nullable) for make in (weak.left, weak.right))
    op = SymmetricHashJoin(left.schema, right.schema, **call(weak, how))
    out: list[pa.RecordBatch] = []
    for a, b in zip(left.to_batches(max_chunksize=batch), right.to_batches(max_chunksize=batch)):
        out += op.push("left", a)
        out += op.push("right", b)
    before = op.metrics.left_rows_retired + op.metrics.right_rows_retired
    out += op.finish()
    assert before >= 2 * n - 10 * weak.window - 2 * batch
    return out_pairs(how, out, op.schema), op.metrics


@lru_cache(maxsize=2)
def matches(weak: Weak) -> np.ndarray:
    return expected(weak, FAST)


@pytest.mark.parametrize("cases", in_blocks(itertools.product(WEAK, oracle.HOWS), 79))
def test_state_is_about_the_window(cases: list[tuple[Weak, str]]) -> None:
    each(cases, stored_about_the_window)


def stored_about_the_window(weak: Weak, how: str) -> None:
    n = FAST
    got, metrics = run(weak, how, n, BATCH)
    assert metrics.peak_state_rows <= 10 * weak.window + 2 * BATCH
    np.testing.assert_array_equal(got, joined(how, matches(weak), n, n))


@pytest.mark.soak
@pytest.mark.parametrize("weak", WEAK, ids=lambda w: w.name.replace(" ", "-"))
def test_state_is_about_the_window_after_a_million_rows(weak: Weak) -> None:
    batch = 4096
    got, metrics = run(weak, "left_anti", LONG, batch)
    assert metrics.peak_state_rows <= 10 * weak.window + 2 * batch
    np.testing.assert_array_equal(got, joined("left_anti", expected(weak, LONG), LONG, LONG))


@pytest.mark.nojit
def test_state_is_about_the_window_interpreted() -> None:
    weak = WEAK[4]
    got, metrics = run(weak, "full", 400, 16)
    assert metrics.peak_state_rows <= 10 * weak.window + 32
    np.testing.assert_array_equal(got, joined("full", expected(weak, 400), 400, 400))


def test_reads_from_the_side_that_lags() -> None:
    """Ten left rows to one right row: read in step with time, not in step with batches."""
    n = 50_000
    left = pa.table({"n": np.arange(n), "a": np.arange(n) // 10})
    right = pa.table({"n": np.arange(n // 10), "a": np.arange(n // 10)})
    for first, second in ((left, right), (right, left)):
        stream = ivjoin.band_join(
            first.to_reader(max_chunksize=BATCH), second.to_reader(max_chunksize=BATCH),
            condition="l.a BETWEEN r.a - 10 AND r.a + 10", left_order="a", right_order="a",
        )
        rows = sum(b.num_rows for b in stream)
        # Each of the n/10 units has ten rows here and one there, 21 units in reach but at the ends.
        assert rows == n * 21 - 10 * 110
        assert stream.metrics.peak_state_rows <= 10 * (100 + 10) + 10 * 2 * BATCH


def test_peak_of_a_pull_at_equal_rates() -> None:
    left = record(ints(FAST), {})
    stream = ivjoin.band_join(
        left.to_reader(max_chunksize=BATCH), left.to_reader(max_chunksize=BATCH), how="full",
        condition="l.a BETWEEN r.a - 10 AND r.a + 10", left_order="a", right_order="a",
    )
    assert sum(b.num_rows for b in stream) == FAST * 21 - 110
    assert stream.metrics.peak_state_rows <= 100 + 2 * BATCH


def test_bytes_are_given_back() -> None:
    """The memory of retired rows is counted out again, wide payload included."""
    n = 20_000
    t = pa.table({"a": np.arange(n), "text": ["x" * 1000] * n})
    op = SymmetricHashJoin(t.schema, t.schema, condition="l.a = r.a", left_order="a", right_order="a")
    for b in t.to_batches(max_chunksize=BATCH):
        for side in ("left", "right"):
            assert all(x.num_rows for x in op.push(side, b))
    assert 0 < op.metrics.peak_state_bytes <= 40 * BATCH * 1100
    assert op.metrics.state_bytes <= op.metrics.peak_state_bytes


@pytest.mark.parametrize(("bounds", "most"), [({"a": (-1e9, 1e9)}, 12), (None, 400)])
def test_descending_floats_prune_if_bounds_exclude_nan(bounds: Any, most: int) -> None:
    schema = pa.schema({"a": pa.float64()})
    falls = Order("a", descending=True)
    op = SymmetricHashJoin(
        schema, schema, condition="l.a BETWEEN r.a - 2 AND r.a + 2", how="full", left_order=falls, right_order=falls,
        left_bounds=bounds, right_bounds=bounds,
    )
    out = []
    for a in range(200, 0, -1):
        batch = pa.record_batch({"a": [float(a)]}, schema=schema)
        out += [*op.push("left", batch), *op.push("right", batch)]
    assert op.metrics.state_rows <= most
    assert (op.metrics.state_rows == 400) == (bounds is None)
    out += op.finish()
    assert sum(b.num_rows for b in out) == 5 * 200 - 6


@pytest.mark.parametrize("how", ["inner", "full", "left_semi"])
def test_unreferenced_operator_frees_its_memory_at_once(how: str) -> None:
    """Nothing of it stands in a circle of references, whose memory Python would find some joins later."""
    t = pa.table({"k": np.arange(100) % 7, "a": np.arange(100), "text": ["x"] * 100})
    op = SymmetricHashJoin(t.schema, t.schema, on="k", condition="l.a = r.a", how=how, left_order="a", right_order="a")
    for b in t.to_batches(max_chunksize=30):
        assert [x for side in ("left", "right") for x in op.push(side, b)] != []
    held = [weakref.ref(x) for x in (op, op._engine.keys, *op._engine.stores)]
    gc.disable()
    try:
        del op
        assert held[0]() is None
        reuse.forget()  # what little it held waits for the next operator of its plan
        assert [x() for x in held] == [None] * 4
    finally:
        gc.enable()
