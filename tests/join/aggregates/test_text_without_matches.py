"""Aggregates of text in dictionaries and views where only some left rows have matches, or none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ivjoin import window_join
from ivjoin.stream.tables import table_window


@pytest.mark.parametrize("threads", [1, 3])
def test_some_slices_have_no_match(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_window, "_left_rows", lambda _: 1)
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), ["a", "b", "c"])
    right = pa.table({"k": [1, 1, 2, 2], "u": [1, 2, 3, 4], "w": words})
    left = pa.table({"k": [9, 2, 1, 3, 1], "t": [9, 8, 2, 1, 0]})
    found = window_join(
        left, right, on="k", condition="r.u < l.t", aggregate={"top": "max(r.w)", "n": "count(*)"},
        threads=threads,
    )  # fmt: skip
    assert found.read_all().select(["top", "n"]).to_pylist() == [
        {"top": None, "n": 0}, {"top": "c", "n": 2}, {"top": "a", "n": 1}, {"top": None, "n": 0},
        {"top": None, "n": 0},
    ]  # fmt: skip


def test_no_row_has_a_match() -> None:
    right = pa.table({"k": [1, 1], "u": [1, 2], "w": pa.array(["a", "b"], pa.string_view())})
    left = pa.table({"k": [9, 2, 8, 1], "t": [9, 8, 7, 0]})
    found = window_join(left, right, on="k", condition="r.u < l.t AND l.t <> r.u * r.u", aggregate={"top": "max(r.w)"})
    assert found.read_all()["top"].to_pylist() == [None] * 4
