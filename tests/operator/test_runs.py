"""Right rows of a lookup in runs: sorted by key and axis, and by arrival where both are equal."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Run
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


def _columns(rng: np.random.Generator, seq: np.ndarray) -> list[pa.Array]:
    words = pa.array([f"word {x}" * (x % 5) if x % 7 else None for x in rng.integers(0, 50, len(seq)).tolist()])
    lists = pa.array([list(range(x)) for x in rng.integers(0, 4, len(seq)).tolist()])
    return [pa.array(seq), words, words.dictionary_encode(), lists]


def _dead(rng: np.random.Generator, chance: float, oldest: int, run: Run) -> np.ndarray:
    return (run.rows.seq < oldest) | (rng.random(len(run)) < chance)


@pytest.mark.parametrize("batch", [40, 900, 5000])
def test_rows_that_others_replace_leave_no_long_columns(batch: int) -> None:
    """Rows are evicted by age, by chance or nearly all; columns stay those of the rows, and less than twice as long."""
    rng = np.random.default_rng(batch)
    right, first = RightRows(0), 0
    want: dict[int, tuple[object, ...]] = {}
    for step in range(60):
        seq = np.arange(first, first + batch)
        columns = _columns(rng, seq)
        right.add(Rows(columns, seq, rng.integers(0, 100, batch), [seq]))
        want |= dict(zip(seq.tolist(), zip(*(c.to_pylist() for c in columns), strict=True), strict=True))
        first += batch
        right.merge()
        chance, oldest = (0.99, 0) if step % 20 == 19 else (0.1 * (step % 3), first - 8 * batch)
        right.evict(partial(_dead, rng, chance, oldest), True)
        for rows in right.each():
            assert len(rows.base[0]) <= 2 * len(rows) + 64
            assert len({c.num_chunks if isinstance(c, pa.ChunkedArray) else 0 for c in rows.base}) == 1
            assert not isinstance(rows.base[0], pa.ChunkedArray) or rows.base[0].num_chunks <= 20 + len(rows) // 500
            some = rng.integers(0, len(rows), min(len(rows), 200))
            there = [want[s] for s in rows.seq[some].tolist()]
            assert list(zip(*(rows.some(i, some).to_pylist() for i in range(4)), strict=True)) == there
