"""The trap table: conditions whose bounds must enclose the machine's operation, with the values at their edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from join.machine import both, days, f32, ge, gt, micros, month, near, plus_month
from join.tables import KINDS, Kind

from bench.operators import truncated

NAN, INF = math.nan, math.inf
F64, I64, I32, STR = KINDS["float64"], KINDS["int64"], KINDS["int32"], KINDS["string"]
BIG = 2**53


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


TRAPS = [
    Trap("float rounding", "l.a + 1.0 >= r.a", (F64, F64), [-9.0, *near(0.1)], [-9.0, *near(1.1), 50.0],
         lambda a, b: ge(a["a"] + 1.0, b["a"])),
    Trap("float rounding below", "l.a - 1.0 <= r.a", (F64, F64), [*near(1.1), 50.0], [-9.0, *near(0.1), 50.0],
         lambda a, b: ge(b["a"], a["a"] - 1.0)),
    Trap("float difference", "l.a - r.a <= 0.1", (F64, F64), [-5.0, *near(0.30000000000000004), 9.0],
         [-5.0, *near(0.2), 9.0], lambda a, b: ge(0.1, a["a"] - b["a"])),
    Trap("float product", "l.a * 0.1 >= r.a", (F64, F64), [-9.0, *near(3.0), *near(7.0)],
         [-9.0, *near(0.3), *near(0.7)], lambda a, b: ge(a["a"] * 0.1, b["a"])),
    Trap("float quotient", "l.a / 3.0 >= r.a", (F64, F64), [-9.0, *near(1.0), *near(5.0)],
         [-9.0, *near(1 / 3), *near(5 / 3)], lambda a, b: ge(a["a"] / 3.0, b["a"])),
    Trap("absorption", "l.a + 1e16 >= r.a", (F64, F64), [-1e30, -2.0, -1.5, -1.0, -0.5, -0.0, 0.5, 1.0],
         [-1e30, *near(1e16), 1e30], lambda a, b: ge(a["a"] + 1e16, b["a"])),
    Trap("overflow to infinity", "l.a * 10.0 > r.a", (F64, F64), [-1e300, 1e307, 1.7e307, 1.8e307, 1.7e308],
         [-1e300, 1e308, 1.7976931348623157e308, INF], lambda a, b: gt(a["a"] * 10.0, b["a"])),
    Trap("single against double", "l.a > r.a", (KINDS["float32"], F64), [-5.0, f32(0.1), f32(0.2)],
         [-5.0, *near(0.1), f32(0.1), 0.2, 9.0], lambda a, b: gt(a["a"], b["a"])),
    Trap("integer division", "l.a div 2 >= r.a", (I64, I64), [-100, *range(-9, 10)], [-60, *range(-5, 6), 80],
         lambda a, b: ge(truncated(a["a"], 2), b["a"])),
    Trap("integer division below", "l.a div 3 <= r.a", (I32, I32), [*range(-9, 10), 100], [-60, *range(-4, 5), 80],
         lambda a, b: ge(b["a"], truncated(a["a"], 3))),
    Trap("truncating cast", "CAST(l.a AS BIGINT) >= r.a", (F64, I64), [-90.5, -4.0, -3.7, -3.0, -0.9, -0.0, 0.9, 3.7],
         [-80, *range(-5, 5), 70], lambda a, b: ge(math.trunc(a["a"]), b["a"])),
    Trap("narrowing cast", "CAST(l.a AS FLOAT) >= r.a", (F64, F64),
         [-9.0, 0.99999996, 0.99999999, *near(1.0), 1.00000001], [-9.0, f32(0.99999994), 1.0, f32(1.0000001), 9.0],
         lambda a, b: ge(f32(a["a"]), b["a"])),
    Trap("big integers as doubles", "CAST(l.a AS DOUBLE) >= r.a", (I64, F64), [-9, *range(BIG - 3, BIG + 6)],
         [-9.0, BIG - 1.0, float(BIG), BIG + 2.0, BIG + 4.0, BIG * 2.0], lambda a, b: ge(float(a["a"]), b["a"])),
    Trap("big integers equal to doubles", "CAST(l.a AS DOUBLE) = r.a", (I64, F64), [-9, *range(BIG - 3, BIG + 6)],
         [-9.0, BIG - 1.0, float(BIG), BIG + 2.0, BIG + 4.0], lambda a, b: float(a["a"]) == b["a"]),
    Trap("integer against double", "l.a <= r.a", (I64, F64), [*range(BIG - 3, BIG + 6), BIG * 4],
         [-9.0, BIG - 1.0, float(BIG), BIG + 2.0, BIG + 4.0], lambda a, b: ge(b["a"], float(a["a"]))),
    Trap("time truncation", "CAST(l.a AS DATE) <= r.a", (KINDS["ts_us"], KINDS["date32"]),
         micros("2023-01-29T00:00", "2023-01-30T23:59:59.999999", "2023-01-31T00:00", "2023-01-31T20:00",
         "2023-02-01T00:00", "2024-01-01"),
         days("2022-01-01", "2023-01-29", "2023-01-30", "2023-01-31", "2023-02-01"),
         lambda a, b: a["a"] // 86_400_000_000_000 <= b["a"]),
    Trap("time truncation before 1970", "CAST(l.a AS DATE) >= r.a", (KINDS["ts_us"], KINDS["date32"]),
         micros("1960-01-01", "1969-12-30T23:59:59.999999", "1969-12-31T00:00", "1969-12-31T23:59:59",
         "1970-01-01T00:00:00.000001"), days("1960-01-01", "1969-12-30", "1969-12-31", "1970-01-01", "1980-01-01"),
         lambda a, b: a["a"] // 86_400_000_000_000 >= b["a"]),
    Trap("seconds of nanoseconds", "unix_seconds(l.a) >= unix_seconds(r.a)", (KINDS["tsz_ns"], KINDS["tsz_s"]),
         [-(10**12), -1_000_000_001, -1_000_000_000, -999_999_999, -1, 0, 1, 10**9], [-1000, -2, -1, 0, 1, 2000],
         lambda a, b: a["a"] // 10**9 >= b["a"] // 10**9),
    Trap("month clamp", "l.a + INTERVAL 1 MONTH <= r.a", (KINDS["date32"], KINDS["date32"]),
         days("2022-12-31", "2023-01-27", "2023-01-28", "2023-01-29", "2023-01-30", "2023-01-31", "2023-02-01",
         "2024-01-31"), days("2021-01-01", "2023-02-26", "2023-02-27", "2023-02-28", "2023-03-01", "2023-03-02"),
         lambda a, b: plus_month(a["a"]) <= b["a"]),
    Trap("month clamp above", "l.a + INTERVAL 1 MONTH >= r.a", (KINDS["date32"], KINDS["date32"]),
         days("2020-01-31", "2024-01-28", "2024-01-29", "2024-01-30", "2024-01-31", "2024-02-01"),
         days("2020-01-01", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02", "2025-01-01"),
         lambda a, b: plus_month(a["a"]) >= b["a"]),
    Trap("wrong column", "l.a <= r.a AND r.a <= l.b", (I64, I64), [0, 1, 2, 5, 6, 7, 20],
         [0, 1, 3, 6, 8, 9, 10, 30, 31], lambda a, b: a["a"] <= b["a"] <= a["b"],
         {"b": (I64, [30, 3, 2, 9, 6, 8, 25], [0] * 9)}),
    Trap("foreign unit", "l.a BETWEEN r.a - 2 AND r.a + 2 AND l.b > 5", (I64, I64), [*range(100, 120)],
         [*range(90, 125, 2)], lambda a, b: b["a"] - 2 <= a["a"] <= b["a"] + 2 and a["b"] > 5,
         {"b": (I64, [*range(20)], [0] * 18)}),
    Trap("decimal half up", "CAST(l.a AS DECIMAL(10, 1)) >= r.a", (KINDS["dec10"], KINDS["dec10"]),
         [Decimal(n) / 100 for n in (-900, -16, -15, -14, 4, 5, 14, 15, 16, 95)],
         [Decimal(n) / 100 for n in (-900, -20, -10, 0, 10, 20, 100, 500)],
         lambda a, b: a["a"].quantize(Decimal("0.1"), ROUND_HALF_UP) >= b["a"]),
    Trap("decimal rounding", "round(l.a, 1) <= r.a", (KINDS["dec10"], KINDS["dec10"]),
         [Decimal(n) / 100 for n in (-25, -5, -4, 4, 5, 14, 15, 16, 9000)],
         [Decimal(n) / 10 for n in (-900, -3, -2, -1, 0, 1, 2)],
         lambda a, b: a["a"].quantize(Decimal("0.1"), ROUND_HALF_UP) <= b["a"]),
    Trap("floor and ceil", "floor(l.a) >= ceil(r.a)", (F64, F64),
         [-50.0, -1.5, -1.0, -0.5, -0.0, 0.5, 0.9999999999999999, 1.0, 2.5],
         [-70.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 40.0], lambda a, b: math.floor(a["a"]) >= math.ceil(b["a"])),
    Trap("floor of NaN is zero", "floor(l.a) = floor(r.a)", (F64, F64), [-7.5, 0.0, 0.5, 5.0, NAN],
         [-7.0, 0.25, 1.0, 8.0, NAN],
         lambda a,
         b: (0 if a["a"] != a["a"] else math.floor(a["a"])) == (0 if b["a"] != b["a"] else math.floor(b["a"])),
         pruned=False),
    Trap("least skips nulls", "least(l.a, l.b) >= r.a", (I64, I64), [0, 1, 3, 5, 9], [-4, 0, 2, 4, 6, 20],
         lambda a, b: min(x for x in (a["a"], a["b"]) if x is not None) >= b["a"],
         {"b": (I64, [None, 0, 9, None, 2], [0] * 6)}),
    Trap("coalesce", "coalesce(l.b, l.a) <= r.a", (I64, I64), [0, 1, 3, 5, 9], [-4, 0, 2, 4, 6, 20],
         lambda a, b: (a["a"] if a["b"] is None else a["b"]) <= b["a"], {"b": (I64, [None, 0, 9, None, 2], [0] * 6)},
         pruned=False),
    Trap("remainder of the dividend's sign", "l.a % 3 >= r.a", (I64, I64), [*range(-9, 10)],
         [-5, -3, -2, -1, 0, 1, 2, 3, 4], lambda a, b: math.fmod(a["a"], 3) >= b["a"]),
    Trap("unit against unit", "l.a <= r.a", (KINDS["ts_s"], KINDS["ts_ns"]), [-5, -1, 0, 1, 2, 900],
         [-(10**12), -(10**9) - 1, -(10**9), -1, 0, 1, 10**9 - 1, 10**9, 10**9 + 1], lambda a, b: a["a"] <= b["a"]),
    Trap("unit finer than the interval", "l.a > r.a - INTERVAL 1 SECOND", (KINDS["ts_ns"], KINDS["ts_ms"]),
         [-(10**12), -1, 0, 1, 10**9], [-(10**6), 0, 999, 1000, 1001, 2000, 10**6],
         lambda a, b: a["a"] > b["a"] - 10**9),
    Trap("date against timestamp", "l.a <= r.a", (KINDS["date32"], KINDS["ts_us"]),
         days("2020-01-01", "2020-01-02", "2020-01-03", "2024-01-01"),
         micros("2019-01-01", "2020-01-01T00:00", "2020-01-01T23:59:59.999999", "2020-01-02T00:00",
         "2020-01-02T12:00"), lambda a, b: a["a"] * 86_400_000_000_000 <= b["a"]),
    Trap("days of one month", "date_trunc('MONTH', l.a) = date_trunc('MONTH', r.a)",
         (KINDS["tsz_us"], KINDS["tsz_us"]),
         micros("2023-12-31T23:59:59.999999", "2024-01-01", "2024-01-31T23:59", "2024-02-01",
         "2024-02-29T23:59:59.999999", "2024-03-01"),
         micros("2023-12-01", "2024-01-31T23:59:59.999999", "2024-02-01", "2024-02-28", "2024-03-01", "2025-01-01"),
         lambda a, b: month(a["a"]) == month(b["a"])),
    Trap("text", "l.b >= r.b AND l.a >= r.a", (I64, I64), [1, 2, 3, 4, 5], [0, 2, 3, 5, 9],
         lambda a, b: both(ge(a["b"], b["b"]), ge(a["a"], b["a"])),
         {"b": (STR, ["a", "é", "", "z", None], ["", "a", "é", "日", "B"])}),
    Trap("CASE", "CASE WHEN l.b > 2 THEN l.a <= r.a + 5 AND l.a >= r.a ELSE l.a = r.a - 3 END", (I64, I64),
         [*range(0, 30, 2)], [*range(0, 33, 3)],
         lambda a, b: b["a"] <= a["a"] <= b["a"] + 5 if a["b"] > 2 else a["a"] == b["a"] - 3,
         {"b": (I64, [n % 5 for n in range(15)], [0] * 11)}, pruned=False),
    Trap("logarithm and power", "sqrt(l.a) >= r.a", (F64, F64),
         [0.0, 1.9999999999999998, 2.0, 2.0000000000000004, 4.0], [-1.0, *near(math.sqrt(2.0)), 2.0, 30.0],
         lambda a, b: ge(math.sqrt(a["a"]), b["a"])),
]  # fmt: skip
