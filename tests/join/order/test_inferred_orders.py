"""Expressions that are ordered because their columns are: the pruning they allow, and what explain shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin

N, BATCH = 6_000, 100
SECOND = 1_000_000


def table(nullable: bool = True) -> pa.Table:
    """A row a second: ``a`` and ``ts`` rise by one a row, ``b`` by two, ``d`` falls, ``v`` is anywhere."""
    i = np.arange(N)
    made = pa.table({
        "n": i, "a": i, "b": 2 * i, "d": -i, "v": np.random.default_rng(0).integers(0, 10**6, N),
        "ts": pa.array(i * SECOND + 1_700_000_000 * SECOND).view(pa.timestamp("us")),
        "day": pa.array(i // 20, pa.int32()).view(pa.date32()), "x": i.astype(float),
    })  # fmt: skip
    return made.cast(pa.schema([f.with_nullable(nullable) for f in made.schema]))


def near(width: float, f: Any) -> int:
    """How many pairs of rows have values of f not farther apart than width."""
    v = np.sort(f(np.arange(N)))
    return int((np.searchsorted(v, v + width, "right") - np.searchsorted(v, v - width, "left")).sum())


POSITIVE = {"left_bounds": {"a": (0, None), "b": (0, None)}, "right_bounds": {"a": (0, None), "b": (0, None)}}
# name: expression (of {s}), width, the same in numpy over row numbers, window in rows, ordered columns, options
FAMILIES: dict[str, tuple[str, str, Any, float, int, tuple[str, ...], dict[str, Any]]] = {
    "floor of a quotient": ("floor({s}.a / 60)", "1", lambda i: i // 60, 1, 180, ("a",), {}),
    "integer division": ("{s}.a div 60", "1", lambda i: i // 60, 1, 180, ("a",), {}),
    "date_trunc": ("date_trunc('MINUTE', {s}.ts)", "INTERVAL 1 MINUTE", lambda i: (i + 1_700_000_000) // 60, 1, 180,
                   ("ts",), {}),
    "seconds since the epoch": ("unix_seconds({s}.ts)", "10", lambda i: i, 10, 20, ("ts",), {}),
    "cast to double": ("CAST({s}.a AS DOUBLE)", "10", lambda i: i, 10, 20, ("a",), {}),
    "cast to a timestamp": ("CAST({s}.day AS TIMESTAMP)", "INTERVAL 1 DAY", lambda i: i // 20, 1, 60, ("day",), {}),
    "cast that cuts": ("CAST({s}.x AS BIGINT)", "10", lambda i: i, 10, 20, ("x",), {}),
    "a sum of two": ("{s}.a + {s}.b", "30", lambda i: 3 * i, 30, 20, ("a", "b"), {}),
    "a difference from one that falls": ("{s}.a - {s}.d", "30", lambda i: 2 * i, 30, 30, ("a", "d"), {}),
    "the lesser of two": ("least({s}.a, {s}.b)", "10", lambda i: i, 10, 20, ("a", "b"), {}),
    "the greater of two": ("greatest({s}.a, {s}.b)", "10", lambda i: 2 * i, 10, 10, ("a", "b"), {}),
    "a product of no negatives": ("{s}.a * {s}.b", "1000", lambda i: 2 * i * i, 1000, 60, ("a", "b"), POSITIVE),
    "a negative multiple": ("-3 * {s}.a - {s}.b", "30", lambda i: -5 * i, 30, 12, ("a", "b"), {}),
    "a month later": ("add_months({s}.day, 1)", "INTERVAL 0 DAYS", None, 0, 100, ("day",), {}),
    "a square root": ("sqrt({s}.a)", "0.25D", lambda i: np.sqrt(i), 0.25, 100, ("a",), POSITIVE),
}


def declared(columns: tuple[str, ...]) -> dict[str, Any]:
    orders = [ivjoin.Order(c, descending=c == "d") for c in columns]
    return {"left_order": orders, "right_order": orders}


def months(i: np.ndarray) -> np.ndarray:
    """The end of a month clamps the days after it: several days go to one."""
    days = np.datetime64("1970-01-01") + (i // 20).astype("timedelta64[D]")
    month = days.astype("datetime64[M]")
    length = ((month + 2).astype("datetime64[D]") - (month + 1).astype("datetime64[D]")).astype(int)
    day = (days - month.astype("datetime64[D]")).astype(int)
    return ((month + 1).astype("datetime64[D]") + np.minimum(day, length - 1)).astype(int)


def run(condition: str, columns: tuple[str, ...], t: pa.Table, **options: Any) -> Any:
    op = ivjoin.SymmetricHashJoin(t.schema, t.schema, condition=condition, **declared(columns), **options)
    rows = 0
    for b in t.to_batches(max_chunksize=BATCH):
        for side in ("left", "right"):
            rows += sum(x.num_rows for x in op.push(side, b))
    rows += sum(x.num_rows for x in op.finish())
    return op, rows


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", FAMILIES)
def test_it_prunes_like_a_declared_order(name: str) -> None:
    f, width, count, distance, window, columns, options = FAMILIES[name]
    left, right = f.format(s="l"), f.format(s="r")
    condition = f"{left} BETWEEN {right} - {width} AND {right} + {width}"
    t = table(nullable=name not in ("the lesser of two", "the greater of two"))
    op, rows = run(condition, columns, t, **options)
    assert rows == near(distance, count or months)
    assert op.metrics.peak_state_rows <= 3 * window + 2 * BATCH
    text = ivjoin.explain(t.schema, t.schema, condition=condition, **declared(columns), **options)
    lines = [line for line in text.splitlines() if line.endswith("(inferred)")]
    goes = "falls" if name == "a negative multiple" else "rises"
    assert any(f" {goes}, since l.{columns[0]} " in line for line in lines), text


def test_the_axis_in_order_is_the_primary_one() -> None:
    """A band over a column without order next to one with an inferred order: rows are stored in the latter order."""
    condition = (
        "l.v BETWEEN r.v - 500000 AND r.v + 500000 AND "
        "floor(l.a / 60) BETWEEN floor(r.a / 60) - 1 AND floor(r.a / 60) + 1"
    )
    t = table()
    op, _ = run(condition, ("a",), t)
    for side in op.plan.sides:
        assert str(side.axes[0]).startswith("floor(")
    assert op.metrics.peak_state_rows <= 3 * 180 + 2 * BATCH


def test_no_order_is_inferred_without_one() -> None:
    s = table().schema
    for f in ("{s}.a % 60", "hour({s}.ts)", "{s}.a + {s}.v", "least({s}.a, {s}.v)", "{s}.a - {s}.b"):
        condition = f"{f.format(s='l')} BETWEEN {f.format(s='r')} - 1 AND {f.format(s='r')} + 1"
        text = ivjoin.explain(s, s, condition=condition, **declared(("a", "b", "ts")))
        assert "(inferred)" not in text, f


def test_explain_shows_why() -> None:
    s = table().schema
    text = ivjoin.explain(
        s, s, condition="l.a + l.b <= r.a + r.b AND l.a + l.b >= r.a + r.b - 9", **declared(("a", "b"))
    )
    assert "left: l.a + l.b rises, since l.a rises and l.b rises    (inferred)" in text
    text = ivjoin.explain(s, s, condition="l.a - l.d <= r.a AND l.a - l.d >= r.a - 9", **declared(("a", "d")))
    assert "left: l.a - l.d rises, since l.a rises and l.d falls    (inferred)" in text
