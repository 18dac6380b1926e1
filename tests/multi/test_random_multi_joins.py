"""Joins of two to five inputs against DuckDB: chains, stars, cycles, self joins, keys alone, over splits, restored."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from multi.fuzz import SHAPES, Case, case, check

import ivjoin


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(3 * len(SHAPES)))
def test_pushed_in_pieces_and_restored_at_every_step(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_some_of_them_have_rows() -> None:
    assert sum(bool(case(seed).expected()) for seed in range(4 * len(SHAPES))) > 6


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10_000, 10_600))
def test_many_more(seed: int) -> None:
    check(seed)


def rows_of(c: Case, **options: object) -> list[tuple[int, ...]]:
    out = ivjoin.multi_join(c.tables, c.condition, orders=c.orders, **options).read_all()  # type: ignore[arg-type]
    return sorted(zip(*(out.column(f"{a}_id").to_pylist() for a in c.tables), strict=True))


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(100, 107))
def test_pulled_with_every_choice_of_views(seed: int) -> None:
    c = case(seed)
    want = sorted(c.expected().elements())
    for views in ("auto", "none", "all"):
        assert rows_of(c, views=views) == want, views
    assert rows_of(c, sort="never") == want
    assert rows_of(Case(c.tables, c.condition, {}, "auto")) == want


@pytest.mark.parametrize("views", ["auto", "none"])
def test_ends_of_the_type_and_duplicates(views: str) -> None:
    values = [-(2**63), -(2**63) + 1, -1, 0, 0, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1, None]
    table = pa.table({"id": range(len(values)), "k": pa.array(values, pa.int64())})
    orders = dict.fromkeys("abc", "k")
    c = Case(dict.fromkeys("abc", table), "a.k = b.k AND c.k >= b.k AND c.k <= b.k", orders, views)
    assert rows_of(c, views=views) == sorted(c.expected().elements())
    # one row a batch, to the last before its neighbours
    c = Case(c.tables, "b.k < a.k AND c.k <= b.k", c.orders, views)
    assert rows_of(c, views=views) == sorted(c.expected().elements())


def test_a_band_that_no_row_satisfies() -> None:
    table = pa.table({"id": [0, 1], "ts": [3, 4]})
    c = Case(dict.fromkeys("abc", table), "a.ts <= b.ts AND b.ts - a.ts < -3 AND c.ts = b.ts", {}, "auto")
    for views in ("auto", "none", "all"):
        assert rows_of(c, views=views) == []


def test_floats_with_nan_and_signed_zero() -> None:
    x = pa.array([-np.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, np.inf, np.nan, None])
    table = pa.table({"id": range(len(x)), "x": x})
    up = "a.x <= b.x AND b.x <= c.x AND c.x <= a.x + 1"
    for condition in ("a.x = b.x AND b.x = c.x", up, "a.x < b.x AND b.x = c.x"):
        c = Case({"a": table, "b": table, "c": table}, condition, {"a": "x", "b": "x"}, "auto")
        assert rows_of(c) == sorted(c.expected().elements()), condition


def test_by_sympy_and_by_expressions() -> None:
    import sympy

    t = pa.table({"id": range(6), "v": [1, 2, 3, 4, 5, 6]})
    tables = {"p": t, "q": t, "r": t}
    want = rows_of(Case(tables, "p.v < q.v AND q.v < r.v AND r.v <= p.v + 2", {}, "auto"))
    p, q, r = (sympy.Symbol(f"{a}.v") for a in "pqr")
    col = ivjoin.column
    spoken = (col("v", "p") < col("v", "q")) & (col("v", "q") < col("v", "r")) & (col("v", "r") <= col("v", "p") + 2)
    for condition in (sympy.And(p < q, q < r, r <= p + 2), spoken):
        assert rows_of(Case(tables, condition, {}, "auto")) == want  # type: ignore[arg-type]
    assert len(want) == 4
