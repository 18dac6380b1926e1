"""The ways to lose a row: bounds that enclose the mathematics and not the machine. Every family, every join type."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest

from join.cases import Case, Event, OrderSpec, check
from join.conditions import Term, rank
from join.tables import KINDS, Kind, column

NAN, INF = math.nan, math.inf
F64, I64, I32, STR = KINDS["float64"], KINDS["int64"], KINDS["int32"], KINDS["string"]
BIG = 2**53


def days(*text: str) -> list[int]:
    return [(dt.date.fromisoformat(t) - dt.date(1970, 1, 1)).days for t in text]


def micros(*text: str) -> list[int]:
    epoch = dt.datetime(1970, 1, 1)
    return [(dt.datetime.fromisoformat(t) - epoch) // dt.timedelta(microseconds=1) for t in text]


def near(v: float) -> list[float]:
    """A double and its neighbours, two on each side."""
    out = [v]
    for _ in range(2):
        out = [math.nextafter(out[0], -INF), *out, math.nextafter(out[-1], INF)]
    return out


def f32(v: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(v))


def add(*xs: Any) -> Any:
    return None if None in xs else sum(xs)


def ge(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else rank(a) >= rank(b)


def gt(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else rank(a) > rank(b)


def both(*truths: bool | None) -> bool | None:
    return False if False in truths else None if None in truths else True


def plus_month(day: int) -> int:
    d = dt.date(1970, 1, 1) + dt.timedelta(days=day)
    year, month = d.year + d.month // 12, d.month % 12 + 1
    last = ((dt.date(year, month, 28) + dt.timedelta(days=4)).replace(day=1) - dt.timedelta(days=1)).day
    return (dt.date(year, month, min(d.day, last)) - dt.date(1970, 1, 1)).days


def cut(a: int, b: int) -> int:
    """Integer division that truncates."""
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


@dataclass(frozen=True)
class Trap:
    """A condition over ``l.a`` and ``r.a`` (with ``b`` where two columns are needed) and values at its edge."""

    name: str
    condition: str
    kinds: tuple[Kind, Kind]
    left: Sequence[Any]
    right: Sequence[Any]
    holds: Callable[[dict[str, Any], dict[str, Any]], bool | None]
    more: dict[str, tuple[Kind, Sequence[Any], Sequence[Any]]] | None = None  # further columns
    order: tuple[str, str] = ("a", "a")
    pruned: bool = True


def _strict(kind: Kind, values: Sequence[Any], op: str, f: Callable[[Any, Any], Any]) -> Trap:
    return Trap(f"{kind.name} {op}", f"l.a {op} r.a", (kind, kind), values, values, lambda a, b: f(a["a"], b["a"]))


TOP = 2**63 - 1
TRAPS = [
    Trap("float rounding", "l.a + 1.0 >= r.a", (F64, F64), [-9.0, *near(0.1)], [-9.0, *near(1.1), 50.0],
         lambda a, b: ge(a["a"] + 1.0, b["a"])),
    Trap("float rounding below", "l.a - 1.0 <= r.a", (F64, F64), [*near(1.1), 50.0], [-9.0, *near(0.1), 50.0],
         lambda a, b: ge(b["a"], a["a"] - 1.0)),
    Trap("float difference", "l.a - r.a <= 0.1", (F64, F64), [-5.0, *near(0.30000000000000004), 9.0],
         [-5.0, *near(0.2), 9.0], lambda a, b: ge(0.1, a["a"] - b["a"])),
    Trap("float product", "l.a * 0.1 >= r.a", (F64, F64), [-9.0, *near(3.0), *near(7.0)], [-9.0, *near(0.3), *near(0.7)],
         lambda a, b: ge(a["a"] * 0.1, b["a"])),
    Trap("float quotient", "l.a / 3.0 >= r.a", (F64, F64), [-9.0, *near(1.0), *near(5.0)],
         [-9.0, *near(1 / 3), *near(5 / 3)], lambda a, b: ge(a["a"] / 3.0, b["a"])),
    Trap("absorption", "l.a + 1e16 >= r.a", (F64, F64), [-1e30, -2.0, -1.5, -1.0, -0.5, -0.0, 0.5, 1.0],
         [-1e30, *near(1e16), 1e30], lambda a, b: ge(a["a"] + 1e16, b["a"])),
    Trap("overflow to infinity", "l.a * 10.0 > r.a", (F64, F64), [-1e300, 1e307, 1.7e307, 1.8e307, 1.7e308],
         [-1e300, 1e308, 1.7976931348623157e308, INF], lambda a, b: gt(a["a"] * 10.0, b["a"])),
    Trap("NaN above all", "l.a > r.a", (F64, F64), [-INF, -1.0, 3.0, INF, NAN], [-INF, 0.0, 5.0, INF, NAN],
         lambda a, b: gt(a["a"], b["a"])),
    Trap("NaN from the other side", "l.a + r.a > 100", (F64, F64), [-INF, 0.0, 1.0, 90.0, INF], [-5.0, 1.0, 10.0, 20.0, NAN],
         lambda a, b: gt(a["a"] + b["a"], 100.0), pruned=False),
    Trap("NOT over NaN", "NOT (l.a > r.a)", (F64, F64), [-1.0, 2.0, INF, NAN], [-2.0, 2.0, INF, NAN],
         lambda a, b: not gt(a["a"], b["a"])),
    Trap("single against double", "l.a > r.a", (KINDS["float32"], F64), [-5.0, f32(0.1), f32(0.2)],
         [-5.0, *near(0.1), f32(0.1), 0.2, 9.0], lambda a, b: gt(a["a"], b["a"])),
    Trap("integer division", "l.a div 2 >= r.a", (I64, I64), [-100, *range(-9, 10)], [-60, *range(-5, 6), 80],
         lambda a, b: ge(cut(a["a"], 2), b["a"])),
    Trap("integer division below", "l.a div 3 <= r.a", (I32, I32), [*range(-9, 10), 100], [-60, *range(-4, 5), 80],
         lambda a, b: ge(b["a"], cut(a["a"], 3))),
    Trap("truncating cast", "CAST(l.a AS BIGINT) >= r.a", (F64, I64), [-90.5, -4.0, -3.7, -3.0, -0.9, -0.0, 0.9, 3.7],
         [-80, *range(-5, 5), 70], lambda a, b: ge(math.trunc(a["a"]), b["a"])),
    Trap("narrowing cast", "CAST(l.a AS FLOAT) >= r.a", (F64, F64), [-9.0, 0.99999996, 0.99999999, *near(1.0), 1.00000001],
         [-9.0, f32(0.99999994), 1.0, f32(1.0000001), 9.0], lambda a, b: ge(f32(a["a"]), b["a"])),
    Trap("big integers as doubles", "CAST(l.a AS DOUBLE) >= r.a", (I64, F64), [-9, *range(BIG - 3, BIG + 6)],
         [-9.0, BIG - 1.0, float(BIG), BIG + 2.0, BIG + 4.0, BIG * 2.0], lambda a, b: ge(float(a["a"]), b["a"])),
    Trap("big integers equal to doubles", "CAST(l.a AS DOUBLE) = r.a", (I64, F64), [-9, *range(BIG - 3, BIG + 6)],
         [-9.0, BIG - 1.0, float(BIG), BIG + 2.0, BIG + 4.0], lambda a, b: float(a["a"]) == b["a"]),
    Trap("integer against double", "l.a <= r.a", (I64, F64), [*range(BIG - 3, BIG + 6), BIG * 4],
         [-9.0, BIG - 1.0, float(BIG), BIG + 2.0, BIG + 4.0], lambda a, b: ge(b["a"], float(a["a"]))),
    Trap("time truncation", "CAST(l.a AS DATE) <= r.a", (KINDS["ts_us"], KINDS["date32"]),
         micros("2023-01-29T00:00", "2023-01-30T23:59:59.999999", "2023-01-31T00:00", "2023-01-31T20:00", "2023-02-01T00:00", "2024-01-01"),
         days("2022-01-01", "2023-01-29", "2023-01-30", "2023-01-31", "2023-02-01"),
         lambda a, b: a["a"] // 86_400_000_000_000 <= b["a"]),
    Trap("time truncation before 1970", "CAST(l.a AS DATE) >= r.a", (KINDS["ts_us"], KINDS["date32"]),
         micros("1960-01-01", "1969-12-30T23:59:59.999999", "1969-12-31T00:00", "1969-12-31T23:59:59", "1970-01-01T00:00:00.000001"),
         days("1960-01-01", "1969-12-30", "1969-12-31", "1970-01-01", "1980-01-01"),
         lambda a, b: a["a"] // 86_400_000_000_000 >= b["a"]),
    Trap("seconds of nanoseconds", "unix_seconds(l.a) >= unix_seconds(r.a)", (KINDS["tsz_ns"], KINDS["tsz_s"]),
         [-10**12, -1_000_000_001, -1_000_000_000, -999_999_999, -1, 0, 1, 10**9], [-1000, -2, -1, 0, 1, 2000],
         lambda a, b: a["a"] // 10**9 >= b["a"] // 10**9),
    Trap("month clamp", "l.a + INTERVAL 1 MONTH <= r.a", (KINDS["date32"], KINDS["date32"]),
         days("2022-12-31", "2023-01-27", "2023-01-28", "2023-01-29", "2023-01-30", "2023-01-31", "2023-02-01", "2024-01-31"),
         days("2021-01-01", "2023-02-26", "2023-02-27", "2023-02-28", "2023-03-01", "2023-03-02"),
         lambda a, b: plus_month(a["a"]) <= b["a"]),
    Trap("month clamp above", "l.a + INTERVAL 1 MONTH >= r.a", (KINDS["date32"], KINDS["date32"]),
         days("2020-01-31", "2024-01-28", "2024-01-29", "2024-01-30", "2024-01-31", "2024-02-01"),
         days("2020-01-01", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02", "2025-01-01"),
         lambda a, b: plus_month(a["a"]) >= b["a"]),
    Trap("signed zero", "l.a >= r.a", (F64, F64), [-3.0, -5e-324, -0.0, 0.0, 5e-324], [-3.0, -5e-324, 0.0, -0.0, 5e-324, 9.0],
         lambda a, b: ge(a["a"], b["a"])),
    Trap("signed zero equal", "l.a = r.a", (F64, F64), [-3.0, -0.0, 0.0, 1.0, NAN], [-3.0, 0.0, -0.0, 2.0, NAN],
         lambda a, b: rank(a["a"]) == rank(b["a"])),
    Trap("upper limit of int64", "l.a + 10 < r.a", (I64, I64), [-5, TOP - 30, TOP - 12, TOP - 11, TOP - 10],
         [-100, TOP - 20, TOP - 2, TOP - 1, TOP], lambda a, b: a["a"] + 10 < b["a"]),
    Trap("lower limit of int64", "l.a - 10 > r.a", (I64, I64), [-TOP + 9, -TOP + 10, -TOP + 30, 5],
         [-TOP - 1, -TOP, -TOP + 1, -TOP + 15, 100], lambda a, b: a["a"] - 10 > b["a"]),
    Trap("window at the limit of int64", "l.a BETWEEN r.a - 2 AND r.a + 2", (I64, I64), [-TOP - 1, -TOP, -TOP + 1, 0, TOP - 1, TOP],
         [-TOP + 1, -TOP + 3, 0, TOP - 3, TOP - 2], lambda a, b: b["a"] - 2 <= a["a"] <= b["a"] + 2),
    Trap("limits of int8", "l.a BETWEEN r.a - 3 AND r.a + 3", (KINDS["int8"], KINDS["int8"]), [-128, -127, -1, 0, 126, 127],
         [-128, -125, -124, 0, 124, 125, 127], lambda a, b: b["a"] - 3 <= a["a"] <= b["a"] + 3),
    Trap("limits of uint8", "l.a BETWEEN r.a - 3 AND r.a + 3", (KINDS["uint8"], KINDS["uint8"]), [0, 1, 2, 4, 128, 254, 255],
         [0, 3, 4, 127, 131, 252, 255], lambda a, b: b["a"] - 3 <= a["a"] <= b["a"] + 3),
    Trap("upper half of uint64", "l.a >= r.a", (KINDS["uint64"], KINDS["uint64"]), [0, 1, 2**63 - 1, 2**63, 2**64 - 1],
         [0, 2, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1], lambda a, b: a["a"] >= b["a"]),
    Trap("wrong side", "l.a - r.a BETWEEN -10 AND 2", (I64, I64), [*range(0, 40, 3)], [*range(0, 40, 2)],
         lambda a, b: -10 <= a["a"] - b["a"] <= 2),
    Trap("wrong column", "l.a <= r.a AND r.a <= l.b", (I64, I64), [0, 1, 2, 5, 6, 7, 20], [0, 1, 3, 6, 8, 9, 10, 30, 31],
         lambda a, b: a["a"] <= b["a"] <= a["b"], {"b": (I64, [30, 3, 2, 9, 6, 8, 25], [0] * 9)}),
    Trap("foreign unit", "l.a BETWEEN r.a - 2 AND r.a + 2 AND l.b > 5", (I64, I64), [*range(100, 120)], [*range(90, 125, 2)],
         lambda a, b: b["a"] - 2 <= a["a"] <= b["a"] + 2 and a["b"] > 5, {"b": (I64, [*range(20)], [0] * 18)}),
    Trap("decimal half up", "CAST(l.a AS DECIMAL(10, 1)) >= r.a", (KINDS["dec10"], KINDS["dec10"]),
         [Decimal(n) / 100 for n in (-900, -16, -15, -14, 4, 5, 14, 15, 16, 95)],
         [Decimal(n) / 100 for n in (-900, -20, -10, 0, 10, 20, 100, 500)],
         lambda a, b: a["a"].quantize(Decimal("0.1"), ROUND_HALF_UP) >= b["a"]),
    Trap("decimal rounding", "round(l.a, 1) <= r.a", (KINDS["dec10"], KINDS["dec10"]),
         [Decimal(n) / 100 for n in (-25, -5, -4, 4, 5, 14, 15, 16, 9000)], [Decimal(n) / 10 for n in (-900, -3, -2, -1, 0, 1, 2)],
         lambda a, b: a["a"].quantize(Decimal("0.1"), ROUND_HALF_UP) <= b["a"]),
    Trap("floor and ceil", "floor(l.a) >= ceil(r.a)", (F64, F64), [-50.0, -1.5, -1.0, -0.5, -0.0, 0.5, 0.9999999999999999, 1.0, 2.5],
         [-70.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 40.0], lambda a, b: math.floor(a["a"]) >= math.ceil(b["a"])),
    Trap("floor of NaN is zero", "floor(l.a) = floor(r.a)", (F64, F64), [-7.5, 0.0, 0.5, 5.0, NAN], [-7.0, 0.25, 1.0, 8.0, NAN],
         lambda a, b: (0 if a["a"] != a["a"] else math.floor(a["a"])) == (0 if b["a"] != b["a"] else math.floor(b["a"])),
         pruned=False),
    Trap("least skips nulls", "least(l.a, l.b) >= r.a", (I64, I64), [0, 1, 3, 5, 9], [-4, 0, 2, 4, 6, 20],
         lambda a, b: min(x for x in (a["a"], a["b"]) if x is not None) >= b["a"], {"b": (I64, [None, 0, 9, None, 2], [0] * 6)}),
    Trap("coalesce", "coalesce(l.b, l.a) <= r.a", (I64, I64), [0, 1, 3, 5, 9], [-4, 0, 2, 4, 6, 20],
         lambda a, b: (a["a"] if a["b"] is None else a["b"]) <= b["a"], {"b": (I64, [None, 0, 9, None, 2], [0] * 6)}, pruned=False),
    Trap("OR is a hull", "l.a = r.a OR l.a = r.a + 10", (I64, I64), [*range(0, 60, 5)], [*range(0, 60, 5)],
         lambda a, b: a["a"] in (b["a"], b["a"] + 10)),
    Trap("remainder of the dividend's sign", "l.a % 3 >= r.a", (I64, I64), [*range(-9, 10)], [-5, -3, -2, -1, 0, 1, 2, 3, 4],
         lambda a, b: math.fmod(a["a"], 3) >= b["a"]),
    Trap("absolute value", "abs(l.a) <= r.a", (I64, I64), [-9, -5, -4, -1, 0, 1, 4, 5, 9, 70], [-3, -1, 0, 1, 4, 5, 6],
         lambda a, b: abs(a["a"]) <= b["a"]),
    Trap("product of both signs", "l.a * r.a >= 12", (I64, I64), [-6, -4, -3, -1, 0, 1, 3, 4, 6], [-6, -4, -3, 0, 3, 4, 6],
         lambda a, b: a["a"] * b["a"] >= 12),
    Trap("square", "(l.a - r.a) * (l.a - r.a) < 400", (I64, I64), [*range(0, 120, 9)], [*range(-60, 120, 7)],
         lambda a, b: (a["a"] - b["a"]) ** 2 < 400),
    Trap("unit against unit", "l.a <= r.a", (KINDS["ts_s"], KINDS["ts_ns"]), [-5, -1, 0, 1, 2, 900],
         [-10**12, -10**9 - 1, -10**9, -1, 0, 1, 10**9 - 1, 10**9, 10**9 + 1], lambda a, b: a["a"] <= b["a"]),
    Trap("unit finer than the interval", "l.a > r.a - INTERVAL 1 SECOND", (KINDS["ts_ns"], KINDS["ts_ms"]),
         [-10**12, -1, 0, 1, 10**9], [-10**6, 0, 999, 1000, 1001, 2000, 10**6], lambda a, b: a["a"] > b["a"] - 10**9),
    Trap("timestamps far apart in seconds", "l.a >= r.a", (KINDS["ts_s"], KINDS["ts_s"]), [-2**40, 0, 2**40, 2**55],
         [-2**55, 0, 2**40, 2**41], lambda a, b: a["a"] >= b["a"]),
    Trap("date against timestamp", "l.a <= r.a", (KINDS["date32"], KINDS["ts_us"]), days("2020-01-01", "2020-01-02", "2020-01-03", "2024-01-01"),
         micros("2019-01-01", "2020-01-01T00:00", "2020-01-01T23:59:59.999999", "2020-01-02T00:00", "2020-01-02T12:00"),
         lambda a, b: a["a"] * 86_400_000_000_000 <= b["a"]),
    Trap("days of one month", "date_trunc('MONTH', l.a) = date_trunc('MONTH', r.a)", (KINDS["tsz_us"], KINDS["tsz_us"]),
         micros("2023-12-31T23:59:59.999999", "2024-01-01", "2024-01-31T23:59", "2024-02-01", "2024-02-29T23:59:59.999999", "2024-03-01"),
         micros("2023-12-01", "2024-01-31T23:59:59.999999", "2024-02-01", "2024-02-28", "2024-03-01", "2025-01-01"),
         lambda a, b: _month(a["a"]) == _month(b["a"])),
    Trap("text", "l.b >= r.b AND l.a >= r.a", (I64, I64), [1, 2, 3, 4, 5], [0, 2, 3, 5, 9],
         lambda a, b: both(ge(a["b"], b["b"]), ge(a["a"], b["a"])),
         {"b": (STR, ["a", "é", "", "z", None], ["", "a", "é", "日", "B"])}),
    Trap("CASE", "CASE WHEN l.b > 2 THEN l.a <= r.a + 5 AND l.a >= r.a ELSE l.a = r.a - 3 END", (I64, I64), [*range(0, 30, 2)],
         [*range(0, 33, 3)], lambda a, b: b["a"] <= a["a"] <= b["a"] + 5 if a["b"] > 2 else a["a"] == b["a"] - 3,
         {"b": (I64, [n % 5 for n in range(15)], [0] * 11)}),
    Trap("logarithm and power", "sqrt(l.a) >= r.a", (F64, F64), [0.0, 1.9999999999999998, 2.0, 2.0000000000000004, 4.0],
         [-1.0, *near(math.sqrt(2.0)), 2.0, 30.0], lambda a, b: ge(math.sqrt(a["a"]), b["a"])),
]


def _month(nanos: int) -> tuple[int, int]:
    d = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=nanos // 1000)
    return d.year, d.month


F32 = KINDS["float32"]
SINGLES = [f32(-2.0), -f32(1e-45), -0.0, f32(1e-45), float(np.nextafter(np.float32(1), np.float32(0))), 1.0, f32(1.0000001)]
EDGES: list[tuple[Kind, list[Any]]] = [
    (F64, [-9.0, *near(1.1), -0.0, 5e-324, INF]),
    (F32, SINGLES),
    (KINDS["dec10"], [Decimal(n) / 100 for n in (-900, 99, 100, 101, 102)]),
    (KINDS["dec20"], [Decimal(n) / 100 for n in (-900, 99, 100, 101, 10**19)]),
    (KINDS["ts_ms"], [-5000, -1, 0, 1, 2]), (KINDS["ts_ns"], [-5000, -1, 0, 1, 2]), (KINDS["date64"], [-864 * 10**7, -864 * 10**5, 0, 864 * 10**5]),
    (KINDS["int8"], [-128, -1, 0, 1, 127]), (KINDS["uint64"], [0, 1, 2, 2**63, 2**64 - 1]), (KINDS["bool"], [False, True]),
    (KINDS["time64"], [0, 1, 2, 86_399_999_999]), (KINDS["dur_us"], [-2**60, -1, 0, 1, 2**60]), (STR, ["", "a", "a\x00", "b", "é"]),
]
TRAPS += [
    _strict(kind, sorted(values, key=rank), op, f)
    for kind, values in EDGES
    for op, f in ((">", gt), (">=", ge), ("<", lambda a, b: gt(b, a)), ("<=", lambda a, b: ge(b, a)))
]


def orders_of(trap: Trap) -> list[bool]:
    return [] if trap.kinds[0].name in ("string", "dec20") else [False, True]


def table(trap: Trap, side: int, descending: bool) -> pa.Table:
    values = list(trap.left if side == 0 else trap.right)
    kind = trap.kinds[side]
    columns: dict[str, tuple[Kind, list[Any]]] = {"n": (I64, list(range(len(values)))), "a": (kind, values)}
    for name, more in (trap.more or {}).items():
        columns[name] = (more[0], list(more[1 + side]))
    seen = [(v is not None and v != v, v) for v in values]
    order = sorted(range(len(values)), key=lambda i: rank(values[i]) if seen[i][1] is not None else (2, 0), reverse=descending)
    return pa.table({name: column(k, [v[i] for i in order]) for name, (k, v) in columns.items()})


def scripts(n: int, m: int) -> list[list[Event]]:
    """Row by row: left first, right first, in turn, left hurrying, right hurrying; and by threes."""
    lefts: list[Event] = [("push", "left", i, i + 1) for i in range(n)]
    rights: list[Event] = [("push", "right", j, j + 1) for j in range(m)]
    turn = [e for pair in itertools.zip_longest(lefts, rights) for e in pair if e]
    hurry = [e for pair in itertools.zip_longest(lefts[::2], lefts[1::2], rights) for e in pair if e]
    threes: list[Event] = [
        e for i in range(0, max(n, m), 3)
        for e in (("push", "right", i, min(i + 3, m)), ("push", "left", i, min(i + 3, n))) if e[3] > e[2]
    ]
    return [lefts + rights, rights + lefts, turn, hurry, threes]


def play(trap: Trap, how: str, keys: bool = False) -> int:
    """Every order and interleaving of a trap; how many rows went before the end."""
    early = 0
    condition = Term(trap.condition, "", trap.holds, "bool")
    for left_falls, right_falls in [(x, y) for x in orders_of(trap) for y in orders_of(trap)] or [(False, False)]:
        left, right = table(trap, 0, left_falls), table(trap, 1, right_falls)
        ordered = bool(orders_of(trap))
        # An order without the other: what one side promises must suffice.
        for a, b in ((True, True), (True, False), (False, True)) if left_falls == right_falls else ((True, True),):
            left_order = (OrderSpec(trap.order[0], left_falls),) if a and ordered else ()
            right_order = (OrderSpec(trap.order[1], right_falls),) if b and ordered else ()
            plays = scripts(left.num_rows, right.num_rows)
            for script in plays if a and b and left_falls == right_falls else plays[2:3]:
                case = Case(left, right, how, (), condition, left_order, right_order, script=tuple(script))
                early += check(case).retired_early
    return early


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("trap", TRAPS, ids=lambda t: t.name.replace(" ", "-"))
def test_trap(trap: Trap, how: str) -> None:
    early = play(trap, how)
    if trap.pruned and orders_of(trap):
        assert early > 0, "nothing was pruned, so the trap was not sprung"


@pytest.mark.nojit
@pytest.mark.parametrize("trap", [t for t in TRAPS if t.name in ("float rounding", "month clamp", "wrong side")], ids=lambda t: t.name)
def test_trap_interpreted(trap: Trap) -> None:
    assert play(trap, "full") > 0


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("nulls", [None, "first", "last"])
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_nulls_at_an_end_or_anywhere(how: str, nulls: str | None, descending: bool) -> None:
    """The null tail read as a last value loses everything after it."""
    values: list[int | None] = sorted(range(0, 20, 2), reverse=descending)
    values = {"first": [None, None, *values], "last": [*values, None, None], None: [None, *values[:4], None, *values[4:], None]}[nulls]
    t = pa.table({"n": range(len(values)), "a": pa.array(values, pa.int64())})
    holds = Term(
        "l.a BETWEEN r.a - 3 AND r.a + 3", "",
        lambda a, b: None if a["a"] is None or b["a"] is None else abs(a["a"] - b["a"]) <= 3, "bool",
    )
    order = (OrderSpec("a", descending, None, nulls),)
    early = 0
    for script in scripts(t.num_rows, t.num_rows):
        early += check(Case(t, t, how, (), holds, order, order, script=tuple(script))).retired_early
    assert early > 0


@pytest.mark.parametrize("how", oracle.HOWS)
def test_a_key_that_has_gone_idle(how: str) -> None:
    """Rows of a key that comes no more are decided by the rows of the others."""
    left = pa.table({"n": range(6), "k": ["x", "x", "y", "y", "y", "y"], "a": [1, 2, 3, 40, 80, 120]})
    right = pa.table({"n": range(5), "k": ["x", "y", "y", "y", "y"], "a": [1, 5, 41, 90, 130]})
    holds = Term("abs(l.a - r.a) <= 3", "", lambda a, b: abs(a["a"] - b["a"]) <= 3, "bool")
    for script in scripts(6, 5):
        case = Case(left, right, how, (("k", "k"),), holds, (OrderSpec("a"),), (OrderSpec("a"),), script=tuple(script))
        assert check(case).retired_early >= 5


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("first", ["left", "right"])
def test_a_side_that_ends_early(how: str, first: str) -> None:
    left = pa.table({"n": range(20), "a": range(20)})
    right = pa.table({"n": range(3), "a": range(3)})
    holds = Term("abs(l.a - r.a) <= 1", "", lambda a, b: abs(a["a"] - b["a"]) <= 1, "bool")
    pushes: list[Event] = [("push", "right", 0, 3), ("finish", "right"), *(("push", "left", i, i + 1) for i in range(20))]
    if first == "left":
        pushes = [("push", "left", 0, 1), *pushes[:2], *(("push", "left", i, i + 1) for i in range(1, 20))]
    case = Case(left, right, how, (), holds, (OrderSpec("a"),), (), script=tuple(pushes))
    done = check(case)
    assert done.retired_early == 23, "after the right's end no row waits for anything"
    assert done.metrics.peak_state_rows <= 4


@pytest.mark.parametrize("how", oracle.HOWS)
def test_matched_means_the_whole_condition(how: str) -> None:
    """The key alone, or the band alone, does not make a match."""
    left = pa.table({"n": range(4), "k": [1, 1, 2, 2], "a": [1, 2, 3, 4], "s": ["a", "b", "a", None]})
    right = pa.table({"n": range(4), "k": [1, 1, 2, 3], "a": [1, 2, 9, 4], "s": ["b", "b", "a", "a"]})
    holds = Term(
        "l.a BETWEEN r.a - 1 AND r.a + 1 AND l.s = r.s", "",
        lambda a, b: both(abs(a["a"] - b["a"]) <= 1, None if a["s"] is None or b["s"] is None else a["s"] == b["s"]), "bool",
    )
    for script in scripts(4, 4):
        check(Case(left, right, how, (("k", "k"),), holds, (OrderSpec("a"),), (OrderSpec("a"),), script=tuple(script)))
