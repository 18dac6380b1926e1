"""Tables that are joined in slices give the rows that pushes give, in one order for any number of threads."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from drivers.in_slices import check, slices_of

from ivjoin import band_join
from ivjoin.stream.tables.table_join import TableJoin

SEEDS = int(os.environ.get("IVJOIN_SLICES", "3000"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", range(4))
def test_slices_give_what_pushes_give(part: int) -> None:
    went: Counter[str] = Counter()
    for seed in range(8 * part, 8 * part + 8):
        check(seed, went)
    assert went["few"] + went["several"] > 2


@pytest.mark.slow
def test_many_slices_give_what_pushes_give() -> None:
    went: Counter[str] = Counter()
    for seed in range(100, 150):
        check(seed, went)
    assert went["several"] > 10


@pytest.mark.parametrize("on", ["k", "s", ["k", "k2"], ["s", "k"]])
def test_more_keys_than_a_table_begins_with(on: str | list[str]) -> None:
    """Ids of the first side stay as they are while the keys of the other side are named."""
    n = 6000
    x, keys = np.arange(n), np.random.default_rng(1).permutation(n)
    left = pa.table({"k": keys, "k2": keys % 7, "s": [f"key {k}" for k in keys], "x": x})
    right = pa.table({"k": keys[::-1], "k2": keys[::-1] % 7, "s": [f"key {k}" for k in keys[::-1]], "x": x})
    with slices_of(4000, 0, 0):
        stream = band_join(
            left, right, on=on, condition="l.x BETWEEN r.x - 6000 AND r.x + 6000", how="full", left_order="x",
            right_order="x",
        )
        out = stream.read_all()
    assert isinstance(stream._run.operator, TableJoin)
    assert out.num_rows == n
    assert out["x"].to_pylist() == list(range(n))
    assert sorted(out["x_right"].to_pylist()) == list(range(n))
    assert all(a == n - 1 - b for a, b in zip(out["x"].to_pylist(), out["x_right"].to_pylist(), strict=True))


def test_a_key_beyond_those_of_a_slice_has_no_rows_of_the_slice_before() -> None:
    x = np.arange(6000)
    left = pa.table({"k": x % 10, "x": x})
    right = pa.table({"k": np.where(x < 2980, x % 10, x % 5), "x": x})
    counts = []
    for least in (0, 1 << 60):
        with slices_of(3000, 0, least):
            stream = band_join(
                left, right, on="k", condition="l.x BETWEEN r.x - 20 AND r.x + 20", left_order="x", right_order="x"
            )
            counts.append(stream.read_all().num_rows)
    assert counts[0] == counts[1] > 20_000


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_ends_with_nulls_that_do_not_rise_lose_no_row(how: str, seed: int) -> None:
    """Values of rows without one are filled in; that must not make the others look as if they rise."""
    g = np.random.default_rng(seed)
    t, a = np.sort(g.integers(0, 500, 300)), g.integers(0, 500, 300)
    b, no_a, no_b = a + g.integers(0, 90, 300), g.random(300) < 0.1, g.random(300) < 0.2
    left = pa.table({"t": t, "v": np.arange(300)})
    right = pa.table({"a": pa.array(a, mask=no_a), "b": pa.array(b, mask=no_b), "w": np.arange(300)})
    with slices_of(20, 0, 0):
        stream = band_join(left, right, condition="r.a <= l.t AND l.t < r.b", how=how, left_order="t", sort="never")
        out = stream.read_all()
    there = ~no_a & ~no_b
    pairs = {(i, j) for i in range(300) for j in range(300) if there[j] and a[j] <= t[i] < b[j]}
    want = Counter[tuple[int | None, int | None]](pairs)
    if how != "inner":
        want.update((i, None) for i in set(range(300)) - {i for i, _ in pairs})
    if how == "full":
        want.update((None, j) for j in set(range(300)) - {j for _, j in pairs})
    assert Counter(zip(out["v"].to_pylist(), out["w"].to_pylist(), strict=True)) == want


@pytest.mark.nojit
def test_a_few_slices() -> None:
    went: Counter[str] = Counter()
    for seed in (3, 5, 8, 11):
        check(seed, went)
    assert went


@pytest.mark.soak
def test_slices_at_length() -> None:
    went: Counter[str] = Counter()
    for seed in range(1000, 1000 + SEEDS):
        check(seed, went)
    assert went["several"] > SEEDS / 4
