"""Random joins of many inputs step by step, with outer joins, picks and aggregates, for a comparison with DuckDB."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
from drivers.random_sql import conjunct, link, table

import ivjoin

HOWS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "left_semi": "SEMI JOIN",
        "left_anti": "ANTI JOIN"}  # fmt: skip


def _numbered(rows: pa.Table) -> pa.Table:
    texts = rows["s"].cast(pa.string())  # of an empty table it has no type
    rows = rows.set_column(rows.column_names.index("s"), "s", texts)
    return rows.append_column("id", pa.array(range(rows.num_rows), pa.int64()))


def _on(r: random.Random, before: list[str], alias: str) -> str:
    """A condition each of whose conjuncts reads the input that joins, so that it belongs to this join."""
    more = conjunct(r, [*before, alias])
    return link(r, before, alias) + (f" AND {more}" if f"{alias}." in more and r.random() < 0.5 else "")


def compare(seed: int) -> dict[str, Any]:
    """Join random tables both ways and return the options; fail where the rows differ."""
    r = random.Random(seed)
    aliases = ["a", "b", "c", "d"][: r.choice((2, 3, 3, 4))]
    tables = {a: _numbered(table(r, "x")) for a in aliases}
    hows, picks, ons, shown = {}, {}, [], ["a"]
    aggregate = r.random() < 0.3
    query = "FROM a"
    for i, alias in enumerate(aliases[1:], 1):
        last = i == len(aliases) - 1
        how = r.choice(("inner", "left")) if last and aggregate else r.choice(tuple(HOWS))
        condition = _on(r, shown, alias)
        hows[alias] = how
        ons.append(condition)
        if last and aggregate:
            query += "" if how == "left" else f" WHERE EXISTS (SELECT 1 FROM {alias} WHERE {condition})"
            continue
        if how in ("inner", "left") and r.random() < 0.3:
            picks[alias] = ivjoin.Pick(f"{alias}.id", r.choice(("first", "last")))
            least = "min" if picks[alias].keep == "first" else "max"
            query += (
                f" {HOWS[how]} {alias} ON {alias}.id = (SELECT {least}({alias}.id) FROM {alias} WHERE {condition})"
            )
        else:
            query += f" {HOWS[how]} {alias} ON {condition}"
        if how not in ("left_semi", "left_anti"):
            shown.append(alias)
    if r.random() < 0.3 and "WHERE" not in query:
        ons.append(conjunct(r, ["a"]))
        query += f" WHERE {ons[-1]}"
    end = aliases[-1]
    columns = [f"{a}.{n} AS {a}_{n}" for a in shown for n in tables[a].column_names]
    options: dict[str, Any] = {"hows": hows, "pick": picks}
    if aggregate:
        within = f"FROM {end} WHERE {ons[len(aliases) - 2]}"
        columns += [f"(SELECT count(*) {within}) AS n", f"(SELECT sum({end}.x) {within})::BIGINT AS total"]
        options["aggregate"] = {"n": "count(*)", "total": f"sum({end}.x)"}
    options["condition"] = " AND ".join(f"({c})" for c in ons)
    with duckdb.connect() as db:
        for a, rows in tables.items():
            db.register(f"{a}_rows", rows)
            db.execute(f"CREATE TABLE {a} AS FROM {a}_rows")
        expected = db.sql(f"SELECT {', '.join(columns)} {query}").to_arrow_table()
    got = ivjoin.multi_join(tables, **options).read_all()
    assert got.column_names == expected.column_names, (seed, options)
    ours, theirs = (sorted((tuple(row.values()) for row in t.to_pylist()), key=repr) for t in (got, expected))
    assert ours == theirs, (seed, options, query)
    return options
