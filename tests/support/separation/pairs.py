"""Random conditions over two columns a side, rows of pairs for them, and the promises of separate() tested on these."""

from __future__ import annotations

import decimal
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
from evaluating import there

from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.errors import IvjoinError
from ivjoin.expr import build as b
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import (
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    Type,
    duration,
    timestamp,
    to_arrow,
)
from ivjoin.expr.types import decimal as decimal_type
from ivjoin.separation.separate import Separation

Row = dict[tuple[str, str], object]
US = timestamp("us", "UTC")

FAMILIES = {
    "int8": [INT8], "ints": [INT8, INT16, INT32, INT64, INT64], "unsigned": [UINT8, INT8, INT32],
    "decimals": [decimal_type(5, 2), decimal_type(4, 1), INT8],
    "wide decimals": [decimal_type(22, 2), decimal_type(18, 0), INT64],
    "dates": [DATE],
    "timestamps": [timestamp("ms", "UTC"), US],
    "times": [US, duration("us"), duration("us"), INT32],
    "float64": [FLOAT64], "float32": [FLOAT32], "float and int": [FLOAT64, INT32, INT64],
}
FLOATS = [
    0.0, -0.0, 1.0, 0.1, 0.2, 0.3, 1.1, -0.5, 1e16, -1e16, 1e16 + 2, math.inf, -math.inf, math.nan, 5e-324, -5e-324,
    3.0, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 8.98846567431158e307,
    1.0000000000000002,
    0.9999999999999999, 1 / 3, 1e-160, 1e154, 16777216.0, 16777217.0, 1e-45, 3.4028234663852886e38,
]  # fmt: skip


def to_float32(x: float | None) -> float | None:
    with np.errstate(all="ignore"):
        return None if x is None else float(np.float32(x))


def some_value(t: Type, rng: random.Random) -> object:
    if rng.random() < 0.05:
        return None
    if t.kind == "float":
        x = rng.choice(FLOATS) if rng.random() < 0.6 else rng.uniform(-5, 5)
        return to_float32(x) if t.bits == 32 else x
    lo, hi = t.limits
    tick = {"s": 1, "ms": 1000, "us": 10**6}.get(t.unit, 1)
    edges = [lo, hi, lo + 1, hi - 1, lo // 2, hi // 2, 2**53 + 1, 0, tick, -tick, 10 * tick, 3 * tick + 1]
    x = rng.choice(edges) if rng.random() < 0.4 else rng.randint(-9, 9)
    return min(max(x, lo), hi)


def near(t: Type, base: object, rng: random.Random) -> object:
    if t.kind == "float":
        if not isinstance(base, (int, float)):
            return 1.0
        x = float(base)
        x = rng.choice([x, x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf), x + 0.5, x - 1])
        return to_float32(x) if t.bits == 32 else x
    at = int(base) if isinstance(base, (int, float)) and math.isfinite(base) else 0
    lo, hi = t.limits
    return min(max(at + rng.randint(-6, 6), lo), hi)


def some_rows(columns: list[Node], rng: random.Random, n: int = 120, around: Row | None = None) -> list[Row]:
    """Rows that are partly at the edges of the types and partly near each other, where comparisons turn."""
    rows = [] if around is None else [around]
    while len(rows) < n:
        row = {c.params: some_value(c.type, rng) for c in columns}
        if rng.random() < 0.6:
            base = rng.choice(list(row.values())) if around is None else None
            for c in columns:
                if rng.random() < 0.7:
                    row[c.params] = near(c.type, base if around is None else around[c.params], rng)
        rows.append(row)
    return rows


def to_array(values: list[Any], t: Type) -> pa.Array:
    if t.kind == "decimal":
        with decimal.localcontext(prec=60):
            scaled = [None if v is None else decimal.Decimal(str(v)).scaleb(-t.scale) for v in values]
        return pa.array(scaled, to_arrow(t))
    if t.kind == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    if t.kind in ("timestamp", "duration"):
        return pa.array(values, pa.int64()).cast(to_arrow(t))
    return pa.array(values, to_arrow(t))


class Table:
    """The values of expressions on rows of pairs."""

    def __init__(self, rows: list[Row], columns: list[Node]) -> None:
        self.n = len(rows)
        self.arrays = {c.params: to_array([r[c.params] for r in rows], c.type) for c in columns}

    def __call__(self, *nodes: Node) -> list[Vector]:
        return evaluate(nodes, lambda side, name: self.arrays[side, name], self.n)

    def ok(self, v: Vector) -> np.ndarray:
        return np.ones(self.n, bool) if v.error is None else ~v.error

    def known(self, v: Vector) -> np.ndarray:
        return there(v, self.n)

    def true(self, node: Node) -> np.ndarray:
        (v,) = self(node)
        return self.known(v) & v.values


def broken_promises(sep: Separation, rows: list[Row], columns: list[Node]) -> list[tuple[str, object, Row]]:
    """Rows that the parts lose, and rows that they let through though the condition is not TRUE."""
    t = Table(rows, columns)
    assert sep.condition is not None
    truth = t.true(sep.condition)
    out: list[tuple[str, object, Row]] = []
    clean = np.ones(t.n, bool)
    together = np.ones(t.n, bool)

    def part(what: object, holds: np.ndarray, ok: np.ndarray) -> None:
        nonlocal clean, together
        clean, together = clean & ok, together & holds
        out.extend(("lost by", what, rows[i]) for i in np.flatnonzero(truth & ok & ~holds))

    for k in sep.keys:
        assert k.left.type == k.right.type
        x, y = t(k.left, k.right)
        equal = image(x, k.left.type) == image(y, k.left.type)
        both = t.known(x) & t.known(y)
        neither = t.ok(x) & t.ok(y) & ~t.known(x) & ~t.known(y)
        part(k, both & equal | neither & k.null_safe, t.ok(x) & t.ok(y))
    for band in sep.bands:
        assert band.left.type == band.right.type
        assert band.lo is not None or band.hi is not None
        x, y = t(band.left, band.right)
        d = image(x, band.left.type) - image(y, band.left.type)
        inside = np.ones(t.n, bool) if band.lo is None else d >= band.lo
        inside = inside if band.hi is None else inside & (d <= band.hi)
        part(band, inside.astype(bool) & t.known(x) & t.known(y), t.ok(x) & t.ok(y))
    for f in (*sep.left_filter, *sep.right_filter, *sep.constant):
        part(f, t.true(f), t.ok(*t(f)))
    guarded = np.ones(t.n, bool)
    for g in sep.guards:
        (x,) = t(g.node)
        at = x.values.astype(object)
        guarded &= t.ok(x) & (~t.known(x) | ((at >= g.lo) & (at <= g.hi)).astype(bool))
    kept = clean & guarded & together
    for r in sep.residual:
        kept &= t.true(r)
    # A residual that errs raises by itself; what remains must be TRUE and raise nothing.
    out.extend(("let through", sep, rows[i]) for i in np.flatnonzero(kept & ~truth))
    return out


def image(v: Vector, t: Type) -> np.ndarray:
    if t.kind == "decimal" and t.precision > 18:
        return v.values
    return ordinals(v.values, t).astype(object)


class Author:
    """Writes random conditions over two columns a side."""

    def __init__(self, family: str, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(f"{family} {seed}")
        self.types = FAMILIES[family]
        self.lefts = [b.column("left", n, rng.choice(self.types)) for n in "ab"]
        self.rights = [b.column("right", n, rng.choice(self.types)) for n in "ac"]
        self.columns = self.lefts + self.rights
        self.kind = "float" if FLOAT64 in self.types or FLOAT32 in self.types else self.types[0].kind

    def number(self, x: float) -> Node:
        return b.literal(to_float32(x), FLOAT32) if self.types == [FLOAT32] else b.literal(x, FLOAT64)

    def whole(self) -> Node:
        if self.kind == "decimal" and self.rng.random() < 0.5:
            return b.literal(decimal.Decimal(self.rng.choice(["1.5", "0.25", "-0.1"])))
        return b.literal(self.rng.choice([1, 2, 3, -2, 5, 10, 40, 0]))

    def value(self, depth: int) -> Node:
        rng = self.rng
        if depth == 0 or rng.random() < 0.25:
            return rng.choice(self.columns)
        if self.kind == "date":
            return b.add(rng.choice(self.columns), b.literal(rng.choice([1, -5, 30]), INT32))
        if self.kind == "timestamp":
            if rng.random() < 0.5:
                step = b.literal(rng.choice([10**6, -1, 86_400 * 10**6]), duration("us"))
                return rng.choice([b.add, b.sub])(rng.choice(self.columns), step)
            x, y = self.value(depth - 1), self.value(depth - 1)
            second = b.literal(10**6, duration("us"))
            times = [
                lambda: b.sub(x, y), lambda: b.add(x, y), lambda: b.abs_(x), lambda: b.neg(x), lambda: b.mul(x, second),
                lambda: b.greatest(x, y),
            ]
            return rng.choice(times)()
        x, y = self.value(depth - 1), self.value(depth - 1)
        shared = [
            lambda: b.add(x, y), lambda: b.sub(x, y), lambda: b.sub(x, y), lambda: b.sub(x, y), lambda: b.neg(x),
            lambda: b.abs_(x), lambda: b.mul(x, x), lambda: b.mul(x, y), lambda: b.greatest(x, y),
            lambda: b.least(x, y), lambda: b.sub(b.greatest(x, y), b.least(x, y)),
        ]
        if self.kind == "float":
            k = self.number(rng.choice([0.5, 1.0, 2.0, -1.5, 1e16, 0.1, 1e-320, 1.7e308, 3.0]))
            own = [
                lambda: b.mul(x, k), lambda: b.div(x, k), lambda: b.add(x, k), lambda: b.real("sqrt", x),
                lambda: b.real("pow", x, b.literal(rng.choice([2.0, 3.0, 4.0]), FLOAT64)),
                lambda: b.cast(x, rng.choice([FLOAT64, FLOAT32])), lambda: b.div(x, y), lambda: b.round_(x),
            ]
        else:
            narrow = [INT64, decimal_type(6, 1), decimal_type(10, 3), INT8] if self.kind == "decimal" else [INT64, INT8]
            own = [
                lambda: b.mul(self.whole(), x), lambda: b.add(x, self.whole()), lambda: b.add(x, x),
                lambda: b.intdiv(x, b.literal(rng.choice([2, 3, -2]))),
                lambda: b.pmod(x, b.literal(rng.choice([3, 7]))), lambda: b.cast(x, rng.choice(narrow)),
                lambda: b.floor(x), lambda: b.real("pow", x, b.literal(2)), lambda: b.div(x, b.literal(2)),
                lambda: b.round_(b.div(x, b.literal(decimal.Decimal("7.0")))),
            ]
        return rng.choice(shared + own)()

    def comparison(self) -> Node:
        rng = self.rng
        op = rng.choice(["lt", "le", "gt", "ge"] * 3 + ["eq", "ne", "eq_null_safe"])
        if rng.random() < 0.4:
            d = b.sub(rng.choice(self.lefts), rng.choice(self.rights))
            if d.type.kind == "duration":
                return b.compare(op, d, b.literal(rng.choice([0, 1, 10**6]), d.type))
            d = b.abs_(d) if rng.random() < 0.5 else d
            if d.type.kind == "float":
                limits = [0.0, 0.5, 1.0, 5.0, 1e300, -1.0, math.inf, math.nan, 1e-323]
                return b.compare(op, d, b.literal(rng.choice(limits), FLOAT64))
            if rng.random() < 0.1:
                return b.in_(d, [b.literal(v) for v in rng.sample([0, 1, 2, 5, -3], 3)])
            return b.compare(op, d, b.literal(rng.choice([0, 1, 3, 10, -2])))
        if rng.random() < 0.12:
            taken, left, right = self.comparison(), rng.choice(self.lefts), rng.choice(self.rights)
            return b.compare(op, b.case([(taken, left)], right), rng.choice(self.columns))
        if rng.random() < 0.6 or self.kind in ("date", "timestamp"):
            return b.compare(op, self.value(2), self.value(1))
        return b.compare(op, self.value(2), b.literal(rng.choice([0, 1, 5, 20, -3, 100])))

    def condition(self, depth: int = 2) -> Node:
        r = self.rng.random()
        if depth and r < 0.35:
            return b.and_(*(self.condition(depth - 1) for _ in range(self.rng.choice([2, 2, 3]))))
        if depth and r < 0.5:
            return b.or_(self.condition(depth - 1), self.condition(depth - 1))
        if depth and r < 0.6:
            return b.not_(self.condition(depth - 1))
        if depth and r < 0.68:
            branches = [(self.comparison(), self.condition(depth - 1)) for _ in range(self.rng.choice([1, 1, 2]))]
            return b.case(branches, self.rng.choice([None, self.condition(depth - 1), b.literal(False)]))
        if depth and r < 0.72:
            return b.coalesce(self.condition(depth - 1), self.condition(depth - 1))
        if depth and r < 0.84:
            return self.open_end(self.condition(depth - 1))
        return self.comparison()

    def open_end(self, c: Node) -> Node:
        """A condition that rows of one side pass: those without a value, or some others."""
        rng, x, y = self.rng, self.rng.choice(self.columns), self.rng.choice(self.columns)
        null = b.is_null(x)
        passes = rng.choice([null, null, b.and_(null, self.comparison()), b.compare("ge", x, rng.choice(self.columns))])
        shapes = [
            lambda: b.or_(passes, c),
            lambda: b.or_(c, passes, b.is_null(y)),
            lambda: b.case([(passes, b.literal(True))], c),
            lambda: b.case([(b.not_(passes), c)], b.literal(True)),
            lambda: b.coalesce(c, b.literal(True)),
            lambda: b.coalesce(c, b.compare("le", x, rng.choice(self.columns))),
            lambda: b.compare("le", b.coalesce(x, y), rng.choice(self.columns)),
            lambda: b.compare("gt", b.coalesce(x, self.value(1)), rng.choice(self.columns)),
        ]
        return rng.choice(shapes)()

    def tight(self) -> Node:
        """A two-sided float expression compared with its value at one row, or with a neighbour of it."""
        rng = self.rng
        x, y = rng.choice(self.lefts), rng.choice(self.rights)
        if rng.random() < 0.5:
            x, y = y, x
        k = self.number(rng.choice([3.0, -0.1, 1e-300, 1e300, 1.0, 1e16]))
        e = rng.choice([b.sub, b.sub, b.add, b.div, b.mul, lambda p, q: b.sub(b.mul(p, k), q)])(x, y)
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            e = rng.choice(
                [b.abs_, b.neg, lambda e: b.real("sqrt", e), lambda e: b.mul(e, e), lambda e: b.mul(e, k),
                 lambda e: b.div(e, k), lambda e: b.add(e, k), lambda e: b.sub(e, rng.choice(self.columns)),
                 lambda e: b.cast(e, FLOAT32),
                 lambda e: b.sub(rng.choice(self.columns), e), lambda e: b.real("pow", e, b.literal(2.0, FLOAT64)),
                 lambda e: b.add(b.mul(e, e), b.abs_(e)), lambda e: b.greatest(e, x), lambda e: b.least(e, y)]
            )(e)  # fmt: skip
        return e


def author_of(family: str, seed: int) -> tuple[Author, Node] | None:
    """An author with its condition; None for a draft that does not type."""
    author = Author(family, seed)
    try:
        return author, author.condition()
    except IvjoinError:
        return None


def report(broken: list[tuple[str, object, Row]], condition: Node, seed: int) -> str:
    what, part, row = broken[0]
    return f"seed {seed}: {condition}\n{row}\n{what} {part}"
