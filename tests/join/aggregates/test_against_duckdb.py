"""Aggregates of tables against DuckDB's grouped joins, and the ways in and out that tables have."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ivjoin

SELECTED = """
    count(r.j) n, count(r.x) n_x, sum(r.x) sum_x, avg(r.x) mean_x, min(r.x) min_x, max(r.x) max_x,
    first(r.x ORDER BY {by}, r.j) first_x, last(r.x ORDER BY {by}, r.j) last_x, sum(r.q) sum_q, avg(r.q) mean_q,
    min(r.q) min_q, max(r.q) max_q, sum(r.c) sum_c, avg(r.c) mean_c, min(r.s) min_s, max(r.s) max_s,
    count(DISTINCT r.j) FILTER (r.q > 0) odd
"""
AGGREGATES = {
    "n": ("*", "count"), "n_x": ("x", "count"), "sum_x": ("x", "sum"), "mean_x": ("x", "mean"), "min_x": ("x", "min"),
    "max_x": ("x", "max"), "first_x": ("x", "first"), "last_x": ("x", "last"), "sum_q": ("q", "sum"),
    "mean_q": ("q", "mean"), "min_q": ("q", "min"), "max_q": ("q", "max"), "sum_c": ("c", "sum"),
    "mean_c": ("c", "mean"), "min_s": ("s", "min"), "max_s": ("s", "max"),
    "odd": ("CASE WHEN r.q > 0 THEN r.j END", "count"),
}  # fmt: skip


def side(seed: int, n: int, keys: int, span: int, ordered: bool) -> pa.Table:
    rng = np.random.default_rng(seed)
    t = rng.integers(0, span, n)
    t = np.sort(t) if ordered else t
    some = rng.random(n) < 0.05
    x = np.where(rng.random(n) < 0.02, np.nan, rng.normal(size=n) * 10.0 ** rng.integers(-8, 9, n))
    words = pa.array(["", "a", "b", "ab", "é", "zz"])
    return pa.table({
        "i": np.arange(n), "j": np.arange(n), "k": rng.integers(0, keys, n),
        "w": words.take(pa.array(rng.integers(0, 6, n))), "t": pa.array(t, mask=some), "d": t + rng.random(n),
        "x": pa.array(x, mask=rng.random(n) < 0.1), "q": pa.array(rng.integers(-(2**40), 2**40, n), mask=some),
        "c": pa.array(rng.integers(-(10**6), 10**6, n)).cast(pa.decimal128(20, 0)).cast(pa.decimal128(22, 2)),
        "s": words.take(pa.array(rng.integers(0, 6, n), mask=some)),
    })  # fmt: skip


def rounded(v: Any) -> Any:
    if isinstance(v, float):
        return "nan" if math.isnan(v) else v
    return int(v) if isinstance(v, Decimal) and v == int(v) else v


def compare(
    left: pa.Table, right: pa.Table, got: pa.Table, how: str, condition: str, by: str = "r.t", ties: bool = False,
) -> None:
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.register("lt", left)
        db.register("rt", right)
        rows = db.sql(
            f"SELECT l.i, {SELECTED.format(by=by)} FROM lt l {how} JOIN rt r ON {condition} GROUP BY l.i ORDER BY l.i"
        ).to_arrow_table()
    got = got.sort_by("i")
    assert got["i"].to_pylist() == rows["i"].to_pylist()
    size = pc.max(pc.abs(right["x"].combine_chunks())).as_py() or 1.0
    for name in AGGREGATES:
        if ties and name in ("first_x", "last_x"):  # of a table that is sorted, any of those that are equal
            continue
        for a, b in zip(got[name].to_pylist(), rows[name].to_pylist(), strict=True):
            if isinstance(a, float) and isinstance(b, float) and not math.isnan(a):
                assert math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12 * (size if size == size else 1e9)), name
            else:
                assert rounded(a) == rounded(b), (name, a, b)


JOINS = {
    "band": ("abs(l.t - r.t) <= 20", None, "abs(l.t - r.t) <= 20"),
    "band and key": ("l.t BETWEEN r.t - 50 AND r.t + 9", "k", "l.k = r.k AND l.t BETWEEN r.t - 50 AND r.t + 9"),
    "band and text": ("l.t BETWEEN r.t AND r.t + 90", "w", "l.w = r.w AND l.t BETWEEN r.t AND r.t + 90"),
    "two keys": ("l.t <= r.t", ["w", "k"], "l.w = r.w AND l.k = r.k AND l.t <= r.t"),
    "doubles": ("abs(l.d - r.d) < 5.5", "k", "l.k = r.k AND abs(l.d - r.d) < 5.5"),
    "wide": ("l.d BETWEEN r.d - 2000 AND r.d", None, "l.d BETWEEN r.d - 2000 AND r.d"),
    "residual": ("abs(l.t - r.t) <= 60 AND l.q > r.q", "k", "l.k = r.k AND abs(l.t - r.t) <= 60 AND l.q > r.q"),
    "key alone": (None, ["w", "k"], "l.w = r.w AND l.k = r.k"),
    "comparison alone": ("l.d > r.d", None, "l.d > r.d"),
}


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("ordered", [True, False])
def test_tables(name: str, how: str, ordered: bool) -> None:
    condition, on, sql = JOINS[name]
    left, right = side(1, 700, 5, 5000, ordered), side(2, 2200, 5, 5000, ordered)
    stream = ivjoin.window_join(left, right, on=on, condition=condition, how=how, aggregate=AGGREGATES)
    assert stream.schema.names == [*left.schema.names, *AGGREGATES]
    # first and last are by the band, or as rows came
    by = "r.j" if condition is None else "r.d" if "r.d" in sql else "r.t"
    compare(left, right, stream.read_all(), how, sql, by, ties=not ordered and by == "r.t")


@pytest.mark.slow
def test_threads_columns_and_streams() -> None:
    left, right = side(3, 9000, 5, 60_000, True).drop_columns(["s"]), side(4, 9000, 5, 60_000, True)
    left, right = left.filter(pc.is_valid(left["t"])), right.filter(pc.is_valid(right["t"]))
    options: dict[str, Any] = {
        "on": "k", "condition": "abs(l.t - r.t) <= 40", "how": "left", "left_order": "t", "right_order": "t",
        "aggregate": AGGREGATES,
    }
    compare(left, right, ivjoin.window_join(left, right, threads=2, **options).read_all(), "left", JOIN)
    whole = ivjoin.window_join(iter(left.to_batches(700)), iter(right.to_batches(900)), **options).read_all()
    compare(left, right, whole, "left", JOIN)
    for columns in (["i"], ["n", "i"], ["last_x", "i"], ["sum_q", "n", "i"]):
        some = ivjoin.window_join(left, right, columns=columns, **options).read_all()
        assert some.schema.names == columns
        wanted = whole.select(columns).sort_by("i")
        assert [*map(repr, some.sort_by("i").to_pylist())] == [*map(repr, wanted.to_pylist())]


JOIN = "l.k = r.k AND abs(l.t - r.t) <= 40"
