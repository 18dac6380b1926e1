"""Dictionary columns of which each batch brings another dictionary, as encoders that write piece by piece do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin

ROWS, BATCHES, WIDTH = 50, 60, 20
NARROW = pa.dictionary(pa.int8(), pa.string())


def batch(number: int, t: pa.DictionaryType = NARROW, rows: int = ROWS) -> pa.RecordBatch:
    """Rows of which each but every seventh has a value of its own."""
    at = np.arange(number * rows, (number + 1) * rows)
    values = [None if x % 7 == 3 else f"value {x}" for x in at.tolist()]
    return pa.record_batch({"t": pa.array(at), "d": pa.array(values).dictionary_encode().cast(t)})


def question(how: str = "inner", **options: Any) -> dict[str, Any]:
    condition = f"l.t BETWEEN r.t - {WIDTH} AND r.t + {WIDTH} AND (l.t + r.t) % 3 = 0"
    return {"condition": condition, "left_order": "t", "right_order": "t", "how": how, "batch_size": 100, **options}


def wanted(how: str) -> Counter:
    last = ROWS * BATCHES
    text = [None if x % 7 == 3 else f"value {x}" for x in range(last)]
    out: Counter = Counter()
    for x in range(last):
        found = [y for y in range(max(0, x - WIDTH), min(last, x + WIDTH + 1)) if (x + y) % 3 == 0]
        if how in ("inner", "full"):
            out.update((x, text[x], y, text[y]) for y in found)
        elif how == "right_semi":
            out.update([(x, text[x])] if found else [])
    return out


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("options", [{}, {"memory_limit": 20_000, "when_full": "spill"}], ids=["held", "spilled"])
@pytest.mark.parametrize("t", [NARROW, pa.dictionary(pa.int32(), pa.large_string())], ids=str)
@pytest.mark.parametrize("how", ["inner", "full", "right_semi"])
def test_rows_come_out_and_what_is_held_stays_as_it_is(how: str, t: pa.DictionaryType, options: dict) -> None:
    op = ivjoin.SymmetricHashJoin(batch(0, t).schema, batch(0, t).schema, **question(how, **options))
    got: list[pa.RecordBatch] = []
    held = []
    for number in range(BATCHES):
        for side in ("left", "right"):
            got += op.push(side, batch(number, t))
        held.append(op.metrics.state_bytes)
        if number % 20 == 10:
            op = ivjoin.SymmetricHashJoin.restore(op.snapshot(), **options)
    got += op.finish()
    assert all(b.schema.field("d").type == t for b in got)
    assert Counter(tuple(row.values()) for b in got for row in b.to_pylist()) == wanted(how)
    assert max(held[30:]) < 2 * max(held[:30])


@pytest.mark.slow
def test_of_values_without_end_those_in_use_are_held() -> None:
    t = pa.dictionary(pa.int32(), pa.string())
    op = ivjoin.SymmetricHashJoin(batch(0, t).schema, batch(0, t).schema, **question())
    held = []
    for number in range(60):
        for side in ("left", "right"):
            for _ in op.push(side, batch(number, t, 250)):
                pass
        held.append(op.metrics.state_bytes)
    assert max(held[30:]) < 1.5 * max(held[:20])


def test_a_pick_takes_them_too() -> None:
    op = ivjoin.SymmetricHashJoin(
        batch(0).schema, batch(0).schema, condition="r.t <= l.t", left_order="t", right_order="t", how="left",
        pick=ivjoin.Pick("t", "last"),
    )  # fmt: skip
    got = []
    for number in range(BATCHES):
        for side in ("left", "right"):
            got += op.push(side, batch(number))
    got += op.finish()
    rows = [row for b in got for row in b.to_pylist()]
    assert len(rows) == ROWS * BATCHES
    assert all((row["t"], row["d"]) == (row["t_right"], row["d_right"]) for row in rows)


def test_more_values_in_a_batch_than_its_indices_tell_apart() -> None:
    op = ivjoin.SymmetricHashJoin(batch(0).schema, batch(0).schema, condition="l.t < r.t + 10000")
    for number in range(4):
        assert not list(op.push("left", batch(number)))
    got = list(op.push("right", batch(0)))
    assert len(got) > 1
    assert all(len(b["d"].dictionary) <= 128 and b["d"].type == NARROW for b in got)
    left, right = ([tuple(row.values()) for n in range(k) for row in batch(n).to_pylist()] for k in (4, 1))
    want = Counter(x + y for x in left for y in right)
    assert Counter(tuple(row.values()) for b in got for row in b.to_pylist()) == want


WITH_NULL = [["a", None, "b"], ["b", "c", None], ["d", "a", "e"], [None, None, None], ["c", None, "c"]]
NESTED = {"top": lambda d: d, "struct": lambda d: pa.StructArray.from_arrays([d], ["x"])}


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("way", ["push", "streams", "table"])
def test_dictionaries_with_null_among_their_values(way: str, nested: str) -> None:
    batches = []
    for number, values in enumerate(WITH_NULL):
        d = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(values, pa.string()))
        t = pa.array(range(3 * number, 3 * number + 3))
        batches.append(pa.record_batch({"t": t, "d": NESTED[nested](d)}))
    ask = {"condition": "l.t BETWEEN r.t - 1 AND r.t + 1 AND (l.t + r.t) % 2 = 1", "how": "full"}
    if way == "push":
        op = ivjoin.SymmetricHashJoin(batches[0].schema, batches[0].schema, **ask)
        got = [out for b in batches for side in ("left", "right") for out in op.push(side, b)]
        got += op.finish()
    else:
        table = pa.Table.from_batches(batches)
        source = table if way == "table" else table.to_reader()
        got = list(ivjoin.band_join(source, table, **ask))
    cells = [v for values in WITH_NULL for v in values]
    shown = cells if nested == "top" else [{"x": v} for v in cells]
    want = [(x, shown[x], y, shown[y]) for x in range(15) for y in (x - 1, x + 1) if 0 <= y < 15]
    rows = [tuple(row.values()) for b in got for row in b.to_pylist()]
    assert sorted(rows, key=repr) == sorted(want, key=repr)


@pytest.mark.parametrize("values", [pa.timestamp("us", "UTC"), pa.string_view(), pa.duration("ms")], ids=str)
@pytest.mark.parametrize("right", ["table", "files", "list"])
def test_no_rows_with_dictionaries_that_arrow_makes_no_empty_column_of(
    values: pa.DataType, right: str, tmp_path: Path
) -> None:
    t = pa.dictionary(pa.int8(), values)
    left = pa.table({"t": pa.array([1, 2]), "u": pa.nulls(2, values)})
    none = pa.Table.from_batches([], pa.schema({"t": pa.int64(), "d": t}))
    sources = [left, none if right == "table" else [none]]
    if right == "files":
        sources = [str(tmp_path / f"{name}.arrows") for name in ("left", "none")]
        for source, table in zip(sources, (left, none), strict=True):
            with pa.ipc.new_stream(source, table.schema) as file:
                file.write_table(table)
    out = ivjoin.band_join(*sources, condition="r.t <= l.t + 1 AND r.d <= l.u", how="left").to_arrow()
    assert out.to_pylist() == [{"t": t, "u": None, "t_right": None, "d": None} for t in (1, 2)]


@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_of_halves_keep_their_values(nested: bool) -> None:
    def rows(start: int) -> pa.RecordBatch:
        halves = pa.array(np.array([-2.0, 0.5 + start], dtype=np.float16))
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), halves)
        return pa.record_batch({
            "t": [start, start + 1], "d": pa.StructArray.from_arrays([column], ["x"]) if nested else column,
        })  # fmt: skip

    op = ivjoin.SymmetricHashJoin(rows(0).schema, pa.schema({"t": pa.int64()}), on="t", how="left")
    got = [*op.push("left", rows(0)), *op.push("left", rows(2))]
    op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    found = [row["d"] for b in [*got, *op.finish()] for row in b.to_pylist()]
    assert [row["x"] if nested else row for row in found] == [-2.0, 0.5, -2.0, 2.5]
