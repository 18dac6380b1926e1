"""As-of joins and windows of files and streams, in slices of a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.stream.sort import sorting
from ivjoin.stream.threads import sliced_stream


def carried(
    monkeypatch: pytest.MonkeyPatch, left: list[int], right: list[int], most: int = 1000, **options: Any
) -> tuple[list[int | None], bool]:
    """Which right row each left row gets in slices of one row, and whether one operator joined the last ones."""
    for name, value in {"_SLICE_ROWS": 1, "_CARRIED": 1, "_MOST_LOOKUP_ROWS": most}.items():
        monkeypatch.setattr(sliced_stream, name, value)
    rows = pa.table({"t": left, "k": [0] * len(left)}), pa.table({"t": right, "k": [0] * len(right), "x": right})
    inputs = [pa.RecordBatchReader.from_batches(t.schema, t.to_batches(1)) for t in rows]
    stream = ivjoin.asof_join(*inputs, on="t", by="k", threads=2, **options)
    out = stream.read_all()
    operator = stream._run.operator
    assert isinstance(operator, sliced_stream.SlicedStream)
    assert out["t"].to_pylist() == left
    return out["x"].to_pylist(), operator._alone is not None


LEAST = -(2**63)


@pytest.mark.parametrize(("left", "right", "options", "want"), [
    pytest.param([0, 3, 9, 20], [1, 2, 8], {}, ([None, 2, 8, 8], False), id="a later slice takes the last row"),
    pytest.param([4, 5, 6], [0], {"tolerance": 5}, ([0, 0, None], False), id="carried as far as the tolerance reaches"),
    pytest.param([3, 4, 5, *[7] * 9, 8], [1, 2], {"most": 4}, ([2] * 13, True), id="one operator takes over"),
    pytest.param([LEAST] * 3, [LEAST] * 2, {"direction": "nearest", "tolerance": 30}, ([LEAST] * 3, False),
                 id="rows at the least value share a slice"),
])  # fmt: skip
def test_rows_that_slices_carry(
    left: list[int], right: list[int], options: dict[str, Any], want: tuple[Any, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert carried(monkeypatch, left, right, **options) == want


def test_first_and_last_follow_the_first_band_of_sorted_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sorting, "SMALL", 0)
    left = pa.table({"u": [1, 2, 1]})
    right = pa.table({"u": [0, 1, 2] * 20, "w": [30, 20, 10] * 20, "x": list(range(60))})
    for name, table in (("l", left), ("r", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    question: Any = {
        "condition": "l.u < r.w AND r.u <= l.u + 3 AND r.u >= l.u - 3",
        "aggregate": {"first": ("w", "first"), "last": ("w", "last")},
    }
    out = ivjoin.window_join(tmp_path / "l.parquet", tmp_path / "r.parquet", **question).read_all()
    assert out.select(["first", "last"]).to_pylist() == [{"first": 10, "last": 30}] * 3
    assert out.select(["first", "last"]).equals(ivjoin.window_join(left, right, **question).read_all().drop("u"))


def test_equal_rows_are_aggregated_in_the_order_of_arrival() -> None:
    """The right rows are nearly in order, and their intervals end in another order than they begin."""
    right = pa.table({"u": [5, 4, 5, 4, 5], "e": [30, 20, 10, 15, 20], "x": ["a", "b", "c", "d", "e"]})
    left = pa.table({"t": [6, 7]})
    inputs = [pa.RecordBatchReader.from_batches(t.schema, t.to_batches()) for t in (left, right)]
    out = ivjoin.window_join(
        *inputs, condition="r.u <= l.t AND l.t < r.e", aggregate={"all": "array_agg(r.x)"}, left_order="t",
        right_order=ivjoin.Order("u", slack=2), threads=2,
    )  # fmt: skip
    assert isinstance(out._run.operator, sliced_stream.SlicedStream)
    assert out.read_all()["all"].to_pylist() == [["b", "d", "a", "c", "e"]] * 2
