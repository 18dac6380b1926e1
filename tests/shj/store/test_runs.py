"""Sorted runs drop dead rows once they are more than half of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from ivjoin.shj.kernels.push.index_kernels import FLAGS, LIVE
from ivjoin.shj.store.rows.runs import SortedRuns

pytestmark = pytest.mark.nojit
ROWS = 6_000


@pytest.mark.parametrize("batches", [1, 3])
def test_dead_rows_are_dropped_and_live_ones_stay(batches: int) -> None:
    runs = SortedRuns()
    values = np.random.default_rng(batches).permutation(ROWS)
    links = np.zeros((8_192, 6), dtype=np.int32)
    links[:ROWS, FLAGS] = LIVE
    rows = np.zeros((8_192, 4), dtype=np.int64)
    step = ROWS // batches
    for first in range(0, ROWS, step):
        part = values[first : first + step]
        runs.add(part % 7, part, first, rows, links, 0)
    runs.shed(ROWS, rows, links, 0)
    assert runs.size == ROWS
    live = np.arange(ROWS) % 50 == 0
    links[:ROWS, FLAGS] = np.where(live, LIVE, 0)
    runs.shed(int(live.sum()), rows, links, 0)
    assert runs.size == live.sum()
    assert set(runs.ids[: runs.size].tolist()) == set(np.flatnonzero(live).tolist())
    order = list(zip(runs.keys[: runs.size].tolist(), runs.values[: runs.size].tolist(), strict=True))
    assert order == sorted((int(v) % 7, int(v)) for v in values[live])
