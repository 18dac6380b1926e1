"""Right rows of a lookup in runs: sorted by key and axis, and by arrival where both are equal."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.stored import RightRows

KEYS = {"narrow": np.arange(-5, 40), "sparse": np.random.default_rng(0).integers(-(2**62), 2**62, 45)}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("size", [1, 700, 9000])
def test_runs_are_sorted_by_key_axis_and_arrival_however_rows_came(keys: str, rising: bool, size: int) -> None:
    rng = np.random.default_rng(size)
    right, first, came = RightRows(0), 0, []
    for _ in range(12):
        n = int(rng.integers(1, size + 1))
        seq = np.arange(first, first + n)
        kids, values = rng.choice(KEYS[keys], n), rng.integers(0, 5, n) + (first // 7 if rising else 0)
        values = np.sort(values) if rising else values
        right.add(Rows([pa.array(seq)], seq, kids, [values]))
        came.append((kids, values, seq))
        first += n
        if rng.random() < 0.7:
            right.sorted()
    for run in right.sorted():
        rows = run.rows
        assert rows.columns[0].to_pylist() == rows.seq.tolist()
        assert np.lexsort((rows.seq, rows.axes[0], rows.kids)).tolist() == list(range(len(rows)))
    right.merge()
    (run,) = right.runs
    kids, values, seq = map(np.concatenate, zip(*came, strict=True))
    assert run.rows.seq.tolist() == seq[np.lexsort((seq, values, kids))].tolist()
