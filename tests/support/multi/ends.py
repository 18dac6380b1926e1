"""Random joins of two to five inputs in order of a column that lies at the ends of its type, against DuckDB.

A sum that leaves its type is null in DuckDB, since rows of which it is computed are in no result; a case where
``multi_join`` says so, as it may, counts as raised.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from multi.wild import check_pushed, check_tables

from ivjoin import IvjoinError, Order

_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Axis:
    """A type, a few values far apart, how a value is moved within the type, and how a step is written."""

    type: pa.DataType
    bases: list[Any]
    moved: Callable[[Any, int], Any]
    step: str  # of {v}
    apart: str = ""  # how far two values are apart, of {v}; as a step, by default


def _whole(bits: int, signed: bool = True) -> Axis:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    t = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    inner = [v for v in (-1, 0, 2**31, 2**53, 2**53 + 1, -(2**53), 2**62) if low <= v <= high]
    return Axis(t, [low, high, *inner], lambda v, d: min(max(v + d, low), high), "{v}")


def _real(t: pa.DataType) -> Axis:
    bases = [-np.inf, -(2.0**53), -1.0, -0.0, 0.0, 5e-324, 0.1, 2.0**24, 2.0**53, 1e300, np.inf, np.nan]
    return Axis(t, bases, lambda v, d: v + d / 2, "{v}e0")


AXES = {
    "int8": _whole(8), "int32": _whole(32), "int64": _whole(64), "uint8": _whole(8, False),
    "uint64": _whole(64, False), "float64": _real(pa.float64()), "float32": _real(pa.float32()),
    "date": Axis(pa.date32(), [dt.date(2024, 2, 28), dt.date(1969, 12, 31), dt.date(9999, 12, 20)],
                 lambda v, d: v + dt.timedelta(days=d), "INTERVAL {v} DAY", "{v}"),
    "timestamp": Axis(pa.timestamp("us"), [_EPOCH, dt.datetime(2262, 4, 11, 23, 47, 10), dt.datetime(1, 1, 2)],
                      lambda v, d: v + dt.timedelta(seconds=d), "INTERVAL {v} SECOND"),
    "decimal": Axis(pa.decimal128(18, 2), [Decimal("-9999999999999900.00"), Decimal(0), Decimal("9999999999999900.25")],
                    lambda v, d: v + Decimal(d) / 2, "{v}.5"),
}  # fmt: skip

BANDS = [
    "{b}.t BETWEEN {a}.t - {v} AND {a}.t + {w}", "{a}.t <= {b}.t AND {b}.t <= {a}.t + {w}",
    "{a}.t - {v} < {b}.t AND {b}.t < {a}.t + {w}", "{a}.t = {b}.t", "{a}.t < {b}.t", "{b}.t <= {a}.t",
    "{a}.t + {v} >= {b}.t AND {b}.t + {w} >= {a}.t",
    "({a}.t BETWEEN {b}.t AND {b}.t + {w} OR {b}.t BETWEEN {a}.t + {w} AND {a}.t + {v})",
    "({a}.t < {b}.t OR {a}.k = {b}.k)",
    "CASE WHEN {a}.f THEN {b}.t BETWEEN {a}.t AND {a}.t + {w} ELSE {b}.t BETWEEN {a}.t - {v} AND {a}.t END",
    "least({a}.t, {b}.t) + {w} >= greatest({a}.t, {b}.t)", "greatest({a}.t, {b}.t) - least({a}.t, {b}.t) <= {x}",
    "{b}.t BETWEEN CASE WHEN {a}.f THEN {a}.t ELSE {a}.t - {v} END AND {a}.t + {w}",
]
OF_THREE = [
    "{b}.t BETWEEN {a}.t AND {c}.t", "({a}.t <= {b}.t OR {c}.t <= {b}.t)",
    "CASE WHEN {c}.f THEN {a}.t <= {b}.t ELSE {b}.t <= {a}.t END", "coalesce({a}.t, {b}.t) <= {c}.t",
    "greatest({a}.t, {b}.t, {c}.t) - least({a}.t, {b}.t, {c}.t) < {x}",
    "greatest({a}.t, {b}.t, {c}.t) <= least({a}.t, {b}.t, {c}.t) + {w}",
    "greatest({a}.t, {b}.t) - least({b}.t, {c}.t) <= {x}", "{x} > greatest({a}.t, {c}.t) - least({b}.t, {a}.t)",
]
KEYS = ["{a}.k = {b}.k", "{a}.s = {b}.s", "{a}.k <=> {b}.k", "{a}.s = {b}.s AND {a}.k = {b}.k", "upper({a}.s) = {b}.s"]


@dataclass
class Case:
    """A question and its rows, each input's in order."""

    seed: int
    rng: np.random.Generator = field(init=False)
    time, late = "t", False

    def __post_init__(self) -> None:
        self.rng = rng = np.random.default_rng(self.seed)
        self.kind = list(AXES)[self.seed % len(AXES)]
        self.axis = AXES[self.kind]
        n = int(rng.choice([2, 3, 3, 3, 4, 5]))
        self.aliases = [str(a) for a in rng.permutation(list("abcde"))[:n]]
        links = [(self.aliases[int(rng.integers(0, i))], self.aliases[i]) for i in range(1, n)]
        if n > 2 and rng.random() < 0.3:
            x, y = rng.permutation(self.aliases)[:2]
            links.append((str(x), str(y)))
        parts = [p for a, b in links for p in self._edge(a, b)]
        if n > 2 and rng.random() < 0.5:
            a, b, c = rng.permutation(self.aliases)[:3]
            parts.append(self._filled(str(rng.choice(OF_THREE)), a=a, b=b, c=c))
        if rng.random() < 0.15:
            parts.append(f"{rng.choice(self.aliases)}.k > 0")
        self.condition = " AND ".join(parts)
        self.firm = rng.random() < 0.5  # its column t has no null
        types = {"id": pa.int64(), "k": pa.int32(), "s": pa.string(), "f": pa.bool_(), "t": self.axis.type}
        declared = self.firm and rng.random() < 0.7
        self.schema = pa.schema([pa.field(n, t, n != "t" or not declared) for n, t in types.items()])
        few = [self.axis.bases[i] for i in rng.permutation(len(self.axis.bases))[: int(rng.integers(1, 4))]]
        self.orders: dict[str, Order] = {}
        self.batches: dict[str, pa.RecordBatch] = {}
        for alias in self.aliases:
            way = str(rng.choice(["rising", "rising", "rising", "falling", "none"]))
            self.batches[alias] = self._rows(few, {2: 50, 3: 30, 4: 20, 5: 13}[n], way)
            if way != "none":
                self.orders[alias] = Order("t", descending=way == "falling")
        groups: list[Any] = ["auto", "auto", "none", "all"]
        if n > 2:
            groups.append([tuple(str(x) for x in rng.permutation(self.aliases)[:2])])
        self.views = groups[int(rng.integers(len(groups)))]
        self.slack = dict.fromkeys(self.orders, 0)

    def _edge(self, a: str, b: str) -> list[str]:
        rng, what = self.rng, self.rng.random()
        out = [str(rng.choice(KEYS)).format(a=a, b=b)] if what < 0.5 else []
        if what > 0.25:
            out.append(self._filled(str(rng.choice(BANDS)), a=a, b=b))
        return out

    def _filled(self, text: str, **aliases: str) -> str:
        v, w, x = (int(n) for n in self.rng.integers(0, 6, 3))
        step, apart = self.axis.step, self.axis.apart or self.axis.step
        return text.format(v=step.format(v=v), w=step.format(v=w), x=apart.format(v=x), **aliases)

    def _rows(self, few: list[Any], most: int, way: str) -> pa.RecordBatch:
        rng = self.rng
        n = 0 if rng.random() < 0.04 else int(rng.integers(1, most + 1))
        drawn = [self.axis.moved(few[rng.integers(len(few))], int(rng.integers(-4, 5))) for _ in range(n)]
        if self.kind == "float32":  # also beyond it
            drawn = [float(v) for v in np.clip(drawn, -3e38, 3e38).astype(np.float32)]
        if way != "none":
            drawn.sort(key=lambda v: (v != v, v if v == v else 0), reverse=way == "falling")
        holes = float(rng.choice([0.0, 0.1, 0.25]))

        def holed(values: list[Any]) -> list[Any]:
            return [None if rng.random() < holes else v for v in values]

        columns = [
            list(range(n)), holed([int(x) for x in rng.integers(0, 3, n)]),
            holed([["A", "", "ü"][i] for i in rng.integers(0, 3, n)]), holed([bool(x) for x in rng.integers(0, 2, n)]),
            drawn if self.firm else holed(drawn),
        ]  # fmt: skip
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.record_batch(arrays, schema=self.schema)

    def expected(self, batches: dict[str, pa.RecordBatch] | None = None) -> Counter[tuple[int, ...]]:
        con = duckdb.connect()
        con.execute("SET threads = 1")
        exact = "int" in self.kind
        for alias, batch in (batches or self.batches).items():
            con.register(f"in_{alias}", pa.table(batch))
        own = "SELECT * REPLACE (t::HUGEINT AS t)" if exact else "SELECT *"
        inputs = ", ".join(f"({own} FROM in_{a}) AS {a}" for a in self.aliases)
        ids = ", ".join(f"{a}.id" for a in self.aliases)
        where = self.condition.replace("<=>", "IS NOT DISTINCT FROM")
        if exact and self.kind != "uint64":  # which meets an int32 in a decimal
            whole = "BIGINT" if self.kind == "int64" else "INTEGER"
            where = re.sub(r"((?:least\([^)]*\)|\w\.t) [+-] \d+)", rf"TRY(CAST(\1 AS {whole}))", where)
        return Counter(con.execute(f"SELECT {ids} FROM {inputs} WHERE {where}").fetchall())


def check(seed: int) -> int | None:
    """Run a case by hand and by ``multi_join``; how many rows came out, None if a sum left its type.

    Raises
    ------
    AssertionError
        If they are not DuckDB's.
    """
    rows = None
    for play in (check_pushed, check_tables):
        c = Case(seed)
        try:
            rows = play(c)
        except IvjoinError as e:
            if "int" in c.kind and ("overflow" in str(e) or "range" in str(e)):
                return None
            raise
    return rows
