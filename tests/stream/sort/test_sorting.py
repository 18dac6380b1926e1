"""Sorted inputs: the state of a join of unordered tables is its window, whatever the band."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.stream import run_of_two
from ivjoin.stream.sort import axis, ordered, sorting
from ivjoin.stream.tables import table_join

N = 20_000


def table(seed: int, n: int = N) -> pa.Table:
    rng = np.random.default_rng(seed)
    i = rng.permutation(n)
    x = i * (N / n) + rng.random(n) * 0.5
    ts = pa.array((1_700_000_000 + i) * 1_000_000).view(pa.timestamp("us"))
    return pa.table({
        "i": i, "x": x, "y": rng.random(n) * n, "lo": x, "hi": x + 3 * rng.random(n), "n": pa.array(i, pa.int32()),
        "d": pa.array(i, pa.int32()).cast(pa.decimal128(10, 0)).cast(pa.decimal128(12, 2)), "ts": ts, "k": i % 7,
        "f": pa.array(x, pa.float32()), "day": pa.array(i, pa.int32()).view(pa.date32()),
        "e": pa.array(i, pa.int64(), mask=rng.random(n) < 0.1),
    })  # fmt: skip


LEFT, RIGHT = table(1), table(2)
CONDITIONS = {
    "doubles": "abs(l.x - r.x) < 1", "whole numbers": "l.i BETWEEN r.i - 3 AND r.i + 3",
    "another type": "l.n BETWEEN r.i - 3 AND r.i + 3", "floats": "abs(l.f - r.f) <= 1",
    "decimals": "abs(l.d - r.d) <= 1.5",
    "times": "l.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS",
    "far ahead": "l.ts BETWEEN r.ts + INTERVAL 1 HOUR AND r.ts + INTERVAL 3605 SECONDS",
    "dates": "l.day BETWEEN r.day AND r.day + INTERVAL 2 DAY",
    "computed": "l.x BETWEEN r.x + 1 AND r.x + 2",
    "far ahead, computed": "l.x BETWEEN r.x * 0.5 + 5000 AND r.x * 0.5 + 5001",
    "against": "l.i + r.i BETWEEN 19990 AND 19999",
    "containment": "l.x BETWEEN r.lo AND r.hi",
    "overlap": "l.lo <= r.hi AND r.lo <= l.hi",
    "a width that is a column": "l.x BETWEEN r.x AND r.x + r.hi - r.lo",
    "two dimensions": "abs(l.x - r.x) < 5 AND abs(l.y - r.y) < 500",
    "the second is the better": "abs(l.y - r.y) < 9000 AND abs(l.x - r.x) < 1",
    "keys": "l.k = r.k AND abs(l.x - r.x) < 5",
    "ratio": "l.x / r.x < 1.0005 AND r.x / l.x < 1.0005 AND r.x > 0 AND l.x > 0",
    "a square": "(l.i - r.i) * (l.i - r.i) < 20",
    "nulls": "abs(l.e - r.e) < 3",
    "one of two windows": "abs(l.x - r.x) < 1 OR l.x - r.x BETWEEN 2 AND 3",
}


def peak(left: Any, right: Any, condition: str, **options: Any) -> tuple[int, pa.Table]:
    stream = ivjoin.band_join(left, right, condition=condition, columns=["x", "y", "x_right", "y_right"], **options)
    out = stream.read_all()
    return stream.metrics.peak_state_rows, out


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", CONDITIONS)
def test_the_state_is_the_window(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_of_two, "_SWEEP_ROWS", 256)
    monkeypatch.setattr(run_of_two, "_PUSH_ROWS", 256)
    monkeypatch.setattr(table_join, "_OWN_ROWS", 128)
    monkeypatch.setattr(table_join, "_BANDS", 1)
    held, got = peak(LEFT, RIGHT, CONDITIONS[name])
    assert got.num_rows
    assert held < 256 + 700
    small = LEFT.slice(0, 400), RIGHT.slice(0, N)
    _, kept = peak(*small, CONDITIONS[name], sort="never")
    _, again = peak(*small, CONDITIONS[name])
    order = [(c, "ascending") for c in kept.schema.names]
    assert kept.sort_by(order).equals(again.sort_by(order))


@pytest.mark.parametrize("other", ["table", "stream"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_side_is_sorted_to_match_the_other_ones_order(
    other: str, descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_join, "_OWN_ROWS", 1000)
    left = LEFT.sort_by([("i", "descending" if descending else "ascending")])
    stream = ivjoin.band_join(
        left if other == "table" else left.to_reader(max_chunksize=500), RIGHT, condition="abs(l.i - r.i) <= 3",
        left_order=ivjoin.Order("i", descending=descending), how="full",
    )  # fmt: skip
    rows = stream.read_all().num_rows
    assert rows == sum(min(N, i + 4) - max(0, i - 3) for i in range(N))
    assert stream.metrics.peak_state_rows < 5_000
    assert stream.sorting.startswith("the right side was not ordered: it was sorted by r.i")


def test_what_is_in_order_is_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "gathered", None)
    monkeypatch.setattr(run_of_two, "_LEAST_IN_SLICES", 1 << 60)
    tables = [t.sort_by("x") for t in (LEFT, RIGHT)]
    held, out = peak(*tables, "abs(l.x - r.x) < 1 AND abs(l.y - r.y) < 3000")
    assert out.num_rows
    assert held < 10_000
    with pytest.raises(TypeError):
        peak(LEFT, tables[1], "abs(l.x - r.x) < 1")


def test_axis_with_fewest_candidates_is_chosen() -> None:
    def sorted_by(condition: str) -> str:
        stream = ivjoin.band_join(LEFT, RIGHT, condition=condition)
        next(stream)
        return stream.sorting.partition("sorted, ")[2].partition(",")[0]

    assert sorted_by("abs(l.x - r.x) < 4000 AND abs(l.y - r.y) < 100") == "by l.y and r.y"
    assert sorted_by("abs(l.x - r.x) < 100 AND abs(l.y - r.y) < 4000") == "by l.x and r.x"
    assert sorted_by("l.y < r.y AND l.x BETWEEN r.x AND r.x + 5") == "by l.x and r.x"


@pytest.mark.parametrize("on", [None, "k"])
@pytest.mark.parametrize("rows, width, chosen", [
    (N, 10, True), (N, N // 2, True), (N, 9 * N // 10, False),  # most rows meet: sorting would drop few of them
    (50, 10, False), (52, 10, False), (54, 10, True),  # so few pairs cost less than sorting does
])  # fmt: skip
def test_tables_are_sorted_where_that_costs_less(on: str | None, rows: int, width: int, chosen: bool) -> None:
    condition = f"l.i BETWEEN r.i AND r.i + {width}"
    stream = ivjoin.band_join(LEFT, RIGHT.slice(0, rows), on=on, condition=condition, how="right_semi")
    next(stream, None)
    assert bool(stream.sorting) == chosen
    never = ivjoin.band_join(LEFT, RIGHT.slice(0, rows), on=on, condition=condition, how="right_semi", sort="never")
    next(never, None)
    assert never.sorting == ""


@pytest.mark.slow
def test_streams_keep_their_order_and_their_rows() -> None:
    stream = ivjoin.band_join(LEFT.to_reader(), RIGHT.to_reader(), condition="abs(l.x - r.x) < 1", how="left_semi")
    stream.read_all()
    assert stream.sorting == ""
    assert stream.metrics.peak_state_rows >= N


def test_table_joined_with_an_unordered_stream_is_stored() -> None:
    stream = ivjoin.band_join(LEFT.to_reader(max_chunksize=1000), RIGHT.slice(0, 3000), on="i", how="left")
    assert stream.read_all().num_rows == N
    assert stream.metrics.peak_state_rows == 3000


def test_of_two_tables_joined_by_keys_the_shorter_is_stored() -> None:
    for left, right in ((LEFT, RIGHT.slice(0, 500)), (LEFT.slice(0, 500), RIGHT)):
        stream = ivjoin.band_join(left, right, on="i", how="full")
        assert stream.read_all().num_rows == N
        assert stream.metrics.peak_state_rows == 500


def test_never() -> None:
    stream = ivjoin.band_join(LEFT, RIGHT, condition="l.i = r.i + 1 AND l.i < r.i + 5", sort="never")
    stream.read_all()
    assert stream.sorting == ""
    with pytest.raises(ivjoin.IvjoinError, match="sort is 'always'; expected 'auto' or 'never'"):
        ivjoin.band_join(LEFT, RIGHT, on="k", sort="always")


LOW, TOP = -(2**63), 2**63 - 1
EDGES = [LOW, LOW + 1, -5, 0, 1, 7, 2**62, TOP - 1, TOP, None]


def fit(x: int) -> int:
    if not LOW <= x <= TOP:
        raise OverflowError
    return x


ERRING: dict[str, Callable[[int, int, int], bool]] = {
    "l.a + r.a BETWEEN -3 AND 4": lambda a, b, c: -3 <= fit(a + c) <= 4,
    "2 * l.a + r.a <= 5": lambda a, b, c: fit(fit(2 * a) + c) <= 5,
    "l.a + l.b >= r.a": lambda a, b, c: fit(a + b) >= c,
    "l.a + l.b BETWEEN r.a AND r.a + 3": lambda a, b, c: c <= fit(a + b) <= fit(c + 3),
}


@pytest.mark.one_in(11)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("condition", ERRING)
def test_rows_for_which_the_axis_errs(condition: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared with the rows of their keys all the same, and one that errs for a partner is raised."""
    import random

    monkeypatch.setattr(sorting, "SMALL", -1)
    monkeypatch.setattr(axis, "_WORTH", 2.0)
    monkeypatch.setattr(run_of_two, "_SWEEP_ROWS", 1)
    rng = random.Random(condition)
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})

    def met(x: Any, y: Any) -> bool:
        return x[0] == y[0] and ERRING[condition](x[1] or 0, x[2], y[1] or 0) and None not in (x[1], y[1])

    compared = 0
    for round_ in range(80):
        sides = [
            [(rng.randint(0, 2), rng.choice(EDGES), rng.choice(EDGES[:-1])) for _ in range(rng.randint(1, 4))]
            for _ in (0, 1)
        ]
        how = oracle.HOWS[round_ % 8]
        try:
            want = oracle.join(*sides, how, condition=met, merged=[(0, 0)])
        except OverflowError:
            continue
        tables = [pa.Table.from_pylist([dict(zip("kab", r, strict=True)) for r in s], schema) for s in sides]
        stream = ivjoin.band_join(*tables, on="k", condition=condition, how=how, threads=threads)
        got = [tuple(r.values()) for r in stream.read_all().to_pylist()]
        assert sorted(got, key=str) == sorted(want.elements(), key=str)
        compared += 1
    assert compared > 10
