"""As-of joins and windows of files and streams, in slices of a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.stream.sort import sorting
from ivjoin.stream.threads import slices


def carried(
    monkeypatch: pytest.MonkeyPatch, left: list[int], right: list[int], most: int = 1000, **options: Any
) -> tuple[list[int | None], bool]:
    """Which right row each left row gets in slices of one row, and whether one operator joined the last ones."""
    for name, value in {"_SLICE_ROWS": 1, "_CARRIED": 1, "_MANY_ROWS": most, "_MOST_ROWS": most}.items():
        monkeypatch.setattr(slices, name, value)
    rows = pa.table({"t": left, "k": [0] * len(left)}), pa.table({"t": right, "k": [0] * len(right), "x": right})
    inputs = [pa.RecordBatchReader.from_batches(t.schema, t.to_batches(1)) for t in rows]
    stream = ivjoin.asof_join(*inputs, on="t", by="k", threads=2, **options)
    out = stream.read_all()
    operator = stream._run.operator
    assert isinstance(operator, slices.SlicedJoin)
    assert out["t"].to_pylist() == left
    return out["x"].to_pylist(), operator._alone is not None


def test_a_later_slice_takes_the_last_row_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried(monkeypatch, [0, 3, 9, 20], [1, 2, 8]) == ([None, 2, 8, 8], False)


def test_a_row_is_carried_as_far_as_the_tolerance_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried(monkeypatch, [4, 5, 6], [0], tolerance=5) == ([0, 0, None], False)


def test_one_operator_takes_over_what_slices_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried(monkeypatch, [3, 4, 5, *[7] * 9, 8], [1, 2], most=4) == ([2] * 13, True)


def test_rows_at_the_least_value_share_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    least = -(2**63)
    found, _ = carried(monkeypatch, [least] * 3, [least] * 2, direction="nearest", tolerance=30)
    assert found == [least] * 3


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
