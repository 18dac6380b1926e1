"""Random joins of two to five inputs, pushed in random pieces and order, against DuckDB."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from multi.turns import ids, in_turns

from ivjoin import MultiJoin, Order

SHAPES = ("chain", "star", "cycle", "self", "keys", "through", "all")
_COLUMNS = [
    ("id", pa.int64()), ("k", pa.int64()), ("j", pa.int32()), ("s", pa.string()), ("ts", pa.int64()),
    ("x", pa.float64()), ("at", pa.timestamp("us")),
]  # fmt: skip
SCHEMA = pa.schema(_COLUMNS)


@dataclass
class Case:
    """A question, its rows and in which pieces they come."""

    tables: dict[str, pa.Table]
    condition: str
    orders: dict[str, Any]
    views: Any

    def expected(self) -> Counter[tuple[int, ...]]:
        con = duckdb.connect()
        con.execute("SET threads = 1")
        for alias, table in self.tables.items():
            con.register(f"in_{alias}", table)
        ids = ", ".join(f"{a}.id" for a in self.tables)
        inputs = ", ".join(f"in_{a} AS {a}" for a in self.tables)
        return Counter(con.execute(f"SELECT {ids} FROM {inputs} WHERE {self.condition}").fetchall())


def table(rng: np.random.Generator, rows: int, ordered: bool, slack: int) -> pa.Table:
    ts = rng.integers(-20, 20, rows)
    if ordered:
        ts = np.sort(ts) - rng.integers(0, slack + 1, rows)
    x = ts.astype(float) / 2 + rng.choice([0.0, 0.25, np.nan], rows, p=[0.5, 0.4, 0.1])
    x[rng.random(rows) < 0.05] = -0.0

    def holed(values: np.ndarray, share: float, t: pa.DataType) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < share).cast(t)

    return pa.table(
        [
            pa.array(np.arange(rows)), holed(rng.integers(0, 3, rows), 0.05, pa.int64()),
            holed(rng.integers(0, 3, rows), 0.05, pa.int32()),
            holed(rng.choice(np.array(["a", "", "ü"]), rows), 0.08, pa.string()),
            holed(ts, 0 if ordered else 0.08, pa.int64()), holed(x, 0.05, pa.float64()),
            holed(ts * 1_000_000, 0.03, pa.timestamp("us")),
        ],
        schema=SCHEMA,
    )  # fmt: skip


def edge(rng: np.random.Generator, a: str, b: str, band: bool) -> str:
    lo, hi = sorted(int(v) for v in rng.integers(-14, 14, 2))
    w = int(rng.integers(0, 9))
    bands = [
        f"{b}.ts BETWEEN {a}.ts + {lo} AND {a}.ts + {hi}".replace("+ -", "- "),
        f"abs({a}.ts - {b}.ts) <= {w}",
        f"{a}.x - {w / 2} <= {b}.x AND {b}.x <= {a}.x + {w / 4}",
        f"{a}.at >= {b}.at - INTERVAL {w} SECOND AND {a}.at <= {b}.at",
        f"{a}.ts = {b}.ts",
        f"{a}.ts + {b}.ts BETWEEN {lo} AND {hi}",
        f"{a}.ts <= {b}.ts AND {b}.ts <= {a}.ts + {a}.j",
    ]
    keys = [f"{a}.k = {b}.k", f"{a}.s = {b}.s", f"{a}.k = {b}.j", f"{a}.k = {b}.k AND {a}.s = {b}.s"]
    rests = [f"{a}.j <> {b}.j", f"({a}.ts < {b}.ts OR {a}.k = {b}.k)"]
    parts = [str(rng.choice(keys))] if not band or rng.random() < 0.7 else []
    if band:
        parts.append(str(rng.choice(bands)))
    if rng.random() < 0.2:
        parts.append(str(rng.choice(rests)))
    return " AND ".join(parts)


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    n = int(rng.integers(2, 6)) if shape in ("chain", "star", "self", "through") else int(rng.integers(3, 5))
    aliases = list("abcde")[:n]
    if shape == "star":
        links = [(aliases[0], b) for b in aliases[1:]]
    elif shape == "cycle":
        links = [*pairwise(aliases), (aliases[-1], aliases[0])]
    elif shape == "all":
        links = [(a, b) for i, a in enumerate(aliases) for b in aliases[i + 1 :]]
    else:
        links = list(pairwise(aliases))
    parts = [edge(rng, a, b, shape != "keys" or i == 0) for i, (a, b) in enumerate(links)]
    if shape == "through":  # one equality for all; the last is banded with the first alone
        parts = [f"{a}.k = {b}.k" for a, b in links] + [edge(rng, aliases[0], aliases[-1], True)]
    if rng.random() < 0.3:
        parts.append(f"{rng.choice(aliases)}.j > 0")
    if n > 2 and rng.random() < 0.2:
        a, b, c = rng.permutation(aliases)[:3]
        parts.append(f"{a}.ts + {b}.ts <= {c}.ts + 30")
    rows = {2: 60, 3: 50, 4: 36, 5: 24}[n]
    tables, orders = {}, {}
    for alias in aliases:
        ordered, slack = rng.random() < 0.8, int(rng.choice([0, 0, 3]))
        tables[alias] = table(rng, int(rng.integers(rows // 4 if seed % 5 else 0, rows)), ordered, slack)
        if ordered:
            orders[alias] = "ts" if not slack else Order("ts", slack=slack)
    if shape == "self" and len(tables["a"]):
        for alias in aliases:
            tables[alias] = tables["a"]
        orders = dict.fromkeys(aliases, orders["a"]) if "a" in orders else {}
    views: Any = "auto"
    if n > 2 and rng.random() < 0.4:
        views = [tuple(rng.permutation(aliases)[:2])] if rng.random() < 0.7 else str(rng.choice(["all", "none"]))
    return Case(tables, " AND ".join(parts), orders, views)


def _whole(t: pa.Table) -> pa.RecordBatch:
    return (t.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], t.schema)])[0]


def check(seed: int) -> int:
    """Run a case; how many rows came out.

    Raises
    ------
    AssertionError
        If they are not DuckDB's, or one lies outside of what ``output_bounds`` said before.
    """
    c = case(seed)
    rng = np.random.default_rng(seed + 10**6)
    op = MultiJoin(
        dict.fromkeys(c.tables, SCHEMA), c.condition, orders=c.orders, views=c.views,
        batch_size=int(rng.choice([1, 3, 65536])), allow_cross=False,
    )
    batches = {a: _whole(t) for a, t in c.tables.items()}
    found: Counter[tuple[int, ...]] = Counter()
    said: list[tuple[int, dict[str, Any]]] = []
    rows: list[dict[str, Any]] = []
    restores = 1.0 if rng.random() < 0.5 else 0.0
    turns = in_turns(
        rng, op, batches, c.orders, "ts", pieces=(1, 2, 7, 100), restores=restores,
    )
    for op, out in turns:
        found += ids(c.tables, out)
        for batch in out if said else ():
            rows.extend(batch.to_pylist())
        if rng.random() < 0.1:
            said.append((len(rows), op.output_bounds()))
    want = c.expected()
    more, fewer = sum((found - want).values()), sum((want - found).values())
    assert found == want, f"seed {seed}: {more} too many, {fewer} too few"
    assert op.metrics.state_rows == 0, f"seed {seed}: {op.metrics}"
    for start, bounds in said:
        for row in rows[start:]:
            assert bounds, f"seed {seed}: rows after none was to come"
            for name, (low, high) in bounds.items():
                v = row[name]
                if v is not None:
                    assert low is None or v >= low or v != v, f"seed {seed}: {name} {v} below {low}"
                    assert high is None or v <= high, f"seed {seed}: {name} {v} above {high}"
    return sum(want.values())


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    total = 0
    print("from", first, flush=True)
    for s in range(first, first + count):
        try:
            total += check(s)
        except Exception as e:
            print(s, SHAPES[s % len(SHAPES)], type(e).__name__, str(e)[:300], case(s).condition, flush=True)
    print(count, "joins,", total, "rows")
