"""Joins of many inputs against DuckDB: every choice of views, ends of types, NaN, conditions that are not text."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from multi.turns import ids
from multi.wild import Case

import ivjoin


def rows_of(tables: dict[str, pa.Table], condition: Any, **options: Any) -> list[tuple[int, ...]]:
    return sorted(ids(tables, ivjoin.multi_join(tables, condition, **options)).elements())


def pairs(tables: dict[str, pa.Table], condition: str) -> list[tuple[int, ...]]:
    """What DuckDB says."""
    con = duckdb.connect()
    for alias, table in tables.items():
        con.register(f"in_{alias}", table)
    columns, inputs = (", ".join(text.format(a) for a in tables) for text in ("{0}.id", "in_{0} AS {0}"))
    return sorted(con.execute(f"SELECT {columns} FROM {inputs} WHERE {condition}").fetchall())


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(100, 107))
def test_pulled_with_every_choice_of_views(seed: int) -> None:
    c = Case(seed)
    want = sorted(c.expected().elements())
    for views in ("auto", "none", "all"):
        assert rows_of(c.tables, c.condition, orders=c.orders, views=views, allow_cross=True) == want, views
    assert rows_of(c.tables, c.condition, orders=c.orders, sort="never", allow_cross=True) == want
    assert rows_of(c.tables, c.condition, allow_cross=True) == want


@pytest.mark.parametrize("views", ["auto", "none"])
def test_ends_of_the_type_and_duplicates(views: str) -> None:
    values = [-(2**63), -(2**63) + 1, -1, 0, 0, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1, None]
    table = pa.table({"id": range(len(values)), "k": pa.array(values, pa.int64())})
    tables, orders = dict.fromkeys("abc", table), dict.fromkeys("abc", "k")
    for condition in ("a.k = b.k AND c.k >= b.k AND c.k <= b.k", "b.k < a.k AND c.k <= b.k"):
        assert rows_of(tables, condition, orders=orders, views=views) == pairs(tables, condition)


def test_a_band_that_no_row_satisfies() -> None:
    table = pa.table({"id": [0, 1], "ts": [3, 4]})
    for views in ("auto", "none", "all"):
        condition = "a.ts <= b.ts AND b.ts - a.ts < -3 AND c.ts = b.ts"
        assert rows_of(dict.fromkeys("abc", table), condition, views=views) == []


def test_floats_with_nan_and_signed_zero() -> None:
    x = pa.array([-np.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, np.inf, np.nan, None])
    table = pa.table({"id": range(len(x)), "x": x})
    up = "a.x <= b.x AND b.x <= c.x AND c.x <= a.x + 1"
    for condition in ("a.x = b.x AND b.x = c.x", up, "a.x < b.x AND b.x = c.x"):
        tables = dict.fromkeys("abc", table)
        assert rows_of(tables, condition, orders={"a": "x", "b": "x"}) == pairs(tables, condition), condition


def test_by_sympy_and_by_expressions() -> None:
    import sympy

    t = pa.table({"id": range(6), "v": [1, 2, 3, 4, 5, 6]})
    tables = {"p": t, "q": t, "r": t}
    want = rows_of(tables, "p.v < q.v AND q.v < r.v AND r.v <= p.v + 2")
    p, q, r = (sympy.Symbol(f"{a}.v") for a in "pqr")
    col = ivjoin.column
    spoken = (col("v", "p") < col("v", "q")) & (col("v", "q") < col("v", "r")) & (col("v", "r") <= col("v", "p") + 2)
    for condition in (sympy.And(p < q, q < r, r <= p + 2), spoken):
        assert rows_of(tables, condition) == want
    assert len(want) == 4
