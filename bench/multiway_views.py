"""Compare ``views="auto"`` in joins of many inputs with the best views, over a dozen workloads.

    python -m bench.multiway_views            # writes its tables into docs/benchmarks-multiway.md
    python -m bench.multiway_views --rows 4000 --runs 1 --out build/bench/views.jsonl --page build/bench/views.md

Each workload runs with every set of views that a tree of joins can have, without views ("none"), and with "auto".
Seconds are processor seconds, and the least of several runs counts. The results are compared with each other, and for a
tenth of the rows with DuckDB's. "Auto / best" is the cost of the automatic choice.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.multiway import PAGE, Tables, rows_by_duckdb
from bench.papers.common import put
from bench.runner import RESULTS, save
from bench.static_spark import drawn_keys
from ivjoin import IvjoinError, multi_join
from ivjoin.multi.question import components, multi_spec
from ivjoin.multi.shape.steps import equal_classes

__all__ = ["main"]

_FEWER = 10
_CHAIN = "a.k = b.k AND b.k = c.k"


def _rising(*widths: int) -> str:
    """Each input at most so far after the one before it."""
    steps = zip("abcd", "bcde", widths, strict=False)
    return " AND ".join(f"{b}.ts BETWEEN {a}.ts AND {a}.ts + {width}" for a, b, width in steps)


# Rows by input as a share of --rows, keys, Zipf, condition.
Workload = tuple[dict[str, float], int, bool, str]
WORKLOADS: dict[str, Workload] = {
    "chain": (dict.fromkeys("abc", 1), 1000, False,
              f"{_CHAIN} AND b.ts BETWEEN a.ts AND a.ts + 2000 AND c.ts BETWEEN b.ts - 2000 AND b.ts"),
    "wide and narrow band": (dict.fromkeys("abc", 1), 1000, False, f"{_CHAIN} AND {_rising(40000, 2000)}"),
    "narrow and wide band": (dict.fromkeys("abc", 1), 1000, False, f"{_CHAIN} AND {_rising(2000, 40000)}"),
    "star": (dict.fromkeys("abc", 1), 1000, False,
             "a.k = b.k AND a.k = c.k AND b.ts BETWEEN a.ts - 2000 AND a.ts AND c.ts BETWEEN a.ts - 2000 AND a.ts"),
    "triangle": (dict.fromkeys("abc", 1), 1000, False, f"{_CHAIN} AND {_rising(3000, 3000)} AND c.ts <= a.ts + 4000"),
    "through a third": (dict.fromkeys("abc", 1), 1000, False,
                        f"{_CHAIN} AND a.ts BETWEEN c.ts - 2000 AND c.ts AND b.ts = c.ts"),
    "two keys": (dict.fromkeys("abc", 1), 1000, False, f"a.k = b.k AND b.j = c.j AND {_rising(2000, 2000)}"),
    "skewed keys": (dict.fromkeys("abc", 0.5), 1000, True, f"{_CHAIN} AND {_rising(60, 60)}"),
    "one slow input": ({"a": 1, "b": 1, "c": 0.05}, 1000, False, f"{_CHAIN} AND {_rising(8000, 8000)}"),
    "no key": (dict.fromkeys("abc", 0.5), 1000, False, _rising(20, 10)),
    "chain of four": (dict.fromkeys("abcd", 0.7), 1000, False,
                      f"{_CHAIN} AND c.k = d.k AND {_rising(2000, 9000, 2000)}"),
    "star of four": (dict.fromkeys("abcd", 0.7), 1000, False,
                     " AND ".join(f"a.k = {x}.k AND {x}.ts BETWEEN a.ts - {w} AND a.ts"
                                  for x, w in zip("bcd", (1000, 8000, 3000), strict=True))),
}  # fmt: skip


def inputs(workload: Workload, rows: int) -> Tables:
    shares, keys, zipf, _ = workload
    out = {}
    for seed, (alias, share) in enumerate(shares.items()):
        rng = np.random.default_rng(seed)
        n = int(rows * share)
        out[alias] = pa.table({
            "k": drawn_keys(rng, n, keys, 1.5 if zipf else 0.0), "j": rng.integers(0, keys, n),
            "ts": np.sort(rng.integers(0, 10 * rows, n)), "v": rng.random(n),
        })  # fmt: skip
    return out


def by_hand(aliases: str) -> list[list[tuple[str, ...]]]:
    """The sets of views that trees over the inputs have: for three a pair, for four a pair in a triple or two pairs."""
    if len(aliases) == 3:
        return [[pair] for pair in combinations(aliases, 2)]
    out: list[list[tuple[str, ...]]] = []
    for triple in combinations(aliases, 3):
        out += [[pair, triple] for pair in combinations(triple, 2)]
    first = aliases[0]
    return out + [[(first, x), tuple(a for a in aliases if a not in (first, x))] for x in aliases[1:]]


def is_connected(tables: Tables, condition: str, view: tuple[str, ...]) -> bool:
    """Whether the inputs of a view are joined by more than a cross product."""
    spec = multi_spec({a: t.schema for a, t in tables.items()}, condition)
    links = [p.aliases for p in spec.parts if p.aliases <= {*view}]
    links += [frozenset(a for a, _ in c) & {*view} for c in equal_classes(spec)]
    return len(components(view, links)) == 1


def joined(tables: Tables, condition: str, views: Any) -> tuple[float, int, int]:
    start = time.process_time()
    stream = multi_join(tables, condition, orders=dict.fromkeys(tables, "ts"), views=views, allow_cross=True)
    rows = sum(b.num_rows for b in stream)
    return time.process_time() - start, rows, stream.metrics.peak_state_rows


def run(rows: int, runs: int, only: str = "") -> list[dict[str, Any]]:
    out = []
    for name, workload in WORKLOADS.items():
        if only and only not in name:
            continue
        tables, condition = inputs(workload, rows), workload[3]
        few = inputs(workload, rows // _FEWER)
        got, want = joined(few, condition, "auto")[1], rows_by_duckdb(few, condition)
        assert got == want, f"{name}: {got} rows, DuckDB has {want}"
        want = joined(tables, condition, "none")[1]
        ways: dict[str, Any] = {"auto": "auto", "none": "none"}
        ways |= {
            " + ".join("".join(v) for v in views): views for views in by_hand("".join(tables))
            if all(is_connected(tables, condition, v) for v in views)
        }
        first: dict[str, float] = {}
        best: dict[str, float] = {}
        held: dict[str, int] = {}
        for turn in range(runs + 1):
            in_turn = list(ways.items())
            for way, views in in_turn[turn % len(in_turn) :] + in_turn[: turn % len(in_turn)]:
                if turn and way != "auto" and first[way] > 4 * min(first.values()):
                    continue  # out of the race
                try:
                    seconds, got, held[way] = joined(tables, condition, views)
                except IvjoinError as e:  # no tree has it
                    print(name, way, e)
                    del ways[way]
                    continue
                assert got == want, f"{name}, views {way}: {got} rows, without views {want}"
                if turn:
                    best[way] = min(best.get(way, np.inf), seconds)
                else:
                    first[way] = seconds
        found = min((w for w in best if w != "auto"), key=lambda w: best[w])
        record = {
            "kind": "views", "case": name, "rows": rows, "rows_out": want, "auto": round(best["auto"], 4),
            "best": found, "seconds": round(best[found], 4), "ratio": round(best["auto"] / best[found], 3),
            "none": round(best.get("none", first["none"]), 4), "worst": round(max(first.values()), 4),
            "held_auto": held["auto"], "held_best": held[found],
        }  # fmt: skip
        print(json.dumps(record), flush=True)
        out.append(record)
    return out


def page(path: Path, records: list[dict[str, Any]]) -> None:
    """Put the table between the marks of a page."""
    lines = [
        f"Inputs of {records[0]['rows']:,} rows (fewer for slow, skewed, keyless and four inputs), "
        "in processor seconds:",
        "",
        "| workload | rows out | auto | none (cascade) | best by hand | its views | auto / best |", "|---" * 7 + "|",
        *(
            f"| {r['case']} | {r['rows_out']:,} | {r['auto']:.3f} | {r['none']:.3f} | {r['seconds']:.3f} | "
            f"{r['best']} | {r['ratio']:.2f} |" for r in records
        ),
        "",
    ]  # fmt: skip
    put(path, "views", lines)


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.multiway_views", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=100_000, help="of each input (default: %(default)s)")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--only", default="", help="workloads whose name has this in it")
    p.add_argument("--out", default=str(RESULTS / "multiway_views.jsonl"))
    p.add_argument("--page", default=str(PAGE))
    args = p.parse_args(argv)
    records = run(args.rows, args.runs, args.only)
    save(Path(args.out), records)
    page(Path(args.page), records)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
