"""Random joins of two to eight inputs, against DuckDB: ends of types, tables, late rows and watermarks."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from typing import Any, Protocol
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
from multi.turns import ids, in_turns

from ivjoin import MultiJoin, Order, multi_join
from ivjoin.stream import run_of_two
from ivjoin.stream.sort import sorting
from ivjoin.stream.tables import table_join, table_steps

SCHEMA = pa.schema(
    {
        "id": pa.int64(), "k": pa.int32(), "s": pa.string(), "g": pa.int64(), "u": pa.uint64(), "f": pa.float64(),
        "h": pa.float32(), "d": pa.date32(), "m": pa.decimal128(9, 2), "b": pa.bool_(), "ts": pa.int64(),
    }
)  # fmt: skip
_WHOLE = [-(2**63), -(2**63) + 1, -(2**53) - 1, -(2**31) - 1, -1, 0, 1, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1]
_UNSIGNED = [0, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
_REAL = [-np.inf, -1e300, -1.0, -0.0, 0.0, 5e-324, 1.0, 1e300, np.inf, np.nan]
_TEXT = ["", "a", "A", "ab", "ü", "\0", "a" * 30, "\U0001f600"]
_DAY = dt.date(2024, 2, 27)

KEYS = ["{a}.k = {b}.k", "{a}.s = {b}.s", "{a}.g = {b}.g", "{a}.u = {b}.u", "{a}.f = {b}.f", "{a}.h = {b}.h",
        "{a}.d = {b}.d", "{a}.m = {b}.m", "{a}.b = {b}.b AND {a}.k = {b}.k", "{a}.k IS NOT DISTINCT FROM {b}.k",
        "{a}.s = {b}.s AND {a}.m = {b}.m", "{a}.k = {b}.g", "{a}.ts = {b}.g", "lower({a}.s) = lower({b}.s)",
        "{a}.k + 1 = {b}.k"]  # fmt: skip
BANDS = ["{b}.ts BETWEEN {a}.ts - {v} AND {a}.ts + {w}", "{a}.ts <= {b}.ts AND {b}.ts - {a}.ts < {w}",
         "{a}.ts < {b}.ts", "abs({a}.ts - {b}.ts) <= {w}", "{a}.g <= {b}.g AND {b}.g <= {a}.g", "{a}.g < {b}.g",
         "{a}.f <= {b}.f AND {b}.f <= {a}.f", "{a}.f > {b}.f", "{a}.h >= {b}.h", "{a}.u <= {b}.u",
         "{b}.d BETWEEN {a}.d - INTERVAL {v} DAY AND {a}.d", "{a}.m BETWEEN {b}.m - 1.5 AND {b}.m + 0.25",
         "{a}.s <= {b}.s", "({a}.ts BETWEEN {b}.ts AND {b}.ts + {w} OR {a}.ts BETWEEN {b}.ts - 20 AND {b}.ts - 17)",
         "{a}.ts + {b}.k BETWEEN {b}.ts AND {b}.ts + {w}", "2 * {a}.ts <= {b}.ts + {w} AND {b}.ts <= 2 * {a}.ts",
         "{a}.ts DIV 4 = {b}.ts DIV 4",
         "CASE WHEN {a}.b THEN {b}.ts >= {a}.ts ELSE {b}.ts <= {a}.ts + {w} END"]  # fmt: skip
OF_THREE = ["{a}.ts + {b}.ts <= {c}.ts + 9", "{a}.ts BETWEEN {b}.ts AND {c}.ts", "({a}.k = {b}.k OR {a}.k = {c}.k)"]
ALONE = ["{a}.k > 0", "{a}.s LIKE 'a%'", "{a}.g IS NULL", "{a}.f <> 1.0", "{a}.k IN (0, 1)", "{a}.b", "NOT {a}.b",
         "{a}.s IS NOT NULL", "{a}.ts BETWEEN -5 AND 12"]  # fmt: skip


def pools(rng: np.random.Generator) -> list[list[Any]]:
    """A few values for each column between id and ts, shared by all inputs of a case."""
    every: list[list[Any]] = [
        [-1, 0, 1, 2], _TEXT, _WHOLE, _UNSIGNED, _REAL, _REAL, [_DAY + dt.timedelta(i) for i in range(5)],
        [Decimal(v) / 4 for v in range(-6, 6)], [True, False],
    ]  # fmt: skip
    return [[values[i] for i in rng.permutation(len(values))[: int(rng.integers(1, 4))]] for values in every]


def rows(rng: np.random.Generator, n: int, ordered: str | None, values: list[list[Any]]) -> pa.RecordBatch:
    ts = rng.integers(-7, 8, n)
    if ordered is not None:
        ts = np.sort(ts)
    if ordered == "falling":
        ts = ts[::-1]
    holes = float(rng.choice([0.0, 0.1, 0.3]))
    columns = [
        list(range(n)),
        *([None if rng.random() < holes else few[rng.integers(len(few))] for _ in range(n)] for few in values),
        [int(t) if ordered or rng.random() >= holes / 2 else None for t in ts],
    ]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


class Case:
    """A question, its rows, and in which order they are promised to come."""

    schema, time, late = SCHEMA, "ts", True

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = np.random.default_rng(seed)
        n = int(rng.choice([2, 3, 3, 3, 4, 4, 5, 6, 7, 8]))
        self.aliases = [str(a) for a in rng.permutation(["a", "b", "c", "d", "e", "f", "a_b", "x1"])[:n]]
        most = {2: 60, 3: 40, 4: 24, 5: 16, 6: 10, 7: 8, 8: 7}[n]
        values = pools(rng)
        parts: list[str] = []
        for i, b in enumerate(self.aliases[1:]):
            a = self.aliases[int(rng.integers(0, i + 1))]
            if rng.random() < 0.07:  # a cross product
                continue
            parts += self._edge(rng, a, b)
        if n > 2 and rng.random() < 0.4:  # a cycle
            a, b = rng.permutation(self.aliases)[:2]
            parts += self._edge(rng, a, b)
        if rng.random() < 0.2:
            parts.append(str(rng.choice(ALONE)).format(a=rng.choice(self.aliases)))
        if n > 2 and rng.random() < 0.2:
            a, b, c = rng.permutation(self.aliases)[:3]
            parts.append(str(rng.choice(OF_THREE)).format(a=a, b=b, c=c))
        if n > 2 and rng.random() < 0.1:  # one equality for all
            parts += [f"{a}.k = {b}.k" for a, b in pairwise(self.aliases)]
        self.condition = " AND ".join(parts) or None
        self.orders: dict[str, Any] = {}
        self.batches: dict[str, pa.RecordBatch] = {}
        self.slack: dict[str, int] = {}
        for alias in self.aliases:
            kind = str(rng.choice(["rising", "rising", "falling", "none"]))
            size = 0 if rng.random() < 0.05 else int(rng.integers(1, most + 1))
            self.batches[alias] = rows(rng, size, None if kind == "none" else kind, values)
            if kind != "none":
                self.slack[alias] = int(rng.choice([0, 0, 4]))
                self.orders[alias] = Order("ts", descending=kind == "falling", slack=self.slack[alias])
        if rng.random() < 0.1:  # one table for all
            a, *others = self.aliases
            for alias in others:
                self.batches[alias] = self.batches[a].slice(0, most // 2)
                for mine in (self.orders, self.slack):
                    mine.pop(alias, None)
                    if a in mine:
                        mine[alias] = mine[a]
        groups: list[Any] = ["auto", "auto", "none", "all"]
        if n > 2:
            groups.append([tuple(str(x) for x in rng.permutation(self.aliases)[:2])])
        self.views = groups[int(rng.integers(len(groups)))]
        self.rng = rng

    def _edge(self, rng: np.random.Generator, a: str, b: str) -> list[str]:
        what, v, w = rng.random(), int(rng.integers(0, 6)), int(rng.integers(0, 9))
        out = []
        if what < 0.6:
            out.append(str(rng.choice(KEYS)).format(a=a, b=b))
        if what > 0.45:
            out.append(str(rng.choice(BANDS)).format(a=a, b=b, v=v, w=w))
        return out

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {alias: pa.Table.from_batches([batch]) for alias, batch in self.batches.items()}

    def expected(self, batches: dict[str, pa.RecordBatch] | None = None) -> Counter[tuple[int, ...]]:
        con = duckdb.connect()
        con.execute("SET threads = 1")
        for alias, batch in (batches or self.batches).items():
            con.register(f"in_{alias}", pa.table(batch))
        ids = ", ".join(f"{a}.id" for a in self.aliases)
        inputs = ", ".join(f"in_{a} AS {a}" for a in self.aliases)
        where = (self.condition or "true").replace(" DIV ", " // ")
        return Counter(con.execute(f"SELECT {ids} FROM {inputs} WHERE {where}").fetchall())


class Joined(Protocol):
    """What the checks read of a case; ``late``: whether rows of the column ``time`` may come too late."""

    seed: int
    rng: np.random.Generator
    schema: pa.Schema
    time: str
    late: bool
    aliases: list[str]
    batches: dict[str, pa.RecordBatch]
    orders: dict[str, Any]
    slack: dict[str, int]
    condition: Any
    views: Any

    def expected(self, batches: dict[str, pa.RecordBatch] | None = None) -> Counter[tuple[int, ...]]: ...


def _difference(case: Joined, found: Counter[Any], want: Counter[Any]) -> None:
    more, fewer = found - want, want - found
    assert found == want, (
        f"seed {case.seed}: {sum(more.values())} too many {list(more)[:2]}, {sum(fewer.values())} too few "
        f"{list(fewer)[:2]}, views {case.views}, {case.condition}"
    )


def check_tables(c: Joined) -> int:
    """``multi_join`` of tables and readers, with orders and bounds or without."""
    rng = c.rng
    given: dict[str, Any] = {}
    orders = {}
    bounds: dict[str, dict[Any, tuple[Any, Any]]] = {}
    for alias, batch in c.batches.items():
        size = int(rng.choice([1, 3, 100]))
        pieces = [batch.slice(i, size) for i in range(0, batch.num_rows, size)]
        table = pa.Table.from_batches(pieces, schema=c.schema)
        given[alias] = table if rng.random() < 0.6 else pa.RecordBatchReader.from_batches(c.schema, pieces)
        if alias in c.orders and rng.random() < 0.5:
            orders[alias] = c.orders[alias]
        known = [v for v in batch.column(c.time).to_pylist() if v is not None]
        if known and all(v == v for v in known) and rng.random() < 0.2:
            bounds[alias] = {c.time: (min(known), max(known))}
    stream = multi_join(
        given, c.condition, orders=orders, bounds=bounds, views=c.views, allow_cross=True,
        batch_size=int(rng.choice([1, 7, 65536])), sort="auto" if rng.integers(2) else "never",
    )
    found = ids(c.aliases, stream)
    want = c.expected()
    _difference(c, found, want)
    assert stream.metrics.state_rows == 0, f"seed {c.seed}: {stream.metrics}"
    return sum(want.values())


def check_steps(c: Joined) -> int:
    """``multi_join`` of tables, step by step: the rows and their order do not depend on the threads."""
    batch_size = int(c.rng.choice([1, 7, 65536]))
    tables = {a: pa.table(b) for a, b in c.batches.items()}
    views = "all" if c.views == "none" else c.views
    orders = {a: order for a, order in c.orders.items() if c.rng.integers(2)}
    with (
        patch.multiple(table_steps, _LEAST_ROWS=0, _MOST_TIMES=1e9), patch.object(run_of_two, "_LEAST_IN_SLICES", 0),
        patch.object(sorting, "SMALL", -1), patch.multiple(table_join, _OWN_ROWS=3, _MOST_COPIED=1 << 20),
    ):
        one, more = (
            multi_join(
                tables, c.condition, orders=orders, views=views, allow_cross=True, batch_size=batch_size,
                threads=threads,
            )
            for threads in (1, int(c.rng.integers(2, 5)))
        )
        there = "each step joins two of them" in one.explain()
        rows = one.read_all()
        of_more = more.read_all()
        for name in (f"{a}_id" for a in c.aliases):
            assert rows[name].equals(of_more[name]), f"seed {c.seed}: the order depends on the threads"
    want = c.expected()
    _difference(c, ids(c.aliases, rows.to_batches()), want)
    assert one.metrics.state_rows == 0, f"seed {c.seed}: {one.metrics}"
    assert one.metrics.rows_out == sum(want.values())
    assert one.metrics.rows_in == {  # type: ignore[attr-defined]
        a: b.num_rows for a, b in c.batches.items()
    }
    return int(there)


def check_pushed(c: Joined) -> int:
    """``MultiJoin`` by hand: late rows, watermarks, snapshots, inputs that end in any order."""
    rng = c.rng
    on_late: Any = str(rng.choice(["raise", "drop", "join"])) if c.late else "raise"
    if on_late != "raise":
        for alias, batch in c.batches.items():
            if alias in c.orders and batch.num_rows and rng.random() < 0.7:
                ts = np.array(batch.column("ts").to_pylist(), dtype=np.int64)
                at = rng.random(len(ts)) < 0.2
                ts[at] = rng.integers(-20, 20, int(at.sum()))
                c.batches[alias] = batch.set_column(10, SCHEMA.field("ts"), pa.array(ts))
    kept = {a: _in_time(c, a, b) for a, b in c.batches.items()} if c.late else c.batches
    op = MultiJoin(
        dict.fromkeys(c.aliases, c.schema), c.condition, orders=c.orders, views=c.views, on_late=on_late,
        allow_cross=True, batch_size=int(rng.choice([1, 3, 65536])),
    )
    found: Counter[tuple[int, ...]] = Counter()
    restores = 1.0 if rng.random() < 0.4 else 0.05
    advances = 0.3 if on_late == "raise" else 0.0
    turns = in_turns(rng, op, c.batches, c.orders, c.time, advances=advances, restores=restores)
    bounds: dict[str, Any] | None = None
    for op, out in turns:
        found += ids(c.aliases, out)
        if bounds is not None:
            _within(bounds, out, f"seed {c.seed}")
        bounds = op.output_bounds() if on_late == "raise" and rng.random() < 0.1 else bounds
        m = op.metrics
    want = c.expected(kept)
    if on_late == "join":
        every = c.expected()
        assert not want - found, f"seed {c.seed}: too few, {c.condition}"
        assert not found - every, f"seed {c.seed}: too many, {c.condition}"
    else:
        _difference(c, found, want)
    assert m.state_rows == 0, f"seed {c.seed}: {m}"
    late = sum(b.num_rows - kept[a].num_rows for a, b in c.batches.items())
    assert m.late_rows == late, f"seed {c.seed}: {m.late_rows} late, {late} are"
    return sum(want.values())


def _within(bounds: dict[str, Any], out: list[pa.RecordBatch], case: str) -> None:
    for row in (row for batch in out for row in batch.to_pylist()):
        assert bounds, f"{case}: rows after none was to come"
        for name, (low, high) in bounds.items():
            v = row[name]
            if v is not None:
                assert low is None or v >= low or v != v, f"{case}: {name} {v} below {low}"
                assert high is None or v <= high, f"{case}: {name} {v} above {high}"


def _in_time(c: Joined, alias: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that keep an input's order."""
    if alias not in c.orders:
        return batch
    sign = -1 if c.orders[alias].descending else 1
    ts = sign * np.array(batch.column("ts").to_pylist(), dtype=np.int64)
    seen = np.maximum.accumulate(ts) if len(ts) else ts
    return batch.filter(pa.array(ts >= seen - c.slack[alias]))
