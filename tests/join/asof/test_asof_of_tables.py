"""As-of joins of tables of some thousand rows, in order and out of it, against every pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drivers.asof_tables import ROWS, keys, numbers, times, wanted

import ivjoin
from ivjoin.shj.kernels.lookup import grouped_kernels


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_every_pair(seed: int, direction: Any) -> None:
    rng = np.random.default_rng(seed)
    kind = ("near", "heaps", "stamps", "floats")[seed % 4]
    if kind == "floats" and direction == "nearest":
        kind = "heaps"  # distances of infinities are told in test_asof
    names = ("near", "far", "many", "heavy", "text")[seed % 5]
    left, right = (pa.table({"k": keys(rng, n, names), "t": times(rng, n, kind), name: np.arange(n)})
                   for n, name in zip(ROWS, ("id", "x"), strict=True))  # fmt: skip
    if seed % 3 == 0:
        right = right.sort_by("t").set_column(2, "x", pa.array(np.arange(len(right))))
    if seed % 6 == 0:
        left = left.sort_by("t")
    tolerance = None if seed % 2 else (40 if kind != "near" else 1)
    exact = seed % 7 != 0
    limit: Any = f"{tolerance} us" if tolerance is not None and kind == "stamps" else tolerance
    got = ivjoin.asof_join(
        left, right, on="t", by="k", direction=direction, tolerance=limit, allow_exact_matches=exact
    ).read_all()
    assert got["id"].to_pylist() == left["id"].to_pylist()
    none = got["x"].is_null().to_numpy()
    found = np.where(none, np.nan, numbers(got["t_right"].combine_chunks()))
    np.testing.assert_array_equal(found, wanted(left, right, direction, tolerance, exact))
    # it is a right row, of that key and time
    rows = right.take(got["x"].filter(pa.array(~none)))
    there = got.filter(pa.array(~none))
    assert rows["k"].to_pylist() == there["k"].to_pylist()
    np.testing.assert_array_equal(numbers(rows["t"].combine_chunks()), numbers(there["t_right"].combine_chunks()))


@pytest.mark.parametrize("direction", ["backward", "nearest"])
def test_a_right_side_in_many_pieces(direction: Any) -> None:
    rng = np.random.default_rng(8)
    left, right = (
        pa.table({"k": keys(rng, n, "text"), "t": times(rng, n, "stamps"), "id": np.arange(n)}) for n in ROWS
    )
    right = right.append_column("said", pa.array([f"said {i}" if i % 5 else None for i in range(len(right))]))
    whole = ivjoin.asof_join(left, right, on="t", by="k", direction=direction).read_all()
    # past what is put together before it is pushed
    pieces = (right.slice(start, 2100) for start in range(0, len(right), 2100))
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    for size in (65_536, 1000):
        got = ivjoin.asof_join(left, batches, on="t", by="k", direction=direction, batch_size=size)
        table = got.read_all()
        assert table.select(["id", "t_right", "id_right", "said"]).equals(
            whole.select(["id", "t_right", "id_right", "said"])
        )


def test_a_limit_includes_its_own_value() -> None:
    groups, rows = np.array([0, 2]), np.array([0, 1])
    starts, stops, values = np.array([0]), np.array([3]), np.array([1, 5, 9])
    ends = np.full(2, -(2**63)), np.array([5, 9])
    for mode, by, others, want in (
        (grouped_kernels.DOWN, np.array([5, 7]), ends[0], [1, 1]),
        (grouped_kernels.UP, np.array([5, 6]), ends[1], [1, 2]),
        (grouped_kernels.UP, np.array([2, 6]), np.array([4, 8]), [-1, -1]),
    ):
        out = np.empty(2, dtype=np.int64)
        grouped_kernels.meet_groups(groups, by, rows, others, starts, stops, values, mode, out)
        assert out.tolist() == want
