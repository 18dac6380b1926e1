"""The one-call push against the long way: step by step the same rows, counts and errors, whatever comes."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import IvjoinError, LateRowError, Order, SymmetricHashJoin, lane
from ivjoin.shj.store import SideStore

TYPES = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "uint8": pa.uint8(),
    "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(), "float32": pa.float32(),
    "float64": pa.float64(), "date32": pa.date32(), "timestamp": pa.timestamp("us"), "duration": pa.duration("ms"),
    "decimal": pa.decimal128(12, 2),
}  # fmt: skip
COUNTED = (
    "left_rows_in", "right_rows_in", "rows_out", "left_rows_retired", "right_rows_retired", "late_rows", "state_rows",
    "peak_state_rows",
)  # fmt: skip


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every push tries the lane, however often it was declined before."""
    monkeypatch.setattr(lane, "_FIRST_WAIT", 0)
    monkeypatch.setattr(lane, "_MOST_WAIT", 0)
    monkeypatch.setattr(lane.DEMAND, "met", True)


def column(values: np.ndarray, t: pa.DataType, null: np.ndarray | None = None) -> pa.Array:
    if pa.types.is_decimal(t):
        cells = [None if null is not None and null[i] else Decimal(int(v)) / 4 for i, v in enumerate(values)]
        return pa.array(cells, t)
    if pa.types.is_floating(t):
        out = values / 4.0
        out[values % 11 == 10] = -0.0
        return pa.array(out.astype(t.to_pandas_dtype()), t, mask=null)
    if pa.types.is_unsigned_integer(t):
        values = np.abs(values)
    plain = pa.array(values.astype(np.int32 if t == pa.date32() else np.int64), mask=null)
    return plain.cast(t, safe=False)


def batches(
    rng: np.random.Generator, types: dict[str, str], rows: int, falling: bool, rough: int
) -> list[pa.RecordBatch]:
    """A side's rows: ``x`` rises by 0, 1 or 2 (falls, if so), out of order by up to ``rough``; ``k`` of few values."""
    x = np.cumsum(rng.integers(0, 3, rows)) - (0 if TYPES[types["x"]] in (pa.uint8(), pa.int8()) else rows // 2)
    x = x - rng.integers(0, rough + 1, rows)
    if TYPES[types["x"]].bit_width == 8:
        x = np.clip(x, 0, 100)
    if pa.types.is_unsigned_integer(TYPES[types["x"]]):
        x = x - x.min(initial=0)
    x = x[::-1].copy() if falling else x
    y = rng.integers(-20, 20, rows)
    null = rng.random(rows) < rng.choice([0, 0, 0, 0.1])
    table = pa.table({
        "k": column(rng.integers(0, 4, rows), TYPES[types["k"]]),
        "x": column(x, TYPES[types["x"]]),
        "y": column(y, TYPES[types["y"]], null if rng.random() < 0.5 else None),
        "v": pa.array(np.arange(rows)),
    })
    cuts = np.sort(rng.integers(0, rows + 1, rng.integers(0, 9)))
    table = table.combine_chunks()
    whole = table.to_batches()[0] if rows else pa.RecordBatch.from_pylist([], table.schema)
    edges = [0, *cuts.tolist(), rows]
    return [whole.slice(a, b - a) for a, b in pairwise(edges)]


def rows_of(out: list[pa.RecordBatch]) -> Counter[str]:
    return Counter(repr(row) for b in out for row in b.to_pylist())


def outcome(op: SymmetricHashJoin, name: str, batch: pa.RecordBatch) -> Counter[str] | str:
    """What a push gives: its rows, or what it says against the batch."""
    try:
        return rows_of(list(op.push(name, batch)))
    except LateRowError as e:
        return str(e)


def counts(op: SymmetricHashJoin) -> dict[str, int]:
    return {name: getattr(op.metrics, name) for name in COUNTED}


def question(rng: np.random.Generator) -> tuple[dict[str, str], dict[str, Any]]:
    x = str(rng.choice(list(TYPES)))
    types = {"k": str(rng.choice(list(TYPES))), "x": x, "y": str(rng.choice(["int32", "float64", "int64"]))}
    if x in ("timestamp", "duration"):
        a, b = "INTERVAL '0.000004' SECOND", "INTERVAL '0.000002' SECOND"
        a, b = (a, b) if x == "timestamp" else ("INTERVAL '0.004' SECOND", "INTERVAL '0.002' SECOND")
    else:
        a, b = str(rng.integers(0, 6)), str(rng.integers(0, 6))
    conditions = ["l.x >= r.x AND l.x <= r.x", "l.x <= r.x", "l.x = r.x", "l.x < r.x AND l.y <= r.y"]
    if x not in ("date32",) and not x.startswith("uint"):
        conditions += [f"l.x BETWEEN r.x - {a} AND r.x + {b}", f"r.x > l.x - {a} AND r.x < l.x + {b} AND l.y > r.y"]
    slack = None
    if x.startswith("int") and rng.random() < 0.3:
        slack = int(rng.integers(1, 4))
    falling = bool(rng.random() < 0.3) and not x.startswith("float")
    order = Order("x", descending=falling, slack=slack)
    return types, {
        "on": None if rng.random() < 0.2 else "k",
        "condition": str(rng.choice(conditions)),
        "how": str(rng.choice(["inner", "left", "right", "full"])),
        "left_order": order if rng.random() < 0.8 else None,
        "right_order": order if rng.random() < 0.8 else None,
        "batch_size": int(rng.choice([1, 3, 65536])),
        "on_late": str(rng.choice(["raise", "drop", "join"])),
    }


def plain_question(rng: np.random.Generator) -> tuple[dict[str, str], dict[str, Any]]:
    """The next question whose plan has a lane."""
    for _ in range(50):
        types, options = question(rng)
        schema = pa.schema({"k": TYPES[types["k"]], "x": TYPES[types["x"]], "y": TYPES[types["y"]], "v": pa.int64()})
        if SymmetricHashJoin(schema, schema, **options)._lane is not None:
            return types, options
    raise AssertionError("of fifty plain joins, none has a lane")


@pytest.mark.parametrize("seed", [*(pytest.param(i, marks=pytest.mark.nojit) for i in range(25)), *range(25, 160)])
def test_step_by_step_as_the_long_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    types, options = plain_question(rng)
    falling = bool(options["left_order"] and options["left_order"].descending)
    sides = [batches(rng, types, int(rng.integers(0, 60)), falling, int(rng.choice([0, 0, 2]))) for _ in (0, 1)]
    schema = sides[0][0].schema
    short, long = SymmetricHashJoin(schema, schema, **options), SymmetricHashJoin(schema, schema, **options)
    long._lane = None
    places = [0, 0]
    while places != [len(sides[0]), len(sides[1])]:
        p = int(rng.integers(0, 2))
        if places[p] == len(sides[p]):
            p = 1 - p
        batch = sides[p][places[p]]
        places[p] += 1
        name = ("left", "right")[p]
        expected = outcome(long, name, batch)
        assert outcome(short, name, batch) == expected
        if isinstance(expected, str):
            return
        assert counts(short) == counts(long)
        if rng.random() < 0.1:
            short = SymmetricHashJoin.restore(short.snapshot())
        if rng.random() < 0.1 and places[p] == len(sides[p]):
            assert rows_of(list(short.finish(name))) == rows_of(list(long.finish(name)))
            places[p] = len(sides[p])
        assert short.lagging(*places) == long.lagging(*places)
    assert rows_of(list(short.finish())) == rows_of(list(long.finish()))
    assert counts(short) == counts(long)


def wide(rows: int, card: int, seed: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    return pa.record_batch({"k": rng.integers(0, card, rows), "x": np.arange(rows), "v": rng.random(rows)})


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("size", [1, 7, 128, 1000])
def test_it_is_taken_and_rings_wrap(how: str, size: int) -> None:
    """Thousands of rows through small rings, on board from the first push to the last."""
    left, right = wide(4000, 5, 1), wide(4000, 5, 2)
    options = {"on": "k", "condition": "l.x BETWEEN r.x - 9 AND r.x + 4", "left_order": "x", "right_order": "x"}
    short = SymmetricHashJoin(left.schema, right.schema, how=how, **options)
    long = SymmetricHashJoin(left.schema, right.schema, how=how, **options)
    long._lane = None
    got, expected = [], []
    for at in range(0, 4000, size):
        for name, batch in (("left", left), ("right", right)):
            got += list(short.push(name, batch.slice(at, size)))
            expected += list(long.push(name, batch.slice(at, size)))
            assert short._lane is not None
            assert short._lane.aboard or size == 1000
    got += list(short.finish())
    expected += list(long.finish())
    assert rows_of(got) == rows_of(expected)
    assert counts(short) == counts(long)
    assert short.metrics.peak_state_rows <= 2 * size + 40


@pytest.mark.nojit
def test_output_outlives_the_operator() -> None:
    left, right = wide(500, 3, 1), wide(500, 3, 2)
    band = "l.x BETWEEN r.x - 1 AND r.x"
    op = SymmetricHashJoin(left.schema, right.schema, on="k", condition=band, left_order="x", right_order="x")
    list(op.push("left", left))
    out = list(op.push("right", right))
    assert op._lane is not None
    text = [b.to_pylist() for b in out]
    column_ = out[0].column(0)
    del op
    for b in out:
        b.validate(full=True)
    assert [b.to_pylist() for b in out] == text
    del out
    assert len(column_) == len(text[0])
    assert column_.to_pylist() == [row["k"] for row in text[0]]


def test_an_output_larger_than_the_scratch_comes_in_pieces() -> None:
    n = 700
    schema = pa.schema({"k": pa.int32(), "x": pa.int64()})
    batch = pa.record_batch({"k": pa.array(np.zeros(n), pa.int32()), "x": np.zeros(n, dtype=np.int64)}, schema=schema)
    op = SymmetricHashJoin(schema, schema, condition="l.x <= r.x", left_order="x", right_order="x")
    list(op.push("left", batch))
    out = op.push("right", batch)
    first = next(out)
    assert 0 < first.num_rows < n * n
    with pytest.raises(IvjoinError, match="drain"):
        op.push("right", batch)
    assert first.num_rows + sum(b.num_rows for b in out) == n * n
    assert op.metrics.rows_out == n * n


@pytest.mark.nojit
def test_a_null_goes_the_long_way_and_the_next_batch_comes_back() -> None:
    schema = pa.schema({"k": pa.int64(), "x": pa.int64()})
    op = SymmetricHashJoin(schema, schema, on="k", condition="l.x <= r.x", how="full", left_order="x", right_order="x")
    plain = pa.record_batch({"k": [1, 2], "x": [5, 6]}, schema=schema)
    holed = pa.record_batch({"k": [1, None], "x": [7, 8]}, schema=schema)
    assert op._lane is not None
    list(op.push("left", plain))
    assert op._lane.aboard
    out = list(op.push("right", holed))
    assert not op._lane.aboard
    expected = [{"k": 1, "x": 5, "x_right": 7}, {"k": None, "x": None, "x_right": 8}]
    assert rows_of(out) == Counter(repr(row) for row in expected)
    for x in (9, 10, 11):
        list(op.push("left", pa.record_batch({"k": [1], "x": [x]}, schema=schema)))
    assert op._lane.aboard


def test_an_idle_side_is_not_carried_over_again_and_again(monkeypatch):
    monkeypatch.setattr(lane.DEMAND, "met", True)
    moves = []
    recap = SideStore._recap
    monkeypatch.setattr(SideStore, "_recap", lambda self, cap: (moves.append(self.side), recap(self, cap)))
    schema = pa.schema({"k": pa.int64(), "x": pa.int64()})
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="l.x BETWEEN r.x - 1000000 AND r.x + 5", left_order="x", right_order="x"
    )
    n = 20_000
    list(op.push("right", pa.record_batch({"k": np.arange(n), "x": np.arange(n) + 1000}, schema=schema)))
    moves.clear()
    for _ in range(400):
        list(op.push("left", pa.record_batch({"k": np.full(5, -1), "x": np.full(5, 1000)}, schema=schema)))
    assert op._stores[1].live == n
    assert 1 not in moves


def test_a_null_that_has_left_is_forgotten(monkeypatch):
    monkeypatch.setattr(lane.DEMAND, "met", True)
    monkeypatch.setattr(lane, "_MOST_WAIT", 1)
    schema = pa.schema({"k": pa.int64(), "x": pa.int64(), "v": pa.float64()})
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="l.x BETWEEN r.x - 5 AND r.x", left_order="x", right_order="x"
    )
    for i in range(400):
        values = pa.array([None if i == 3 else 1.5, 2.5])
        for side in ("left", "right"):
            x = np.full(2, i)
            for out in op.push(side, pa.record_batch([pa.array([1, 2]), pa.array(x), values], schema=schema)):
                assert out.num_rows
    assert op._lane.aboard
