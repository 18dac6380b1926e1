"""Aggregates of a dictionary where only some left rows have matches."""

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
