"""Picks by a value without a bound: the pairs of two tables are made where they are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from taken import one_of

import ivjoin
from ivjoin.operator.lookup.run import Run
from ivjoin.stream.tables import paired_pick


@pytest.mark.parametrize("kind, pays", [("short", True), ("dense", False)])
def test_pairs_are_made_if_they_are_few(kind: str, pays: bool) -> None:
    rng = np.random.default_rng(1)
    n = 2000
    start = np.sort(rng.integers(0, 10 * n, n))
    end = start + (5 if kind == "short" else 10 * n)
    left = pa.table({"t": rng.integers(0, 10 * n, n)})
    right = pa.table({"a": start, "b": end, "v": rng.random(n)})
    pick = one_of(left.schema, right.schema, "last", "v")
    stream = ivjoin.band_join(left, right, condition="r.a <= l.t AND l.t < r.b", how="left", pick=pick)
    assert stream.read_all().num_rows == n
    assert (type(stream._run.operator).__name__ == "BestOfTables") == pays


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("hot, pays", [(0.0, True), (0.8, False)])
def test_the_rows_of_a_hot_key_are_searched(hot: float, pays: bool, text: bool) -> None:
    rng = np.random.default_rng(1)
    n = 3000

    def keys() -> Any:
        found = np.where(rng.random(n) < hot, 0, rng.integers(0, 300, n))
        return pa.array([f"k{k}" for k in found]) if text else found

    left = pa.table({"k": keys(), "t": np.arange(n), "x": rng.integers(0, 9, n)})
    right = pa.table({"k": keys(), "t": np.arange(n), "y": rng.integers(0, 9, n)})
    stream = ivjoin.band_join(
        left, right, on="k", condition="r.t <= l.t AND r.y >= l.x", how="left", pick=ivjoin.Pick("t", "last"),
    )
    assert stream.read_all().num_rows == n
    assert (type(stream._run.operator).__name__ == "BestOfTables") == pays


def test_the_nearest_row_among_few_matches_by_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_pick, "_pays", lambda *_: True)
    left = pa.table({"t": [5.0, float("nan"), float("inf"), -0.0], "u": [9, 9, 9, 2]})
    right = pa.table({"t": [5.0, -1e300, float("nan"), 0.0, 9.0], "u": [1, 0, 3, 2, 0], "x": range(5)})
    pick = one_of(left.schema, right.schema, "nearest", "t")
    stream = ivjoin.band_join(left, right, condition="r.u <= l.u", how="left", pick=pick)
    assert stream.read_all()["x"].to_pylist() == [0, 2, 1, 3]  # all numbers are equally far from an infinity
    assert type(stream._run.operator).__name__ == "BestOfTables"


@pytest.mark.parametrize("which", ["first", "last"])
@pytest.mark.parametrize("width", [3, 400])
def test_a_pick_over_intervals_looks_at_its_pairs_alone(
    width: int, which: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    n = 3000
    left, start = pa.table({"t": rng.integers(0, n, n)}), rng.integers(0, n, n)
    right = pa.table({"a": start, "b": start + rng.integers(1, width, n)})
    made: list[int] = []
    check = Run.within

    def counted(self: Run, left: Any, terms: Any, here: Any, there: Any) -> Any:
        made.append(len(here))
        return check(self, left, terms, here, there)

    monkeypatch.setattr(Run, "within", counted)
    condition = "r.a <= l.t AND l.t < r.b"
    got = ivjoin.band_join(left, right, condition=condition, how="left", pick=ivjoin.Pick("a", which)).read_all()
    pairs = ivjoin.band_join(left, right, condition=condition).read_all()
    assert got.num_rows == n
    assert sum(made) <= 2 * pairs.num_rows
