"""Compare joins of many inputs with joins of two and with DuckDB.

    python -m bench.multiway                  # a million rows an input; writes docs/benchmarks-multiway.md
    python -m bench.multiway --rows 20000 --runs 1 --out build/bench/multiway.jsonl --page build/bench/multiway.md

There are three inputs with 10^4 keys in the order of time. Bands are 20,000 ticks wide, and each row advances the time
by ten ticks. Each result is compared with DuckDB's before anything is timed. "Pairs" is the sum of two ``band_join``
calls, which together compute the three-way join. Seconds are processor seconds of all threads. The engines run in turn,
and the table shows medians.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.papers.common import put
from bench.runner import RESULTS, save
from ivjoin import band_join, multi_join

__all__ = ["main", "rows_by_duckdb"]

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-multiway.md"
KEYS = 10_000
Tables = dict[str, pa.Table]

LOCAL: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "chain": (
        "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 20000 AND c.ts BETWEEN b.ts - 20000 AND b.ts",
        [("a", "b", "r.ts BETWEEN l.ts AND l.ts + 20000"), ("b", "c", "r.ts BETWEEN l.ts - 20000 AND l.ts")],
    ),
    "star": (
        "a.k = b.k AND a.k = c.k AND b.ts BETWEEN a.ts - 20000 AND a.ts AND c.ts BETWEEN a.ts - 20000 AND a.ts",
        [("a", "b", "r.ts BETWEEN l.ts - 20000 AND l.ts"), ("a", "c", "r.ts BETWEEN l.ts - 20000 AND l.ts")],
    ),
    "triangle": (
        "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 20000 AND c.ts BETWEEN b.ts AND b.ts + 20000 "
        "AND c.ts <= a.ts + 30000",
        [("a", "b", "r.ts BETWEEN l.ts AND l.ts + 20000"), ("b", "c", "r.ts BETWEEN l.ts AND l.ts + 20000")],
    ),
    "many partners": (
        "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 300000 AND c.ts BETWEEN b.ts AND b.ts + 20000",
        [("a", "b", "r.ts BETWEEN l.ts AND l.ts + 300000"), ("b", "c", "r.ts BETWEEN l.ts AND l.ts + 20000")],
    ),
}  # fmt: skip


def inputs(rows: int) -> Tables:
    out = {}
    for seed, alias in enumerate("abc"):
        rng = np.random.default_rng(seed)
        ts = np.sort(rng.integers(0, 10 * rows, rows))
        out[alias] = pa.table({"k": rng.integers(0, min(KEYS, rows), rows), "ts": ts, "v": rng.random(rows)})
    return out


def by_pairs(tables: Tables, pairs: list[tuple[str, str, str]]) -> tuple[int, int]:
    """All joins of two inputs, one after the other: the most rows stored in any of them, the rows out of all."""
    held = rows = 0
    for left, right, band in pairs:
        stream = band_join(
            tables[left], tables[right], on="k", condition=band, left_order="ts", right_order="ts"
        )
        rows += sum(b.num_rows for b in stream)
        held = max(held, stream.metrics.peak_state_rows)
    return held, rows


def by_many(tables: Tables, condition: str, views: Any, pushed: bool = True) -> tuple[int, int]:
    if pushed:
        stream = multi_join(tables, condition, orders=dict.fromkeys(tables, "ts"), views=views, sort="never")
    else:
        stream = multi_join(tables, condition)
    rows = sum(b.num_rows for b in stream)
    return stream.metrics.peak_state_rows, rows


def by_duckdb(tables: Tables, condition: str) -> tuple[int, int]:
    con = duckdb.connect()
    for alias, t in tables.items():
        con.register(alias, t)
    return 0, con.sql(f"SELECT a.*, b.*, c.* FROM a, b, c WHERE {condition}").to_arrow_table().num_rows


def rows_by_duckdb(tables: Tables, condition: str) -> int:
    """Rows of a join of any inputs, counted by DuckDB."""
    con = duckdb.connect()
    for alias, t in tables.items():
        con.register(alias, t)
    return int(con.sql(f"SELECT count(*) FROM {', '.join(tables)} WHERE {condition}").fetchall()[0][0])


def local(rows: int, runs: int, only: str = "", duckdb_too: bool = True) -> list[dict[str, Any]]:
    """Seconds and stored rows of each join and method; without DuckDB, answers are checked against the cascade's."""
    tables = inputs(rows)
    out = []
    for case, (condition, pairs) in LOCAL.items():
        if only not in case:
            continue
        ways: dict[str, Callable[[], tuple[int, int]]] = {
            "pairs": lambda pairs=pairs: by_pairs(tables, pairs),  # type: ignore[misc]
            "tables": lambda condition=condition: by_many(tables, condition, "auto", False),  # type: ignore[misc]
        }
        if duckdb_too:
            ways["DuckDB"] = lambda condition=condition: by_duckdb(tables, condition)  # type: ignore[misc]
        for i, views in enumerate(("auto", "none", *([(left, right)] for left, right, _ in pairs))):
            name = views if isinstance(views, str) else f"of pair {i - 1}"
            ways[name] = lambda condition=condition, views=views: by_many(tables, condition, views)  # type: ignore[misc]
        want = (by_duckdb(tables, condition) if duckdb_too else by_many(tables, condition, "none"))[1]
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        held: dict[str, int] = {}
        for name, way in ways.items():  # warm, and checked
            held[name], got = way()
            assert name == "pairs" or got == want, f"{case}, {name}: {got} rows, expected {want}"
        for turn in range(runs):
            names = list(ways)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:  # none always after the same other
                start = time.process_time()
                ways[name]()
                seconds[name].append(time.process_time() - start)
        for name in ways:
            record = {
                "kind": "multiway", "case": case, "rows": rows, "way": name, "rows_out": want,
                "seconds": round(median(seconds[name]), 3), "held": held[name],
            }  # fmt: skip
            print(json.dumps(record), flush=True)
            out.append(record)
    return out


# -- the page --------------------------------------------------------------------------------------------------------


def _lines(records: list[dict[str, Any]]) -> list[str]:
    own = [r for r in records if r["kind"] == "multiway"]
    ways = list(dict.fromkeys(r["way"] for r in own))
    out = [f"Three inputs of {own[0]['rows']:,} rows. The table shows processor seconds, and in parentheses the "
           "greatest number of stored rows:", ""]
    names = [w if w in ("pairs", "tables", "DuckDB") else f"views {w}" for w in ways]
    out += ["| join | rows out | " + " | ".join(names) + " |"]
    out += ["|---|---|" + "---|" * len(ways)]
    for case in dict.fromkeys(r["case"] for r in own):
        of = {r["way"]: r for r in own if r["case"] == case}
        cells = [f"{of[w]['seconds']:.2f}" + (f" ({of[w]['held']:,})" if of[w]["held"] else "") for w in ways]
        out.append(f"| {case} | {of['pairs']['rows_out']:,} | " + " | ".join(cells) + " |")
    return out


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.multiway", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=1_000_000, help="of each input (default: %(default)s)")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--only", default="", help="joins whose name has this in it, and no page")
    p.add_argument("--no-duckdb", action="store_true", help="of ten million pairs it takes minutes; for --only")
    p.add_argument("--out", default=str(RESULTS / "multiway.jsonl"))
    p.add_argument("--page", default=str(PAGE))
    args = p.parse_args(argv)
    if args.only:
        return 0 if local(args.rows, args.runs, args.only, not args.no_duckdb) else 1
    if args.no_duckdb:
        p.error("--no-duckdb goes with --only, since the page shows DuckDB")
    records = local(args.rows, args.runs)
    save(Path(args.out), records)
    put(Path(args.page), "tables", _lines(records))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
