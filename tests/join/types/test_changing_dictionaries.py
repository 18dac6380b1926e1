"""Dictionary columns with another dictionary in each batch, as encoders that write piece by piece produce."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ivjoin

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
