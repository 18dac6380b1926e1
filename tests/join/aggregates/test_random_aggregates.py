"""Random joins whose partners are aggregated, fed in random pieces, with the rows that DuckDB returns."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from seeds import each

import ivjoin

Row = dict[str, Any]

LEFT = pa.schema({
    "i": pa.int64(), "k": pa.int32(), "w": pa.string(), "t": pa.int64(), "u": pa.int64(), "d": pa.float64(),
    "ts": pa.timestamp("us"),
})  # fmt: skip
RIGHT = pa.schema({
    "j": pa.int64(), "k": pa.int32(), "w": pa.string(), "t": pa.int64(), "u": pa.int64(), "d": pa.float64(),
    "ts": pa.timestamp("ms"), "x": pa.float64(), "f": pa.float32(), "q": pa.int64(), "b": pa.uint64(),
    "c": pa.decimal128(20, 2), "s": pa.string(), "y": pa.bool_(), "day": pa.date32(), "l": pa.list_(pa.int64()),
})  # fmt: skip

AGGREGATES = {
    "n": ("*", "count"), "n_x": ("x", "count"), "sum_x": ("x", "sum"), "mean_x": ("x", "mean"), "min_x": ("x", "min"),
    "max_x": ("x", "max"), "first_x": ("x", "first"), "last_x": ("x", "last"), "min_f": ("f", "min"),
    "mean_f": ("f", "mean"), "sum_q": ("q", "sum"), "mean_q": ("q", "mean"), "min_q": ("q", "min"),
    "max_q": ("q", "max"), "sum_b": ("b", "sum"), "max_b": ("b", "max"), "sum_c": ("c", "sum"), "mean_c": ("c", "mean"),
    "min_c": ("c", "min"), "max_c": ("c", "max"), "min_s": ("s", "min"), "max_s": ("s", "max"), "last_s": ("s", "last"),
    "max_y": ("y", "max"), "sum_y": ("y", "sum"), "min_day": ("day", "min"), "first_l": ("l", "first"),
    "max_ts": ("ts", "max"),
}  # fmt: skip

# name: (condition, the column that orders it; None if an order of sorted input says nothing)
CONDITIONS: dict[str, tuple[str | None, str | None]] = {
    "band": ("l.t BETWEEN r.t - 3 AND r.t + 2", "t"), "open": ("l.t >= r.t", "t"),
    "strict": ("l.t > r.t AND l.t < r.t + 9", "t"),
    "times": ("l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND", "ts"),
    "doubles": ("abs(l.d - r.d) <= 1.5", "d"), "rounded": ("l.d BETWEEN r.d - 0.7 AND r.d + 0.3", "d"),
    "within": ("r.t BETWEEN l.t AND l.u", "t"), "contains": ("l.t BETWEEN r.t AND r.u", "t"),
    "two bands": ("abs(l.t - r.t) <= 9 AND abs(l.u - r.u) <= 9", "t"),
    "residual": ("abs(l.t - r.t) <= 9 AND (l.u + r.u) % 3 = 0", "t"),
    "either": ("l.t - r.t BETWEEN 0 AND 3 OR l.t - r.t BETWEEN 7 AND 9", "t"),
    "filtered": ("abs(l.t - r.t) <= 9 AND r.x > 0 AND l.u < 40", "t"),
    "unequal": ("l.w <> r.w AND abs(l.t - r.t) <= 5", "t"), "sum": ("l.t + r.t BETWEEN 40 AND 45", "t"),
    "none": (None, None),
}
KEYS: dict[str, list[str]] = {"no key": [], "whole": ["k"], "text": ["w"], "two": ["w", "k"]}


def rows(rng: random.Random, schema: pa.Schema, n: int, order: str | None) -> list[Row]:
    def maybe(value: Any, share: float = 0.1) -> Any:
        return None if rng.random() < share else value

    strange = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e306, 5e-324, 1e16]
    out = []
    for i in range(n):
        t = rng.randrange(60)
        row: Row = {
            "k": maybe(rng.randrange(3)), "w": maybe(rng.choice(["a", "b", "é"])), "t": maybe(t, 0.05),
            "u": maybe(t + rng.randrange(12)), "d": maybe(rng.choice([rng.uniform(0, 20), rng.randrange(20) / 10])),
            "ts": maybe(datetime(2024, 1, 1) + timedelta(milliseconds=250 * rng.randrange(80))),
            "x": maybe(rng.choice([rng.uniform(-9, 9), rng.choice(strange)])), "f": maybe(rng.randrange(-8, 8) / 4),
            "q": maybe(rng.choice([rng.randrange(-50, 50), 2**53 + 1, -(2**62) // 40, 2**31])),
            "b": maybe(rng.choice([rng.randrange(50), 2**63 // 100])),
            "c": maybe(Decimal(rng.randrange(-(10**19), 10**19)).scaleb(-2)),
            "s": maybe(rng.choice(["", "x", "yy", "é"])), "y": maybe(rng.random() < 0.5),
            "day": maybe(datetime(2024, 1, 1 + rng.randrange(20)).date()),
            "l": maybe([i, None]),
        }  # fmt: skip
        out.append(row)
    if order is not None:
        # rows whose order is null may stand anywhere
        there = sorted((r for r in out if r[order] is not None), key=lambda r: (r[order] != r[order], r[order]))
        out = [r if r[order] is None else there.pop(0) for r in out]
    for i, row in enumerate(out):
        row["i"] = row["j"] = i
        for name in set(row) - set(schema.names):
            del row[name]
    return out


def disordered(rng: random.Random, given: list[Row], order: str, slack: Any) -> list[Row]:
    """The same rows, some of them later by no more than the slack."""
    def when(r: Row) -> Any:
        return r[order] + slack * rng.random() if not isinstance(slack, int) else r[order] + rng.randrange(slack + 1)

    there = sorted((r for r in given if r[order] is not None), key=when)
    return [r if r[order] is None else there.pop(0) for r in given]


def pieces(rng: random.Random, given: list[Row], schema: pa.Schema) -> list[pa.RecordBatch]:
    out, at = [], 0
    while at < len(given):
        n = rng.choice([1, 1, 2, 7, 30, 200])
        out.append(pa.RecordBatch.from_pylist(given[at : at + n], schema))
        at += n
    return out


def fed(rng: random.Random, op: ivjoin.SymmetricHashJoin, sides: dict[str, list[pa.RecordBatch]], saves: bool
        ) -> tuple[list[Row], ivjoin.SymmetricHashJoin]:
    out: list[Row] = []
    left = {s: list(b) for s, b in sides.items()}
    while left:
        s = rng.choice(list(left))
        if left[s]:
            for b in op.push(s, left[s].pop(0)):
                b.validate(full=True)
                assert b.schema == op.schema
                out += b.to_pylist()
        else:
            del left[s]
            for b in op.finish(s):
                out += b.to_pylist()
        if saves:
            op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    return out, op


def wanted(
    sides: dict[str, pa.Table], keys: list[str], condition: str | None, how: str, asked: dict[str, tuple[str, str]],
    by: str | None,
) -> dict[int, tuple[Any, ...]]:
    """The output for each left row, by its ``i``; ``by`` tells which partner is first, ties by arrival."""
    order = "r.j" if by is None else f"r.{by}, r.j"

    def written(column: str, function: str) -> str:
        if function in ("first", "last"):
            return f"{function}(r.{column} ORDER BY {order}) FILTER (r.j IS NOT NULL)"
        return f"{'avg' if function == 'mean' else function}({'r.j' if column == '*' else f'r.{column}'})"

    columns = ", ".join(written(*a) for a in asked.values())
    on = " AND ".join([*(f"l.{k} = r.{k}" for k in keys), f"({condition or 'true'})"])
    with duckdb.connect(config={"threads": 1}) as db:
        db.register("l", sides["left"])
        db.register("r", sides["right"])
        found = db.sql(f"SELECT l.i, {columns} FROM l {how.upper()} JOIN r ON {on} GROUP BY l.i").fetchall()
    return {i: tuple(values) for i, *values in found}


def alike(a: Any, b: Any) -> bool:
    """Equal, doubles but for rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-9)
    return type(a) is type(b) and a == b


def check(got: list[Row], want: dict[int, tuple[Any, ...]], asked: dict[str, Any], ties: bool) -> None:
    assert sorted(r["i"] for r in got) == sorted(want)
    for row in got:
        for name, expected in zip(asked, want[row["i"]], strict=True):
            if ties and asked[name][1] in ("first", "last"):
                continue
            assert alike(row[name], expected), (name, row, expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CONDITIONS)
def test_rows_are_those_of_duckdb(name: str) -> None:
    compared(name, 0)


@pytest.mark.soak
def test_more_rows_are_those_of_duckdb() -> None:
    each(product(CONDITIONS, range(1, 40)), compared)


def compared(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    condition, axis = CONDITIONS[name]
    for keys in KEYS.values():
        how = rng.choice(["inner", "left"])
        column = axis or "t"
        declared = axis is not None and rng.random() < 0.7
        left = rows(rng, LEFT, rng.choice([0, 1, 40, 90]), column if declared else None)
        right = rows(rng, RIGHT, rng.choice([0, 1, 60, 120]), column if declared else None)
        slack: Any = None
        if declared and rng.random() < 0.5:
            slack = {"ts": timedelta(seconds=3), "d": 2.0}.get(column, 5)
            left, right = disordered(rng, left, column, slack), disordered(rng, right, column, slack)
        for j, row in enumerate(right):
            row["j"] = j  # ties are broken by arrival
        order = ivjoin.Order(column, slack=slack) if declared else None
        aggregates = dict(rng.sample(sorted(AGGREGATES.items()), 9)) | {"n": ("*", "count")}
        op = ivjoin.SymmetricHashJoin(
            LEFT, RIGHT, on=keys or None, condition=condition, how=how, left_order=order, right_order=order,
            aggregate=aggregates, batch_size=rng.choice([1, 3, 65536]),
        )  # fmt: skip
        saves = rng.random() < 0.4
        sides = {"left": pieces(rng, left, LEFT), "right": pieces(rng, right, RIGHT)}
        got, op = fed(rng, op, sides, saves)
        # without a declared order the band's own expression is the order: not always a column
        by = column if declared or name in ("band", "open", "strict", "times", "within") else None
        tell = declared or by is not None or name == "none"
        tables = {"left": pa.Table.from_pylist(left, LEFT), "right": pa.Table.from_pylist(right, RIGHT)}
        want = wanted(tables, keys, condition, how, aggregates, by)
        check(got, want, aggregates, ties=not tell)
        m = op.metrics
        assert (m.state_rows, m.left_rows_in, m.right_rows_in) == (0, len(left), len(right)), keys
        assert (m.left_rows_retired, m.right_rows_retired, m.rows_out) == (len(left), len(right), len(got))
