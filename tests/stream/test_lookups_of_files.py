"""As-of joins and windows of files and streams, in slices of a few rows, against every pair of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from drivers.looked_up import CHECKS, KINDS, engines

import ivjoin
from ivjoin.stream.threads import slices


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHECKS)
def test_random_joins(what: str, kind: str, tmp_path: Path) -> None:
    found = engines(what, kind, range(6), tmp_path)
    assert found["LookupParts"] + found["SlicedJoin"] >= 1, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHECKS)
def test_many_random_joins(what: str, kind: str, tmp_path: Path) -> None:
    found = engines(what, kind, range(100, 125), tmp_path)
    assert found["LookupParts" if kind == "files" else "SlicedJoin"] >= 2, found


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
    operator = stream._operator
    assert isinstance(operator, slices.SlicedJoin)
    assert out["t"].to_pylist() == left
    return out["x"].to_pylist(), operator._alone is not None


def test_a_later_slice_takes_the_last_row_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried(monkeypatch, [0, 3, 9, 20], [1, 2, 8]) == ([None, 2, 8, 8], False)


def test_a_row_is_carried_as_far_as_the_tolerance_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried(monkeypatch, [4, 5, 6], [0], tolerance=5) == ([0, 0, None], False)


def test_one_operator_takes_over_what_slices_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried(monkeypatch, [3, 4, 5, *[7] * 9, 8], [1, 2], most=4) == ([2] * 13, True)
