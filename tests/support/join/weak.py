"""Conditions under which pruning is easily lost, with the pairs that meet under them found by brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

Columns = dict[str, np.ndarray]


def ints(n: int) -> Columns:
    """One row a unit, ascending, with a small random offset, a width, a word and a bounded column."""
    rng = np.random.default_rng(n)
    return {
        "a": np.arange(n) + 1000, "x": rng.integers(0, 50, n), "w": rng.integers(0, 21, n),
        "k": rng.integers(0, 7, n), "s": rng.choice(np.array(["ab", "b", "c"]), n),
    }


@dataclass(frozen=True, eq=False)
class Weak:
    """A condition under which pruning is easily lost, and how its pairs are found by brute force.

    ``reach`` bounds how far apart in ``pos`` (the place on the common axis) the rows of a pair can lie; ``window`` is
    how many rows a side the operator may have to keep.
    """

    name: str
    condition: str
    window: int
    holds: Callable[[Columns, Columns], np.ndarray]
    left: Callable[[int], Columns] = ints
    right: Callable[[int], Columns] = ints
    options: dict[str, Any] = field(default_factory=lambda: {"left_order": "a", "right_order": "a"})
    reach: int = 25
    pos: tuple[Callable[[Columns], np.ndarray], Callable[[Columns], np.ndarray]] = (lambda c: c["a"], lambda c: c["a"])
    types: dict[str, pa.DataType] = field(default_factory=dict)
    nullable: bool = True


def near(d: int) -> Callable[[Columns, Columns], np.ndarray]:
    return lambda p, q: np.abs(p["a"] - q["a"]) <= d


def minutes(n: int) -> Columns:
    """A row every half hour, in microseconds."""
    return {"a": np.arange(n) * 1_800_000_000 + 1_700_000_000_000_000}


def halves(n: int) -> Columns:
    """Neither column is in order, their sum is."""
    c = ints(n)
    return {**c, "p": c["a"] - 3 * c["x"], "q": 3 * c["x"]}


def jittered(n: int) -> Columns:
    c = ints(n)
    return {**c, "a": c["a"] - np.random.default_rng(1).integers(0, 11, n)}


def falling(n: int) -> Columns:
    return {"a": -ints(n)["a"]}


def grouped(n: int) -> Columns:
    """A column without order but with declared bounds, next to an ordered one."""
    c = ints(n)
    return {**c, "u": c["a"] - c["k"]}


def real(n: int) -> Columns:
    c = ints(n)
    return {**c, "a": c["a"].astype(float)}


def ratio(p: Columns, q: Columns) -> np.ndarray:
    return (p["a"] / q["a"] < 1.01) & (q["a"] / p["a"] < 1.01) & (p["x"] == q["x"])


US = pa.timestamp("us")
DAY = 86_400_000_000
RATIO = "l.a / r.a < 1.01 AND r.a / l.a < 1.01 AND l.x = r.x"
ABOVE_ZERO = {"left_bounds": {"a": (1, None)}, "right_bounds": {"a": (1, None)}}
ORDERED = {"left_order": "a", "right_order": "a"}

WEAK = [
    Weak("equality of ordered columns", "l.a = r.a", 20, near(0)),
    Weak("equality of ordered timestamps", "l.a = r.a", 20, near(0), minutes, minutes, types={"a": US}, reach=0),
    Weak("square of the difference", "(l.a - r.a) * (l.a - r.a) < 400", 20, near(19)),
    Weak("power of the difference", "pow(l.a - r.a, 2) < 400", 20, near(19)),
    Weak("absolute difference", "abs(l.a - r.a) < 20", 20, near(19)),
    Weak("repeated columns", "l.a + l.a > r.a + r.a - 40 AND r.a + r.a > l.a + l.a - 40", 20, near(19)),
    Weak("difference between", "l.a - r.a BETWEEN -10 AND 10", 10, near(10)),
    Weak("factors", "2 * l.a < 2 * r.a + 5 AND 2 * r.a < 2 * l.a + 40", 20,
         lambda p, q: (2 * p["a"] < 2 * q["a"] + 5) & (2 * q["a"] < 2 * p["a"] + 40)),
    Weak("ratio of integers", RATIO, 210, ratio, options={**ORDERED, **ABOVE_ZERO}, reach=250),
    Weak("ratio of doubles", RATIO, 210, ratio, real, real, {**ORDERED, **ABOVE_ZERO}, reach=250),
    Weak("a width that is a column", "l.a BETWEEN r.a AND r.a + r.w", 20,
         lambda p, q: (p["a"] >= q["a"]) & (p["a"] <= q["a"] + q["w"]),
         options={**ORDERED, "right_bounds": {"w": (0, 20)}}),
    Weak("a width both ways", "l.a BETWEEN r.a - r.w AND r.a + r.w", 20,
         lambda p, q: np.abs(p["a"] - q["a"]) <= q["w"], options={**ORDERED, "right_bounds": {"w": (0, 20)}}),
    Weak("equal days", "date_trunc('DAY', l.a) = date_trunc('DAY', r.a)", 48,
         lambda p, q: p["a"] // DAY == q["a"] // DAY, minutes, minutes, types={"a": US}, reach=DAY),
    Weak("an order of a sum", "l.p + l.q BETWEEN r.p + r.q - 10 AND r.p + r.q + 10", 10, near(10), halves, halves,
         {"left_order": "p + q", "right_order": "p + q"}),
    Weak("an order of a sum written otherwise", "l.p + l.q - r.p - r.q <= 10 AND r.p + r.q - l.p - l.q <= 10", 10,
         near(10), halves, halves, {"left_order": "p + q", "right_order": "p + q"}),
    Weak("an unknown conjunct <>", "l.a BETWEEN r.a - 10 AND r.a + 10 AND l.x <> r.x", 10,
         lambda p, q: near(10)(p, q) & (p["x"] != q["x"])),
    Weak("an unknown conjunct LIKE", "concat(l.s, r.s) LIKE '%b%' AND l.a BETWEEN r.a - 10 AND r.a + 10", 10,
         lambda p, q: near(10)(p, q) & ((p["s"] != "c") | (q["s"] != "c"))),
    Weak("an unknown conjunct CASE", "abs(l.a - r.a) <= 10 AND CASE WHEN l.x > r.x THEN l.w <> 3 ELSE r.w <> 4 END",
         10, lambda p, q: near(10)(p, q) & np.where(p["x"] > q["x"], p["w"] != 3, q["w"] != 4)),
    Weak("OR of two windows", "l.a BETWEEN r.a - 5 AND r.a OR l.a BETWEEN r.a + 10 AND r.a + 20", 20,
         lambda p,
         q: (((p["a"] - q["a"] >= -5) & (p["a"] <= q["a"])) | ((p["a"] - q["a"] >= 10) & (p["a"] - q["a"] <= 20)))),
    Weak("CASE with a window in each branch",
         "CASE WHEN l.x > r.x THEN l.a BETWEEN r.a - 10 AND r.a ELSE abs(l.a - r.a) < 20 END", 20,
         lambda p, q: np.where(p["x"] > q["x"], (p["a"] >= q["a"] - 10) & (p["a"] <= q["a"]),
         np.abs(p["a"] - q["a"]) < 20)),
    Weak("a width that is a CASE", "abs(l.a - r.a) <= CASE WHEN l.x > r.x THEN 10 WHEN l.x = r.x THEN 20 ELSE 5 END",
         20,
         lambda p, q: np.abs(p["a"] - q["a"]) <= np.where(p["x"] > q["x"], 10, np.where(p["x"] == q["x"], 20, 5))),
    Weak("an exponent, which has no inverse", "pow(2D, CAST(l.a - r.a AS DOUBLE)) BETWEEN 0.001D AND 1024D", 10,
         lambda p, q: (p["a"] - q["a"] >= -9) & (p["a"] - q["a"] <= 10)),
    Weak("the exponent of a distance", "pow(1.5D, abs(l.a - r.a)) < 1000", 18, near(17)),
    Weak("a sum with an exponent", "abs(l.a - r.a) + pow(2D, CAST(l.a - r.a AS DOUBLE)) <= 30", 30,
         lambda p, q: np.abs(p["a"] - q["a"]) + np.exp2(np.clip(p["a"] - q["a"], -60, 60).astype(float)) <= 30,
         reach=31),
    Weak("a distance in the plane", "hypot(l.a - r.a, l.x - r.x) <= 10", 10,
         lambda p, q: np.hypot(p["a"] - q["a"], p["x"] - q["x"]) <= 10),
    Weak("NOT outside", "NOT (l.a < r.a - 10 OR l.a > r.a + 10)", 10, near(10)),
    Weak("ascending against descending", "l.a + r.a BETWEEN -20 AND 20", 20,
         lambda p, q: np.abs(p["a"] + q["a"]) <= 20, right=falling,
         options={"left_order": "a", "right_order": {"expr": "a", "descending": True}},
         pos=(lambda c: c["a"], lambda c: -c["a"])),
    Weak("both descending", "l.a BETWEEN r.a - 10 AND r.a + 10", 10, near(10), falling, falling,
         {"left_order": {"expr": "a", "descending": True}, "right_order": {"expr": "a", "descending": True}}),
    Weak("order with slack", "l.a BETWEEN r.a - 10 AND r.a + 10", 20, near(10), jittered, jittered,
         {"left_order": {"expr": "a", "slack": 10}, "right_order": {"expr": "a", "slack": 10}}),
    Weak("unordered but bounded", "l.u + l.k BETWEEN r.a - 10 AND r.a + 10", 20, near(10), grouped, ints,
         {"left_order": {"expr": "u", "slack": 7}, "right_order": "a", "left_bounds": {"k": (0, 6)}}),
    Weak("a one-sided filter", "l.a BETWEEN r.a - 10 AND r.a + 10 AND l.x < 25 AND r.x >= 10", 10,
         lambda p, q: near(10)(p, q) & (p["x"] < 25) & (q["x"] >= 10)),
    Weak("containment", "l.a <= r.a AND r.a <= l.b", 20, lambda p, q: (p["a"] <= q["a"]) & (q["a"] <= p["b"]),
         lambda n: (lambda c: {**c, "b": c["a"] + c["w"]})(ints(n))),
    Weak("doubles as written", "l.a >= r.a - 10.0 AND l.a <= r.a + 10.0", 20, near(10), real, real),
    Weak("difference of doubles", "abs(l.a - r.a) <= 10.0", 20, near(10), real, real),
    Weak("unix seconds", "unix_micros(l.a) - unix_micros(r.a) BETWEEN -86400000000 AND 86400000000", 48,
         lambda p, q: np.abs(p["a"] - q["a"]) <= DAY, minutes, minutes, types={"a": US}, reach=DAY),
    Weak("timestamp difference", "l.a - r.a BETWEEN INTERVAL '-1' DAY AND INTERVAL '1' DAY", 48,
         lambda p, q: np.abs(p["a"] - q["a"]) <= DAY, minutes, minutes, types={"a": US}, reach=DAY),
    Weak("floor of a quotient", "floor(l.a / 20) = floor(r.a / 20)", 20, lambda p, q: p["a"] // 20 == q["a"] // 20),
    Weak("masked bits", "(l.a & ~15) = (r.a & ~15)", 16, lambda p, q: p["a"] >> 4 == q["a"] >> 4),
    Weak("bits that differ", "(l.a ^ r.a) BETWEEN 0 AND 15", 16, lambda p, q: p["a"] >> 4 == q["a"] >> 4),
    Weak("integer division", "l.a div 20 = r.a div 20", 20, lambda p, q: p["a"] // 20 == q["a"] // 20),
    Weak("a quotient that an error replaces, not a default", "coalesce(abs(l.a - r.a) div r.w, 0) <= 1", 42,
         lambda p, q: np.abs(p["a"] - q["a"]) // q["w"] <= 1, right=lambda n: {**ints(n), "w": ints(n)["w"] + 1},
         options={**ORDERED, "right_bounds": {"w": (0, 21)}}, reach=45, nullable=False),
    # greatest and least skip NULL: only columns that hold none can be pruned here
    Weak("greatest minus least", "greatest(l.a, r.a) - least(l.a, r.a) <= 10", 10, near(10), nullable=False),
]  # fmt: skip


def record(columns: Columns, types: dict[str, pa.DataType], nullable: bool = True) -> pa.Table:
    arrays: dict[str, pa.Array] = {"n": pa.array(np.arange(len(columns["a"])))}
    for name, v in columns.items():
        array = pa.array(v)
        arrays[name] = array.view(types[name]) if name in types else array
    table = pa.table(arrays)
    return table.cast(pa.schema([f.with_nullable(nullable) for f in table.schema]))


def expected(weak: Weak, n: int) -> np.ndarray:
    """Pairs (left n, right n) by brute force over what lies within reach, int64[m, 2] in order."""
    left, right = weak.left(n), weak.right(n)
    p, q = weak.pos[0](left), weak.pos[1](right)
    order = np.argsort(q, kind="stable")
    found = []
    for at in range(0, n, 50_000):
        mine = np.arange(at, min(at + 50_000, n))
        start = np.searchsorted(q[order], p[mine] - weak.reach, "left")
        stop = np.searchsorted(q[order], p[mine] + weak.reach, "right")
        many = stop - start
        i = np.repeat(mine, many)
        j = order[np.arange(len(i)) + np.repeat(start - np.cumsum(many) + many, many)]
        keep = weak.holds({c: v[i] for c, v in left.items()}, {c: v[j] for c, v in right.items()})
        found.append(np.stack([i[keep], j[keep]], axis=1))
    return in_order(np.concatenate(found))


def in_order(pairs: np.ndarray) -> np.ndarray:
    return pairs[np.lexsort(pairs.T[::-1])]
