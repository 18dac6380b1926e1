"""Random queries with joins, and the tables that they read, for a comparison with DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

import ivjoin

KINDS = ("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL OUTER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def table(r: random.Random, extra: str) -> pa.Table:
    """A table with keys k and j, an axis t and a text s; all but t have nulls."""
    n = r.choice((0, 1, 3, 8, 20))

    def column(values: range, share: float) -> list[Any]:
        return [None if r.random() < share else r.choice(values) for _ in range(n)]

    return pa.table({
        "k": pa.array(column(range(3), 0.15), pa.int64()), "j": pa.array(column(range(2), 0.1), pa.int32()),
        "t": pa.array(column(range(12), 0.0), pa.int64()), extra: pa.array(column(range(-3, 4), 0.2), pa.int64()),
        "s": pa.array([r.choice(("a", "b", None)) for _ in range(n)]),
    })


def conjunct(r: random.Random, names: list[str]) -> str:
    a, b = r.choice(names), r.choice(names)
    one = [f"{a}.t > {r.randrange(10)}", f"{a}.k IS NULL", f"{a}.k IS NOT NULL", f"{a}.s = 'a'",
           f"{a}.k IN (0, {r.randrange(3)})", f"coalesce({a}.k, 5) = 5", f"NOT ({a}.j = 1)",
           f"({a}.t < 4 OR {a}.k = 1)"]  # fmt: skip
    two = [f"{a}.t < {b}.t + {r.randrange(5)}", f"{a}.k = {b}.j", f"({a}.k = 1 OR {b}.t = 3)",
           f"abs({a}.t - {b}.t) <= 3"]  # fmt: skip
    return r.choice(one if a == b else one + two)


def link(r: random.Random, before: list[str], alias: str) -> str:
    """A condition that connects an input with one before it."""
    a = r.choice(before)
    return r.choice((f"{a}.k = {alias}.k", f"{alias}.k = {a}.k AND {a}.j = {alias}.j",
                     f"{a}.t BETWEEN {alias}.t - 2 AND {alias}.t + 1",
                     f"{a}.k = {alias}.k AND {a}.t >= {alias}.t AND {a}.t < {alias}.t + 4"))  # fmt: skip


def on(r: random.Random, before: list[str], alias: str) -> str:
    parts = [link(r, before, alias)]
    if r.random() < 0.3:
        parts.append(conjunct(r, [*before, alias]))
    return " AND ".join(parts)


def query(r: random.Random) -> str:
    aliases = ["a", "b", "c"][: r.choice((2, 2, 3))]
    visible, text, merged = ["a"], "FROM ta a", False
    for alias in aliases[1:]:
        kind = r.choice(KINDS)
        if r.random() < 0.15 and "ASOF" not in text:
            kind = r.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
            a = r.choice(visible)
            compared = f"{a}.t {r.choice(('>=', '>', '<=', '<'))} {alias}.t"
            text += f" {kind} t{alias} {alias} ON {r.choice(('', f'{a}.k = {alias}.k AND '))}{compared}"
            visible.append(alias)
            continue
        if r.random() < 0.2 and len(visible) == 1:
            keys = r.choice((("k",), ("k", "j")))
            text += f" {kind} t{alias} {alias} USING ({', '.join(keys)})"
            merged = len(aliases) == 2 and "SEMI" not in kind and "ANTI" not in kind
        else:
            text += f" {kind} t{alias} {alias} ON {on(r, visible, alias)}"
        if "SEMI" not in kind and "ANTI" not in kind:
            visible.append(alias)
    items = [r.choice(visible) + "." + r.choice(("k", "t", "s", "j")) for _ in range(r.randrange(4))]
    items += [f"{r.choice(visible)}.t + coalesce({r.choice(visible)}.k, 0) AS e"] if r.random() < 0.5 else []
    items += [r.choice(("*", f"{r.choice(visible)}.*", "* EXCEPT (t)"))] if not items or r.random() < 0.3 else []
    items += ["k AS merged"] if merged else []
    wheres = [conjunct(r, visible) for _ in range(r.choice((0, 0, 1, 2)))]
    return f"SELECT {', '.join(items)} {text}" + (f" WHERE {' AND '.join(wheres)}" if wheres else "")


def rows(t: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(c.to_pylist() for c in t.columns), strict=True))


def compare(seed: int) -> str:
    """Compare one query with DuckDB; return its text.

    Raises
    ------
    AssertionError
    """
    r = random.Random(seed)
    tables = {f"t{a}": table(r, f"x{a}") for a in "abc"}
    text = query(r)
    if "ASOF" in text:  # two rows of one time tie, and any of them may match
        for name, t in tables.items():
            times = pa.array(r.sample(range(max(t.num_rows, 12)), t.num_rows), pa.int64())
            tables[name] = t.set_column(t.schema.get_field_index("t"), "t", times)
    with duckdb.connect() as connection:
        for name, t in tables.items():
            connection.register(name, t)
        theirs = connection.sql(text.replace("EXCEPT", "EXCLUDE").replace("LEFT SEMI", "SEMI")
                                .replace("LEFT ANTI", "ANTI")).to_arrow_table()  # fmt: skip
    ours = ivjoin.sql(text, inputs=tables).read_all()
    names = theirs.schema.names
    assert len(ours.schema.names) == len(names)
    assert len(set(names)) < len(names) or ours.schema.names == names, (seed, text)
    assert rows(ours) == rows(theirs), (seed, text)
    return text
