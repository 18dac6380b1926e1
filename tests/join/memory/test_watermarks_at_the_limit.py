"""Watermarks that reach an operator at its memory limit: they release rows and are not refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import MemoryLimitError, Spill, SymmetricHashJoin

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.string(), "v": pa.float64()})
WIDE = {"on": "k", "condition": "abs(l.t - r.t) <= 4000 AND l.v <= r.v", "left_order": "t", "right_order": "t"}


def wide_rows(i: int, n: int = 100) -> pa.RecordBatch:
    t = np.arange(n) + n * i
    return pa.record_batch([t % 77, t, ["y" * 30] * n, t + 0.5], schema=SCHEMA)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", ["inner", "left_anti"])
@pytest.mark.parametrize("limit", range(40_000, 70_000, 2_500))
def test_a_watermark_of_something_new_is_taken_at_the_limit(limit: int, how: str) -> None:
    """What lets rows go is not refused for want of the few bytes that a bound of its own takes."""
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **{**WIDE, "left_order": None, "how": how}, memory_limit=limit)
    full = False
    for i, side in ((i, side) for i in range(40) for side in ("left", "right")):
        try:
            list(op.push(side, wide_rows(i)))
        except MemoryLimitError:
            full = True
            break
    assert full
    held = op.metrics.state_rows
    out: list[Any] = []
    for side, name, at in (
        ("left", "k", -5), ("right", "k", -5), ("right", "v + t", 1e9), ("left", "t + k", 10**9), ("left", "v", 1e9),
        ("right", "v", 1e9),
    ):  # fmt: skip
        out += op.advance(side, {name: at})
    assert op.metrics.state_rows < held


@pytest.mark.one_in(5)
@pytest.mark.parametrize("share", [0.8, 0.9, 1.02, 1.1])
def test_rows_reordered_for_a_watermark_spill_if_they_do_not_fit(share: float, tmp_path: Path) -> None:
    free = SymmetricHashJoin(SCHEMA, SCHEMA, **WIDE)
    for i in range(16):
        list(free.push("left", wide_rows(i)))
    limit = int(free.metrics.state_bytes * share)
    op = SymmetricHashJoin.restore(free.snapshot(), memory_limit=limit, when_full=Spill(tmp_path))
    got: list[list[Any]] = []
    for each in (free, op):
        list(each.advance("right", {"k": -5}))  # an axis that the rows did not have
        assert each is free or each.metrics.state_bytes <= limit
        out = each.push("right", wide_rows(15))
        got.append(sorted(str(tuple(row.values())) for batch in out for row in batch.to_pylist()))
    assert got[0] == got[1] and got[0]
    assert op.metrics.state_bytes <= limit
