"""The rows that a join of many inputs retains: windows, and bounds across inputs that share no conjunct."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from multi.turns import pushed

from ivjoin import MultiJoin, Order, multi_join
from ivjoin.expr import build
from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.expr.types import FLOAT64
from ivjoin.multi.question import multi_spec
from ivjoin.multi.reach import hull
from ivjoin.multi.shape.steps import laid_out
from ivjoin.multi.spec import MultiSpec

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64(), "id": pa.int64()})
ROWS, BATCH, KEYS = 30_000, 500, 20

SHAPES: dict[str, Any] = {
    "chain": ("abc", "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 20 AND c.ts BETWEEN b.ts - 20 AND b.ts"),
    "star": ("abcd", " AND ".join(f"a.k = {x}.k AND {x}.ts BETWEEN a.ts - 20 AND a.ts" for x in "bcd")),
    "triangle": ("abc", "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 20 AND b.k = c.k "
                 "AND c.ts BETWEEN b.ts AND b.ts + 20 AND c.k = a.k AND c.ts <= a.ts + 30"),
    "through": ("abc", "a.k = b.k AND b.k = c.k AND a.ts BETWEEN c.ts - 20 AND c.ts AND b.ts = c.ts"),
    "residual": ("abc", "a.k = b.k AND abs(a.ts - b.ts) < 20 AND b.k = c.k AND (c.ts - b.ts) * (c.ts - b.ts) < 400"),
    "no key": ("abc", "b.ts BETWEEN a.ts AND a.ts + 1 AND c.ts = b.ts"),
}  # fmt: skip


def rows(seed: int, spread: int = 2) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, spread * ROWS, ROWS))
    return pa.record_batch([rng.integers(0, KEYS, ROWS), ts, np.arange(ROWS)], schema=SCHEMA)


@pytest.mark.one_in(11)
@pytest.mark.parametrize("views", ["auto", "none"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_state_stays_at_the_windows(shape: str, views: str) -> None:
    aliases, condition = SHAPES[shape]
    op = MultiJoin(dict.fromkeys(aliases, SCHEMA), condition, orders=dict.fromkeys(aliases, "ts"), views=views)
    assert pushed(op, {a: rows(i) for i, a in enumerate(aliases)}, BATCH) > 0
    m = op.metrics
    assert m.peak_state_rows < 12 * BATCH * len(aliases), m
    assert all(n > ROWS - 4 * BATCH for n in m.rows_retired.values()), m
    list(op.finish())
    assert op.metrics.state_rows == 0


def test_slack_and_descending_orders() -> None:
    op = MultiJoin(
        dict.fromkeys("abc", SCHEMA), "a.k = b.k AND abs(a.ts - b.ts) < 20 AND b.k = c.k AND b.ts = c.ts",
        orders={"a": Order("ts", descending=True), "b": Order("ts", True), "c": Order("ts", True, slack=50)},
    )
    falling = rows(1).take(pa.array(range(ROWS))[::-1])
    pushed(op, dict.fromkeys("abc", falling), BATCH)
    assert op.metrics.peak_state_rows < 36 * BATCH


def only(k: int, *ts: int) -> pa.RecordBatch:
    return pa.record_batch([[k] * len(ts), list(ts), list(ts)], schema=SCHEMA)


CHAIN = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 10 AND c.ts BETWEEN b.ts AND b.ts + 10"


@pytest.mark.parametrize("views", ["auto", "none", [("a", "b")], [("b", "c")]])
def test_one_input_bounds_another_through_a_third_that_has_no_order(views: Any) -> None:
    op = MultiJoin(dict.fromkeys("abc", SCHEMA), CHAIN, orders={"c": "ts"}, views=views)
    list(op.push("a", only(1, 0, 10, 20, 980)))
    list(op.push("b", only(1, 5, 15, 25, 985)))
    assert op.metrics.stored["a"] >= 4
    for batch in op.push("c", only(1, *range(970, 1000))):
        assert set(batch["a_ts"].to_pylist()) == {980}
    list(op.advance("c", {"ts": 1000}))
    # a later b may still come for rows of c at 970 and beyond, which are stored: so a is bounded by 950
    assert op.metrics.rows_retired["a"] == 3, op.metrics
    list(op.finish("b"))
    list(op.advance("c", {"ts": 1001}))
    assert op.metrics.stored["a"] == 0, op.metrics
    list(op.finish("a"))
    assert op.metrics.state_rows == 0, op.metrics


def test_the_end_of_an_input_evicts_rows_that_only_its_later_rows_could_match() -> None:
    op = MultiJoin(dict.fromkeys("abc", SCHEMA), CHAIN, orders=dict.fromkeys("abc", "ts"))
    list(op.push("a", only(1, 0, 100)))
    list(op.finish("b"))
    assert op.metrics.state_rows == 0, "b gave no row, so nothing can come of a or c"
    list(op.push("c", only(1, 5)))
    assert op.metrics.state_rows == 0
    assert op.output_bounds() == {}


def test_watermarks_bounds_and_output_bounds() -> None:
    op = MultiJoin(dict.fromkeys("abc", SCHEMA), CHAIN, bounds={"c": {"ts": (0, 500)}}, orders={"a": "ts"})
    assert op.output_bounds()["a_ts"] == (-20, 500)
    list(op.push("a", only(1, 100, 400)))
    list(op.push("b", only(1, 410)))
    assert op.output_bounds()["a_ts"] == (100, 500)
    list(op.advance("b", {"ts": 600}))
    assert op.output_bounds()["b_ts"] == (410, 410)
    assert sum(b.num_rows for b in op.push("c", only(1, 415))) == 1


def test_conditions_that_evict_nothing_store_everything() -> None:
    op = MultiJoin(dict.fromkeys("abc", SCHEMA), "a.k = b.k AND b.id = c.id", orders=dict.fromkeys("abc", "ts"))
    for alias in "abc":
        list(op.push(alias, rows(0).slice(0, BATCH)))
    assert all(op.metrics.stored[a] >= BATCH and not op.metrics.rows_retired[a] for a in "abc")
    assert "every row is stored until b ends" in op.explain()


ONLY_THROUGH = {
    "b is bounded from above through c": "b.ts >= a.ts AND c.ts >= b.ts AND c.ts <= a.ts + 20",
    "a and b are near through c": "c.ts BETWEEN a.ts AND a.ts + 20 AND b.ts BETWEEN c.ts - 20 AND c.ts",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("views", ["auto", "none", [("b", "c")], [("a", "c")]])
@pytest.mark.parametrize("shape", ONLY_THROUGH)
def test_rows_of_a_step_go_by_what_bounds_them_through_inputs_that_it_has_not(shape: str, views: Any) -> None:
    condition = f"a.k = b.k AND b.k = c.k AND {ONLY_THROUGH[shape]}"
    op = MultiJoin(dict.fromkeys("abc", SCHEMA), condition, orders=dict.fromkeys("abc", "ts"), views=views)
    assert pushed(op, {a: rows(i).slice(0, 40 * BATCH) for i, a in enumerate("abc")}, BATCH) > 0
    m = op.metrics
    assert m.peak_state_rows < 8 * BATCH * 3, m
    assert all(n > 36 * BATCH for n in m.rows_retired.values()), m


@pytest.mark.slow
@pytest.mark.parametrize("views", ["auto", "none"])
def test_an_order_of_a_function_bounds_the_column_across_inputs(views: str) -> None:
    condition = "a.k = b.k AND b.k = c.k AND a.ts div 20 = c.ts div 20 AND abs(b.ts - c.ts) <= 20"
    op = MultiJoin(dict.fromkeys("abc", SCHEMA), condition, orders=dict.fromkeys("abc", "ts div 10"), views=views)
    assert pushed(op, {a: rows(i) for i, a in enumerate("abc")}, BATCH) > 0
    assert op.metrics.peak_state_rows < 36 * BATCH, op.metrics
    assert "so a.ts >= 9980 through c" in op.explain()


def test_a_watermark_of_a_function_bounds_the_column_across_inputs() -> None:
    op = MultiJoin(dict.fromkeys("abc", SCHEMA), "a.k = b.k AND b.k = c.k AND a.ts >= c.ts - 5 AND b.ts = c.ts")
    list(op.push("a", only(1, 10, 194, 195, 200)))
    list(op.push("b", only(1, 20, 199, 200)))
    list(op.finish("a"))
    list(op.finish("b"))
    list(op.advance("c", {"ts div 10": 20}))
    assert op.metrics.stored == {"a": 2, "b": 1, "c": 0}
    assert sum(b.num_rows for b in op.push("c", only(1, 200))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("order", ["ts", "ts div 10"])
def test_a_bound_passes_from_the_first_input_to_the_last(order: str, turned: bool) -> None:
    aliases = "abcdef"
    links = [f"{y}.ts BETWEEN {x}.ts - 50 AND {x}.ts + 50" for x, y in pairwise(aliases)]
    condition = " AND ".join(links[::-1] if turned else links)
    text = MultiJoin(dict.fromkeys(aliases, SCHEMA), condition, orders=dict.fromkeys(aliases, order)).explain()
    first = 1000 if order == "ts" else 10_000
    assert f"so f.ts >= {first - 250} through b, c, d and e " in text
    assert f"so a.ts >= {first - 250} through e, d, c and b " in text


def test_bounds_that_include_nan_allow_nan() -> None:
    x = build.column("left", "x", FLOAT64)
    assert hull(x, (0, NAN_ORDINAL)).may_nan
    assert not hull(x, (0, NAN_ORDINAL - 1)).may_nan


def test_a_small_table_that_ends_bounds_a_stream() -> None:
    """With few stored rows, eviction waits for further rows, but not for many."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    a = pa.table({"k": [1] * 50, "t": range(50)}, schema=schema)
    batches = [pa.record_batch({"k": [1] * 500, "t": range(i, i + 500)}, schema=schema) for i in range(0, 20_000, 500)]
    c = pa.table({"k": [1, 2], "t": [3, 4]}, schema=schema)
    stream = multi_join(
        {"a": a, "b": pa.RecordBatchReader.from_batches(schema, iter(batches)), "c": c.to_reader()},
        "a.k = b.k AND b.t BETWEEN a.t AND a.t + 5 AND c.k = b.k",
    )
    assert stream.read_all().num_rows == 300
    assert stream.metrics.peak_state_rows < 2_000
    assert stream.metrics.state_rows == 0


def test_equal_calls_share_one_specification() -> None:
    schema = pa.schema({"k": pa.int64(), "x": pa.float64()})

    def spec(text: str, **options: Any) -> MultiSpec:
        return multi_spec({"a": schema, "b": schema}, text, **options)

    one = spec("a.k = b.k AND a.x < 1")
    assert one is spec("a.k = b.k AND a.x < 1")
    assert laid_out(one, ("a", "b")) is laid_out(one, ("a", "b"))
    others = [
        spec("a.k = b.k AND a.x < 1.0"), spec("a.k = b.k AND a.x < 2"), spec("a.k = b.k AND a.x < 1", batch_size=7),
        multi_spec({"b": schema, "a": schema}, "a.k = b.k AND a.x < 1"),
        multi_spec({"a": schema, "b": schema.with_metadata({"x": "y"})}, "a.k = b.k AND a.x < 1"),
    ]
    assert all(one is not other for other in others)
    assert len({id(other) for other in others}) == len(others)
