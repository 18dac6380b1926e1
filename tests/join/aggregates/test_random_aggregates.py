"""Random joins whose partners are aggregated, fed in random pieces, against a nested loop over Python rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from drivers.grouped import Row, alike, answers
from seeds import each

import ivjoin

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

Meets = Callable[[Row, Row], bool]


def near(a: Any, b: Any, low: Any, high: Any) -> bool:
    return a is not None and b is not None and not (a != a or b != b) and low <= a - b <= high


def le(a: Any, b: Any) -> bool:
    """NaN is the greatest, null is in no order."""
    return a is not None and b is not None and (b != b or (a == a and a <= b))


SECOND = timedelta(seconds=1)
# name: (condition, what it means, orders that hold for sorted input, the expression that is first and last)
CONDITIONS: dict[str, tuple[str | None, Meets, bool]] = {
    "band": ("l.t BETWEEN r.t - 3 AND r.t + 2", lambda a, b: near(a["t"], b["t"], -3, 2), True),
    "open": ("l.t >= r.t", lambda a, b: le(b["t"], a["t"]), True),
    "strict": ("l.t > r.t AND l.t < r.t + 9", lambda a, b: near(a["t"], b["t"], 1, 8), True),
    "times": ("l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND",
              lambda a, b: near(a["ts"], b["ts"], -SECOND, SECOND), True),
    "doubles": ("abs(l.d - r.d) <= 1.5", lambda a, b: near(a["d"], b["d"], -1.5, 1.5), True),
    "rounded": ("l.d BETWEEN r.d - 0.7 AND r.d + 0.3",
                lambda a, b: None not in (a["d"], b["d"]) and le(b["d"] - 0.7, a["d"]) and le(a["d"], b["d"] + 0.3),
                True),
    "within": ("r.t BETWEEN l.t AND l.u", lambda a, b: le(a["t"], b["t"]) and le(b["t"], a["u"]), True),
    "contains": ("l.t BETWEEN r.t AND r.u", lambda a, b: le(b["t"], a["t"]) and le(a["t"], b["u"]), True),
    "two bands": ("abs(l.t - r.t) <= 9 AND abs(l.u - r.u) <= 9",
                  lambda a, b: near(a["t"], b["t"], -9, 9) and near(a["u"], b["u"], -9, 9), True),
    "residual": ("abs(l.t - r.t) <= 9 AND (l.u + r.u) % 3 = 0",
                 lambda a, b: near(a["t"], b["t"], -9, 9) and None not in (a["u"], b["u"])
                 and math.fmod(a["u"] + b["u"], 3) == 0, True),
    "either": ("l.t - r.t BETWEEN 0 AND 3 OR l.t - r.t BETWEEN 7 AND 9",
               lambda a, b: near(a["t"], b["t"], 0, 3) or near(a["t"], b["t"], 7, 9), True),
    "filtered": ("abs(l.t - r.t) <= 9 AND r.x > 0 AND l.u < 40",
                 lambda a, b: near(a["t"], b["t"], -9, 9) and b["x"] is not None and not le(b["x"], 0.0)
                 and a["u"] is not None and a["u"] < 40, True),
    "unequal": ("l.w <> r.w AND abs(l.t - r.t) <= 5",
                lambda a, b: near(a["t"], b["t"], -5, 5) and None not in (a["w"], b["w"]) and a["w"] != b["w"], True),
    "sum": ("l.t + r.t BETWEEN 40 AND 45",
            lambda a, b: None not in (a["t"], b["t"]) and 40 <= a["t"] + b["t"] <= 45, True),
    "none": (None, lambda a, b: True, False),
}  # fmt: skip
KEYS: dict[str, tuple[Any, Meets]] = {
    "no key": (None, lambda a, b: True),
    "whole": ("k", lambda a, b: a["k"] is not None and a["k"] == b["k"]),
    "text": ("w", lambda a, b: a["w"] is not None and a["w"] == b["w"]),
    "two": (["w", "k"], lambda a, b: None not in (a["k"], a["w"]) and a["k"] == b["k"] and a["w"] == b["w"]),
}


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


def order_by(column: str | None) -> Callable[[Row], Any]:
    def place(row: Row) -> Any:
        v = None if column is None else row[column]
        return (v is None, v != v, 0 if v is None or v != v else v)

    return place


def check(got: list[Row], want: dict[int, tuple[Any, ...]], asked: dict[str, Any], ties: bool) -> None:
    assert sorted(r["i"] for r in got) == sorted(want)
    for row in got:
        for name, expected in zip(asked, want[row["i"]], strict=True):
            if ties and asked[name][1] in ("first", "last"):
                continue
            assert alike(row[name], expected, 1e3), (name, row, expected)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", CONDITIONS)
def test_against_a_nested_loop(name: str) -> None:
    compared(name, 0)


@pytest.mark.soak
def test_against_a_nested_loop_at_length() -> None:
    each(product(CONDITIONS, range(1, 40)), compared)


def compared(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    condition, meets, ordered = CONDITIONS[name]
    for key, (on, same) in KEYS.items():
        how = rng.choice(["inner", "left"])
        column = {"times": "ts", "doubles": "d", "rounded": "d"}.get(name, "t")
        declared = ordered and rng.random() < 0.7
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
            LEFT, RIGHT, on=on, condition=condition, how=how, left_order=order, right_order=order,
            aggregate=aggregates, batch_size=rng.choice([1, 3, 65536]),
        )  # fmt: skip
        saves = rng.random() < 0.4
        sides = {"left": pieces(rng, left, LEFT), "right": pieces(rng, right, RIGHT)}
        got, op = fed(rng, op, sides, saves)
        # without a declared order the band's own expression is the order: not always a column
        by = column if declared or name in ("band", "open", "strict", "times", "within") else None
        tell = declared or by is not None or name == "none"
        want = answers(left, right, how, [same, meets], aggregates, order_by(by))
        check(got, want, aggregates, ties=not tell)
        m = op.metrics
        assert (m.state_rows, m.left_rows_in, m.right_rows_in) == (0, len(left), len(right)), key
        assert (m.left_rows_retired, m.right_rows_retired, m.rows_out) == (len(left), len(right), len(got))
