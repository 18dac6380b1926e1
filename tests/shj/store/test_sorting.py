"""The order of int64 values, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from ivjoin.shj.kernels.lookup import grouped_kernels
from ivjoin.shj.sorting import in_order, order_by_key

LEAST, MOST = -(2**63), 2**63 - 1
RNG = np.random.default_rng(3)


def _doubles(n: int) -> np.ndarray:
    return (RNG.random(n) * 1e6).view(np.int64)


@pytest.mark.parametrize("values", [
    pytest.param(np.empty(0, np.int64), id="none"),
    pytest.param(np.array([5], np.int64), id="one"),
    pytest.param(np.full(5000, -7, np.int64), id="alike"),
    pytest.param(RNG.integers(-3, 4, 5000), id="few values"),
    pytest.param(RNG.integers(-(2**43), 2**43, 5000), id="44 bits"),
    pytest.param(RNG.integers(-(2**44), 2**44, 5000), id="45 bits"),
    pytest.param(RNG.integers(LEAST, MOST, 5000, endpoint=True), id="all of them"),
    pytest.param(np.concatenate([np.full(2500, MOST), np.full(2500, LEAST)]), id="both ends"),
    pytest.param(np.concatenate([RNG.permutation(4000), [MOST]]), id="close together, and one far off"),
    pytest.param(np.concatenate([RNG.permutation(4000) - 2**62, RNG.permutation(4000) + 2**62]), id="two heaps"),
    pytest.param(_doubles(6000), id="doubles"),
    pytest.param(_doubles(12000)[::2], id="every other one"),
    pytest.param(RNG.permutation(2047), id="few"),
    pytest.param(RNG.permutation(2048), id="just enough"),
])  # fmt: skip
def test_the_order_is_a_permutation_that_rises(values: np.ndarray) -> None:
    before = values.copy()
    order, found = in_order(values)
    assert (found == np.sort(before)).all()
    assert (before[order] == found).all()
    assert (np.bincount(order.astype(np.int64), minlength=len(values)) == 1).all()
    assert (values == before).all()


def test_values_that_exceed_the_memory_for_buckets_are_sorted_by_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ivjoin.shj.sorting._MANY", 3000)
    values = RNG.integers(0, 1000, 5000)
    order, found = in_order(values)
    assert (values[order] == found).all()
    assert (found == np.sort(values)).all()


@pytest.mark.parametrize("kids, values", [
    pytest.param(np.empty(0, np.int64), np.empty(0, np.int64), id="none"),
    pytest.param(np.zeros(70_000, np.int64), RNG.integers(LEAST, MOST, 70_000), id="one key, more than are dealt"),
    pytest.param(RNG.integers(0, 9, 60_000), RNG.integers(LEAST, MOST, 60_000, endpoint=True), id="all of them"),
    pytest.param(RNG.integers(0, 9, 60_000), RNG.integers(0, 5, 60_000), id="ties"),
    pytest.param(RNG.integers(0, 30_000, 60_000), RNG.permutation(60_000), id="a few rows a key"),
    pytest.param(RNG.integers(0, 3, 6000), np.repeat([LEAST, -1, 0, MOST], 1500), id="heaps at the ends"),
    pytest.param(RNG.integers(0, 3, 6000), _doubles(6000), id="doubles"),
    pytest.param(np.repeat([0, 2], [25, 24]), RNG.permutation(49), id="just enough to be dealt"),
    pytest.param(RNG.integers(0, 3, 6000), np.append(RNG.permutation(5999), MOST), id="close together, one far"),
])  # fmt: skip
def test_values_by_key(kids: np.ndarray, values: np.ndarray) -> None:
    n_ids = int(kids.max(initial=0)) + 3
    given = kids.copy(), values.copy()
    starts, found, order = order_by_key(kids, values, n_ids)
    want = np.lexsort((values, kids))
    assert (order == want).all()
    assert (found == values[want]).all()
    assert (starts == np.append(0, np.cumsum(np.bincount(kids, minlength=n_ids)))).all()
    assert (kids == given[0]).all()
    assert (values == given[1]).all()


@pytest.mark.parametrize("seed", range(40))
def test_where_values_go(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n, m, wide in zip(*(rng.choice(c, 20) for c in ((0, 1, 7, 300), (1, 5, 300), (2, 50, 2**40))), strict=True):
        edges = np.append(np.sort(rng.integers(0, n + 1, 3)), n)  # of four keys
        values = np.concatenate([np.sort(part) for part in np.split(rng.integers(-wide, wide, n), edges[:-1])])
        given, kids = rng.integers(-wide - 2, wide + 2, m), rng.integers(0, 4, m)
        given[rng.random(m) < 0.1] = rng.choice([LEAST, MOST])
        if seed % 3:
            kids.sort()
            given = given[np.lexsort((given, kids))] if seed % 2 else np.sort(given)
        starts, stops = np.append(0, edges[:-1])[kids], edges[kids]
        stops = np.where(rng.random(m) < 0.1, rng.integers(starts, stops + 1), stops)
        for after, side in ((0, "left"), (1, "right")):
            out = np.empty(m, dtype=np.int64)
            grouped_kernels.place_within(starts, stops, values, given, after, out)
            for a, b, x, at in zip(starts, stops, given, out, strict=True):
                assert at == a + np.searchsorted(values[a:b], x, side=side)  # type: ignore[call-overload]
