"""Picks by a value that no bound compares: the pairs of two tables, reduced, against every pair of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.stream.sort import sorting
from ivjoin.stream.threads import paired_pick


def best(left: pa.Table, right: pa.Table, which: str, keyed: bool) -> list[int | None]:
    """The right row of each left row by its number; values that rank rows are distinct, but for nulls."""
    out: list[int | None] = []
    rows = [b for b in right.to_pylist() if b["v"] is not None and b["a"] is not None and b["b"] is not None]
    for x in left.to_pylist():
        found = [
            (b["v"], b["x"]) for b in rows
            if x["t"] is not None and b["a"] <= x["t"] < b["b"]
            and (not keyed or (x["k"] is not None and x["k"] == b["k"]))
        ]  # fmt: skip
        out.append((max(found) if which == "last" else min(found))[1] if found else None)
    return out


@pytest.mark.parametrize("small", [-1, 1 << 20])
@pytest.mark.parametrize("seed", range(12))
def test_random_intervals(seed: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(sorting, "SMALL", small)
    monkeypatch.setattr(paired_pick, "_pays", lambda *_: True)
    n, m = rng.choice([0, 1, 40, 90], 2)
    start = rng.integers(0, 200, m)
    end = start + rng.choice([1, 3, 500], m) * rng.integers(-1, 5, m)

    def holes(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(len(values)) < rng.choice([0, 0.1]))

    left = pa.table({"k": holes(rng.integers(0, 3, n)), "t": holes(rng.integers(0, 200, n)), "id": np.arange(n)})
    right = pa.table({
        "k": holes(rng.integers(0, 3, m)), "a": holes(start), "b": holes(end), "v": holes(rng.permutation(m) / 2),
        "x": np.arange(m),
    })  # fmt: skip
    keyed = bool(rng.random() < 0.5)
    for which in ("last", "first"):
        for how in ("left", "inner"):
            for threads in (1, 2):
                stream = ivjoin.band_join(
                    left, right, on="k" if keyed else None, condition="r.a <= l.t AND l.t < r.b", how=how, pick=which,
                    pick_by="v", threads=threads,
                )
                got = stream.read_all()
                want = best(left, right, which, keyed)
                assert type(stream._operator).__name__ == "PairedPick" or m <= 1
                kept = [i for i in range(n) if how == "left" or want[i] is not None]
                assert got["id"].to_pylist() == kept
                assert got["x"].to_pylist() == [want[i] for i in kept]


@pytest.mark.parametrize("kind, pays", [("short", True), ("dense", False)])
def test_pairs_are_made_if_they_are_few(kind: str, pays: bool) -> None:
    rng = np.random.default_rng(1)
    n = 2000
    start = np.sort(rng.integers(0, 10 * n, n))
    end = start + (5 if kind == "short" else 10 * n)
    left = pa.table({"t": rng.integers(0, 10 * n, n)})
    right = pa.table({"a": start, "b": end, "v": rng.random(n)})
    stream = ivjoin.band_join(
        left, right, condition="r.a <= l.t AND l.t < r.b", how="left", pick="last", pick_by="v"
    )
    assert stream.read_all().num_rows == n
    assert (type(stream._operator).__name__ == "PairedPick") == pays
