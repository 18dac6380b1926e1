"""Values are sorted by dealing them to buckets: stable, for any values and any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from ivjoin.operator.lookup.tables import ordered
from ivjoin.shj.kernels.slices import deal_kernels
from ivjoin.stream.sort import dealing

EDGES = np.array([-(2**63), -(2**63) + 1, -(2**62), -1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 2, 2**63 - 1])
_rng = np.random.default_rng(5)
COLUMNS = {
    "even": _rng.integers(0, 10**6, 3000),
    "wide": _rng.integers(-(2**63), 2**63 - 1, 3000),
    "edges": _rng.choice(EDGES, 3000),
    "doubles": np.abs(_rng.normal(0, 1, 3000)).view(np.int64),
    "one value above": np.where(_rng.random(3000) < 0.9, 7, 8),
    "outside of the sample": np.r_[np.full(1500, 5), _rng.integers(0, 10, 1500)],
}


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"_WORTH_DEALING": 64, "_BUCKET": 40, "_SAMPLE": 200, "_PART": 300}.items():
        monkeypatch.setattr(dealing, name, size)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", COLUMNS)
def test_sort_is_stable(name: str, threads: int) -> None:
    values = COLUMNS[name]
    order, found = dealing.sort_order(values, threads)
    expected = np.argsort(values, kind="stable")
    assert order.tolist() == expected.tolist()
    assert found.tolist() == values[expected].tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_unusable_rows_are_left_out(threads: int) -> None:
    values, usable = COLUMNS["even"], _rng.random(3000) < 0.7
    order, found = dealing.order_of(values, usable, threads)
    rows = np.flatnonzero(usable)
    expected = rows[np.argsort(values[rows], kind="stable")]
    assert order is not None and order.tolist() == expected.tolist()
    assert found.tolist() == values[expected].tolist()
    assert dealing.values_at(values, order, threads).tolist() == found.tolist()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("at", [0, 1, 299, 300, 301, 4094, 4095, 4096, 4097, 9998, None])
def test_one_fall_is_seen_anywhere(at: int | None, threads: int) -> None:
    values = np.arange(10_000)
    if at is not None:
        values[at] = values[at + 1] + 1
    assert ordered.rises(values) is (at is None)
    assert dealing.rise(values, threads) is (at is None)
    assert (dealing.order_of(values, None, threads)[0] is None) is (at is None)


@pytest.mark.parametrize("values", [[], [5], [3, 3], [-(2**63), 2**63 - 1], [2**63 - 1, -(2**63)]])
def test_few_values_rise(values: list[int]) -> None:
    assert ordered.rises(np.array(values, dtype=np.int64)) is (values == sorted(values))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", COLUMNS)
def test_ends_are_of_usable_values(name: str, threads: int) -> None:
    values = COLUMNS[name]
    for usable in (None, _rng.random(3000) < 0.3, np.arange(3000) == 1234):
        some = values if usable is None else values[usable]
        assert dealing.ends_of(values, usable, threads) == (min(some.tolist()), max(some.tolist()))
    assert dealing.ends_of(values, np.zeros(3000, dtype=bool), threads) is None
    assert dealing.ends_of(values[:0], None, threads) is None


@pytest.mark.parametrize("cuts", [[0], [-(2**63)], [2**63 - 1], [-(2**63), 2**63 - 1], [-5, -4, 0, 2**40, 2**62]])
def test_bucket_is_the_number_of_cuts_up_to_a_value(cuts: list[int]) -> None:
    near = [x + by for x in cuts for by in (-1, 0, 1) if -(2**63) <= x + by < 2**63]
    edges = np.unique(np.concatenate([EDGES, np.array(near, dtype=np.int64)]))
    at = np.array(cuts, dtype=np.int64)
    places = dealing._Places.of(at)
    out, counts = np.empty(len(edges), np.uint8), np.zeros(len(cuts) + 1, np.int64)
    deal_kernels.buckets_of(edges, at, places.first, places.shift, out, counts)
    expected = np.searchsorted(at, edges, side="right")
    assert out.tolist() == expected.tolist()
    assert counts.tolist() == np.bincount(expected, minlength=len(cuts) + 1).tolist()
