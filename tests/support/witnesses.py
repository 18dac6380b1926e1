"""Conditions made around a point: first the point, then an expression, then constants next to its value, then a box.

Most random conditions say nothing about a wrong bound. Here each is TRUE at the point, often just so, and the box often
touches the point, so that every trial can catch a bound that is off by one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.errors import IvjoinError
from ivjoin.expr import build as b
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import (
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TICKS_PER_SECOND,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Type,
    decimal,
    duration,
    timestamp,
    to_arrow,
)
from ivjoin.propagation import Dom

ERROR = "<error>"
ZONES = [
    "UTC", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "+05:30",
    "America/St_Johns",
]  # fmt: skip
INTS = [INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64]
DECIMALS = [decimal(5, 2), decimal(10, 0), decimal(38, 10), decimal(18, 6)]
NUMBERS = [*INTS, *[FLOAT64] * 4, FLOAT32, FLOAT32, *DECIMALS]
TIMES = [DATE, DATE, timestamp("us", "UTC"), timestamp("ns"), timestamp("s", "UTC"), timestamp("ms")]
SPANS = [duration("us"), duration("s"), duration("ns")]
FUNCTIONS = [
    "sqrt", "exp", "ln", "log10", "log2", "log1p", "expm1", "cbrt", "sin", "cos", "tan", "atan", "asin", "acos",
    "sinh", "cosh", "tanh",
]  # fmt: skip
FLOATS = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1.7976931348623157e308, 1e16, -1e16, 0.1, 1.0, -1.0, 0.5,
    2.5, 1e308, 3.0e-39, 2.0**63, 2.0**53, -0.5, 1e-200,
]  # fmt: skip
# Seconds about which some clock is set forward or back.
CHANGES = [1711846800, 1698541200, 1730001600, 1325239200, 1710054000, 1696089600]


def as_float(v: float, t: Type) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(v)) if t.bits == 32 else float(v)


class Witness:
    """A point, and conditions about it.

    Attributes
    ----------
    columns : dict of str to Node
    row : dict of str to physical value, None for NULL
    zone : str
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.zone = rng.choice(ZONES)
        self.family = rng.choice(["number", "number", "number", "time", "mixed"])
        base = rng.choice([INTS, [INT64], [FLOAT64], [FLOAT64, FLOAT32], NUMBERS, NUMBERS])
        if self.family == "time":
            base = TIMES + SPANS
        elif self.family == "mixed":
            base = [*base, BOOL, STRING, DATE, FLOAT64, INT32]
        self.columns: dict[str, Node] = {}
        self.row: dict[str, Any] = {}
        for i in range(rng.randint(1, 3)):
            t = rng.choice(base)
            self.columns[f"c{i}"] = b.column("left", f"c{i}", t)
            self.row[f"c{i}"] = None if rng.random() < 0.12 else self.edge(t)

    # Values

    def edge(self, t: Type) -> Any:
        """A value that tends to lie where something happens."""
        rng, kind = self.rng, t.kind
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "string":
            return rng.choice(["", "a", "b", "ab", "abc", "z", "Ab", "10", "é"])
        if kind == "float":
            r = rng.random()
            v = rng.choice(FLOATS) if r < 0.3 else rng.randint(-100, 100) / rng.choice([1, 2, 3, 7, 10])
            return as_float(v if r < 0.8 else rng.uniform(-1e6, 1e6), t)
        low, high = t.limits
        if kind == "int":
            r = rng.random()
            if r < 0.25:
                return rng.choice([low, low + 1, high, high - 1, 0, 1, 2])
            if r < 0.3 and high > 2**53:
                return rng.choice([2**53 + 1, 2**53 - 1, 2**53, 10**15])
            return max(low, min(high, rng.randint(-12, 20)))
        if kind == "decimal":
            small = rng.randint(-300, 300)
            return rng.choice([low, high, 0, 1, -1, small, small, rng.randint(low, high)])
        if kind == "date":
            recent = rng.randint(19000, 20500)
            return rng.choice([0, -1, 19723, 19782, 19757, 19788, recent, rng.randint(-800000, 2900000)])
        per = TICKS_PER_SECOND[t.unit]
        if kind == "duration":
            n = rng.choice([1, 60, 3600, 86_400])
            return rng.choice([0, 1, -1, n * per, -n * per, rng.randint(-10**6, 10**6) * per])
        s = rng.choice([
            0, -1, rng.randint(1_700_000_000, 1_712_000_000), rng.randint(-2_000_000_000, 4_000_000_000),
            rng.choice(CHANGES) + rng.randint(-90_000, 90_000), rng.choice(CHANGES) + rng.randint(-4_000, 4_000),
        ])  # fmt: skip
        return s * per + rng.choice([0, 0, 1, per - 1, rng.randint(0, per - 1)])

    def arrays(self) -> dict[str, pa.Array]:
        out = {}
        for n, c in self.columns.items():
            v, t = self.row[n], to_arrow(c.type)
            if v is not None and c.type.kind == "decimal":
                v = Decimal(v).scaleb(-c.type.scale, Context(prec=60))
            if v is not None and c.type.kind in ("date", "timestamp", "duration"):
                out[n] = pa.array([v], pa.int32() if c.type.kind == "date" else pa.int64()).cast(t)
            else:
                out[n] = pa.array([v], t)
        return out

    def value(self, node: Node) -> Any:
        """What the evaluator makes of a node at the point: a physical value, None for NULL, or ERROR."""
        arrays = self.arrays()
        (v,) = evaluate([node], lambda _, name: arrays[name], 1)
        if v.error is not None and v.error[0]:
            return ERROR
        if v.valid is not None and not v.valid[0]:
            return None
        x = v.values[0]
        return x.as_py() if hasattr(x, "as_py") else x.item() if hasattr(x, "item") else x

    # Expressions

    def leaf(self, kinds: tuple[str, ...], spare: Type) -> Node:
        fitting = [c for c in self.columns.values() if c.type.kind in kinds]
        if fitting and self.rng.random() < 0.75:
            return self.rng.choice(fitting)
        t = self.rng.choice(fitting).type if fitting else spare
        return b.literal(self.edge(t), t)

    def number(self, depth: int) -> Node:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.12:
            return self.leaf(("int", "float", "decimal"), rng.choice(NUMBERS))
        op = rng.choice([
            "add", "sub", "mul", "add", "sub", "mul", "div", "intdiv", "mod", "pmod", "neg", "abs_", "least",
            "greatest", "floor", "ceil", "cast", "cast", "coalesce", "case", "round", "function", "square", "again",
            "extract", "flag", "sign", "days", "unix", "pow",
        ])  # fmt: skip
        if op in ("add", "sub", "mul", "div", "intdiv", "mod", "pmod"):
            return getattr(b, op)(self.number(depth - 1), self.number(depth - 1))
        if op in ("neg", "abs_", "sign", "floor", "ceil"):
            return getattr(b, op)(self.number(depth - 1))
        if op in ("least", "greatest", "coalesce"):
            return getattr(b, op)(*[self.number(depth - 1) for _ in range(rng.randint(2, 3))])
        if op == "square":
            x = self.number(depth - 1)
            return b.mul(x, x)
        if op == "again":
            x = self.number(depth - 1)
            y = rng.choice([x, b.neg(x), x if x.type.kind == "float" else b.intdiv(x, b.literal(2))])
            return rng.choice([b.sub, b.add])(x, y)
        if op == "round":
            return rng.choice([b.round_, b.bround])(self.number(depth - 1), rng.choice([-1, 0, 0, 1, 2]))
        if op == "cast":
            return b.cast(self.number(depth - 1), rng.choice(NUMBERS), self.zone)
        if op == "case":
            whens = [(self.condition(depth - 1), self.number(depth - 1)) for _ in range(rng.randint(1, 2))]
            return b.case(whens, self.number(depth - 1) if rng.random() < 0.8 else None)
        if op == "function":
            return b.real(rng.choice(FUNCTIONS), self.number(depth - 1))
        if op == "pow":
            n = rng.choice([b.literal(rng.choice([2, 3, 2, 0, -1, 1, 4])), b.literal(0.5), self.number(depth - 1)])
            return b.real("pow", self.number(depth - 1), n)
        if op == "flag":
            return b.cast(self.condition(depth - 1), rng.choice([INT32, FLOAT64]))
        if op == "days":
            return b.days_apart(self.time(depth - 1), self.time(depth - 1), self.zone)
        t = self.time(depth - 1)
        if op == "unix":
            if t.type.kind == "date":
                return b.unix_date(t)
            return getattr(b, rng.choice(["unix_seconds", "unix_millis", "unix_micros"]))(t)
        fields = ["year", "month", "day", "dayofweek", "quarter", "dayofyear", "week"]
        return b.extract(rng.choice(fields + ([] if t.type.kind == "date" else ["hour", "minute"])), t, self.zone)

    def time(self, depth: int) -> Node:
        rng, zone = self.rng, self.zone
        if depth <= 0 or rng.random() < 0.2:
            return self.leaf(("date", "timestamp"), rng.choice(TIMES))
        op = rng.choice(["days", "span", "months", "trunc", "cast", "choice", "interval", "interval"])
        x = self.time(depth - 1)
        sum_of = rng.choice([b.add, b.sub])
        if op == "days" and x.type.kind == "date":
            return sum_of(x, b.literal(rng.randint(-40, 40)) if rng.random() < 0.6 else b.cast(self.number(0), INT32))
        if op == "span":
            return sum_of(x, self.span(depth - 1), zone)
        if op == "months":
            return sum_of(x, b.interval(rng.randint(-14, 14), rng.choice(["month", "year"])), zone)
        if op == "trunc":
            unit = rng.choice(["day", "hour", "week", "month", "year", "quarter", "minute", "second"])
            if x.type.kind == "date" and unit in ("week", "month", "year", "quarter"):
                return b.trunc_date(x, unit)
            return b.date_trunc(unit, x, zone)
        if op == "cast":
            return b.cast(x, rng.choice(TIMES), zone)
        if op == "choice":
            return rng.choice([b.least, b.coalesce])(x, self.time(depth - 1), zone=zone)
        return sum_of(x, b.interval(rng.randint(-50, 50), rng.choice(["day", "hour", "second", "minute"])), zone)

    def span(self, depth: int) -> Node:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            return self.leaf(("duration",), rng.choice(SPANS))
        op = rng.choice(["add", "sub", "neg", "abs_", "difference", "product"])
        if op in ("add", "sub"):
            return getattr(b, op)(self.span(depth - 1), self.span(depth - 1))
        if op in ("neg", "abs_"):
            return getattr(b, op)(self.span(depth - 1))
        if op == "difference":
            x, y = self.time(depth - 1), self.time(depth - 1)
            if x.type.kind == y.type.kind == "timestamp":
                return b.sub(x, y, self.zone)
        return b.mul(b.interval(rng.randint(1, 5), "hour"), b.cast(self.number(0), INT64))

    def anything(self, depth: int) -> Node:
        if self.family == "time":
            return self.rng.choice([self.time, self.time, self.span, self.number])(depth)
        if self.family == "mixed" and self.rng.random() < 0.5:
            return self.rng.choice([self.time, self.condition, lambda _: self.leaf(("string",), STRING)])(depth)
        return self.number(depth)

    # Conditions

    def condition(self, depth: int) -> Node:
        rng, zone, r = self.rng, self.zone, self.rng.random()
        below = max(depth - 1, 0)
        if depth > 0:
            if r < 0.12:
                return b.and_(self.condition(below), self.condition(below))
            if r < 0.26:
                return b.or_(*[self.condition(below) for _ in range(rng.randint(2, 3))])
            if r < 0.36:
                return b.not_(self.condition(below))
            if r < 0.41:
                return b.is_null(self.anything(below))
            if r < 0.45:
                return b.case([(self.condition(below), self.condition(below))], self.condition(below))
            if r < 0.48:
                return b.coalesce(self.condition(below), self.condition(below))
        x, r = self.anything(below), rng.random()
        if x.type.kind == "float" and r < 0.05:
            return b.is_nan(x)
        if r < 0.15:
            return b.in_(x, [self.near(x) for _ in range(rng.randint(2, 4))], zone)
        if r < 0.25:
            return b.between(x, self.near(x), self.near(x), zone)
        if x.type.kind == "string" and rng.random() < 0.3:
            return b.like(x, rng.choice(["a%", "%", "ab", "a_"]))
        y = self.near(x) if rng.random() < 0.7 else self.anything(below)
        if rng.random() < 0.3:
            x, y = y, x
        return b.compare(rng.choice(["lt", "le", "gt", "ge", "eq", "ne", "eq_null_safe"]), x, y, zone)

    def near(self, x: Node) -> Node:
        """A literal at or next to the value that x has at the point."""
        v, t = self.value(x), x.type
        if v is None or v is ERROR or t.kind in ("bool", "string"):
            return b.literal(self.edge(t), t)
        if t.kind == "float":
            if math.isfinite(v):
                up, down = math.nextafter(v, math.inf), math.nextafter(v, -math.inf)
                v = self.rng.choice([v, v, up, down, round(v), v + 1, v / 2])
            return b.literal(as_float(v, t), t)
        low, high = t.limits
        return b.literal(max(low, min(high, v + self.rng.choice([0, 0, 0, 1, -1, 3, -5]))), t)

    def true_condition(self) -> Node | None:
        """A condition that is TRUE at the point; None where none came about."""
        try:
            p = self.condition(self.rng.randint(1, 4))
            v = self.value(p)
        except IvjoinError:
            return None
        if v is ERROR or p.op == "literal":
            return None
        if v is None:
            return b.is_null(p) if self.rng.random() < 0.5 else b.coalesce(p, b.literal(True))
        return p if v else b.not_(p)

    def box(self) -> dict[Node, Dom]:
        """Domains that hold the point and often touch it; of some columns nothing is known."""
        known, rng = {}, self.rng
        for n, c in self.columns.items():
            v, t = self.row[n], c.type
            if rng.random() < 0.12:
                continue
            null, nan = rng.random() < 0.2, rng.random() < 0.3
            if v is None:
                known[c] = rng.choice([Dom.top(t), Dom.empty(t, null=True)])
            elif t.kind == "bool":
                known[c] = rng.choice([Dom.of(t, v, v, null=False), Dom.top(t)])
            elif t.kind == "string":
                known[c] = Dom.of(t, rng.choice([v, None, ""]), rng.choice([v, None, v + "z"]), null=null)
            elif v != v:
                known[c] = rng.choice([Dom.empty(t, nan=True), Dom.of(t, 0.0, 5.0, null=False), Dom.top(t)])
            elif t.kind == "float":
                low = rng.choice([v, v, None, min(v, as_float(v - 1, t))])
                high = rng.choice([v, v, None, max(v, as_float(v + 1, t)), max(v, as_float(v + 1e6, t))])
                known[c] = Dom.of(t, low, high, null=null, nan=nan)
            else:
                size = rng.choice([1, 3, 20, 1000, 10**6, 10**10, 10**15])
                low = rng.choice([v, v, None, v - rng.randint(0, size)])
                high = rng.choice([v, v, None, v + rng.randint(0, size)])
                known[c] = Dom.of(t, low, high, null=null)
        return known


def described(w: Witness, condition: Node, known: Mapping[Node, Dom]) -> str:
    """What a failing trial has to say."""
    types = {n: str(c.type) for n, c in w.columns.items()}
    box = {str(n): str(d) for n, d in known.items()}
    return f"{condition}\n at {w.row}\n types {types}\n zone {w.zone}\n box {box}"
