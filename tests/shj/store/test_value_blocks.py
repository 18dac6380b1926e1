"""Pairs of rows and places whose value lies in a range, against a nested loop."""

from __future__ import annotations

import numpy as np
import pytest

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
