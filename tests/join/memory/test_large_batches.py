"""Output batches whose text passes what 32-bit offsets can say become smaller batches, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import ivjoin

BIG = "x" * (32 << 20)


@pytest.mark.slow
def test_rows_of_a_megabyte() -> None:
    left = pa.table({"k": [0] * 64, "s": ["x" * (1 << 20)] * 64, "i": range(64)})
    rows, batches = 0, 0
    for batch in ivjoin.band_join(left, pa.table({"k": [0] * 64}), on="k"):
        assert batch.nbytes < 1 << 31
        rows, batches = rows + batch.num_rows, batches + 1
    assert (rows, batches) == (4096, 4)


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    lambda text: pa.array([text]), lambda text: pa.array([text], pa.string_view()),
    lambda text: pa.array([{"a": text}]), lambda text: pa.array([[text]]), lambda text: pa.array([text.encode()]),
], ids=["string", "view", "struct", "list", "binary"])  # fmt: skip
def test_every_kind_of_text(make: Callable[[str], Any]) -> None:
    left = pa.table({"k": [1], "s": make(BIG)})
    right = pa.table({"k": [1] * 70, "i": range(70)})
    found = []
    for batch in ivjoin.band_join(left, right, on="k", columns=["s", "i"]):
        assert len(batch["s"][0].as_py()) in (1, len(BIG))
        found += batch["i"].to_pylist()
    assert sorted(found) == list(range(70))
