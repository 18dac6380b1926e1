"""Pairs of rows and places whose value lies in a range, against a nested loop."""

from __future__ import annotations

import numpy as np
import pytest

from ivjoin.shj.store.values import value_blocks
from ivjoin.shj.store.values.value_blocks import ValueBlocks


@pytest.mark.nojit
@pytest.mark.parametrize("n", [0, 1, 4, 5, 16, 17, 64, 65, 300])
def test_pairs_within_are_those_of_a_nested_loop(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.integers(-20, 20, n)
    values[rng.random(n) < 0.1] = -(2**63)
    values[rng.random(n) < 0.1] = 2**63 - 1
    absent = rng.random(n) < 0.1
    first, last = np.sort(rng.integers(0, n + 1, (2, 50)), axis=0)
    low, high = rng.integers(-25, 25, (2, 50))
    low[:5], high[5:9] = -(2**63), 2**63 - 1
    for gone in (None, absent):
        inside = (values >= low[:, None]) & (values <= high[:, None])
        inside = inside if gone is None else inside | gone
        place = np.arange(n)
        want = np.argwhere(inside & (place >= first[:, None]) & (place < last[:, None]))
        rows, at, done = ValueBlocks.of(values, gone).pairs(first, last, low, high, 1 << 16)
        assert done == 50
        assert np.array_equal(np.stack((rows, at), axis=1), want)
        rows, at, done = ValueBlocks.of(values, gone).pairs(first, last, low, high, 3)
        assert 0 < done <= 50
        assert np.array_equal(np.stack((rows, at), axis=1), want[want[:, 0] < done])


@pytest.mark.nojit
@pytest.mark.parametrize("n", [0, 1, 5, 64, 300])
def test_a_sweep_finds_the_pairs_of_a_search(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_blocks, "_SEARCH", 1 << 30)
    rng = np.random.default_rng(n)
    values = rng.integers(-20, 20, n)
    values[rng.random(n) < 0.1] = -(2**63)
    values[rng.random(n) < 0.1] = 2**63 - 1
    edges = np.sort(rng.integers(0, n + 1, 4))
    group = np.sort(rng.integers(0, 3, 50))
    first, end = edges[group], edges[group + 1]
    last = np.maximum(first, rng.integers(first, end + 1))
    low = np.sort(rng.integers(-25, 25, 50))
    if edges[0] < edges[1] < edges[2]:
        low[group == 1] -= 20
    low[:5] = -(2**63)
    high = np.full(50, 2**63 - 1)
    for absent in (None, rng.random(n) < 0.1):
        blocks = ValueBlocks.of(values, absent)
        for most in (1 << 16, 3):
            swept = blocks.swept(first, last, low, high, most)
            rows, at, done = blocks.pairs(first, last, low, high, 1 << 16)
            if swept is None:
                assert not (last > first).any()
                continue
            kept = rows < swept[2]
            assert done == 50
            assert 0 < swept[2] <= 50
            assert swept[2] == 50 or most == 3
            assert np.array_equal(swept[0], rows[kept])
            assert np.array_equal(swept[1], at[kept])
    if n > 5:
        assert blocks.swept(first, last, low[::-1].copy(), high, 9) is None
    assert blocks.swept(first, last, low, high - 1, 9) is None
