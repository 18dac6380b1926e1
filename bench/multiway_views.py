"""Joins of many inputs: whether ``views="auto"`` keeps the best views, over a dozen workloads.

    python -m bench.multiway_views            # writes its tables into docs/benchmarks-multiway.md
    python -m bench.multiway_views --rows 4000 --runs 1 --out build/bench/views.jsonl --page build/bench/views.md

Each workload is joined with every set of views that a tree of joins can have, named by hand, without any ("none"), and
by "auto". Seconds are of the processor, the least of some runs in turn; the answers are checked against each other, and
with a tenth of the rows against DuckDB's. "Auto / best" is what is lost by leaving the choice to the program.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.multiway import PAGE, Tables, drawn, squall
from bench.runner import RESULTS, save
from ivjoin import IvjoinError, MultiJoin, multi_join
from ivjoin.multi.question import components, multi_spec
from ivjoin.multi.steps import equal_classes

__all__ = ["main"]

_FEWER, _PUSHED = 10, 1024
_EMPTY_PAGE = "<!-- views -->\n<!-- end of views -->\n<!-- local views -->\n<!-- end of local views -->\n"
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
            "k": drawn(rng, keys, n, zipf), "j": rng.integers(0, keys, n),
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


def by_duckdb(tables: Tables, condition: str) -> int:
    con = duckdb.connect()
    for alias, t in tables.items():
        con.register(alias, t)
    return int(con.sql(f"SELECT count(*) FROM {', '.join(tables)} WHERE {condition}").fetchall()[0][0])


def run(rows: int, runs: int, only: str = "") -> list[dict[str, Any]]:
    out = []
    for name, workload in WORKLOADS.items():
        if only and only not in name:
            continue
        tables, condition = inputs(workload, rows), workload[3]
        few = inputs(workload, rows // _FEWER)
        got, want = joined(few, condition, "auto")[1], by_duckdb(few, condition)
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


# -- Squall's joins ----------------------------------------------------------------------------------------------------

SQUALL = {
    "3-reachability": "R.y = S.y AND S.z = T.z",
    "TPC-H Q3": "C.custkey = O.custkey AND O.orderkey = L.orderkey",
    "TPC-H Q9, partial": "P.partkey = PS.partkey AND PS.partkey = L.partkey AND PS.suppkey = L.suppkey",
}


def pushed(tables: Tables, condition: str, views: str) -> tuple[float, int, int]:
    """Processor seconds, rows out and rows held at most, the inputs in turn; so that all end together."""
    op = MultiJoin({a: t.schema for a, t in tables.items()}, condition, views=views)
    rounds = -(-max(t.num_rows for t in tables.values()) // _PUSHED)
    pieces = {
        a: [t.slice(t.num_rows * i // rounds, t.num_rows * (i + 1) // rounds - t.num_rows * i // rounds)
            .combine_chunks().to_batches() for i in range(rounds)] for a, t in tables.items()
    }  # fmt: skip
    start, got = time.process_time(), 0
    for i in range(rounds):
        for alias, own in pieces.items():
            for batch in own[i]:
                got += sum(b.num_rows for b in op.push(alias, batch))
    return time.process_time() - start, got, op.metrics.peak_state_rows


def run_squall(scale: float, runs: int) -> list[dict[str, Any]]:
    """Local views against a cascade. Zipf keys of both ends of an edge leave 3-reachability no end: it is left out."""
    out = []
    for zipf in (False, True):
        for case, (columns, _, _) in squall(scale, zipf).items():
            if zipf and case == "3-reachability":
                continue
            rng = np.random.default_rng(1)
            tables = {}
            for alias, own in columns.items():
                mixed = rng.permutation(len(next(iter(own.values()))))
                tables[alias] = pa.table({n: values[mixed] for n, values in own.items()})
            want = by_duckdb(tables, SQUALL[case])
            best: dict[str, tuple[float, int]] = {}
            for _ in range(runs):
                for views in ("all", "none"):
                    seconds, got, held = pushed(tables, SQUALL[case], views)
                    assert got == want, f"{case}, views {views}: {got} rows, DuckDB has {want}"
                    best[views] = min(best.get(views, (np.inf, 0)), (seconds, held))
            record = {
                "kind": "local views", "case": case, "keys": "Zipf" if zipf else "uniform", "rows_out": want,
                "rows": sum(t.num_rows for t in tables.values()),
                "views": round(best["all"][0], 4), "held": best["all"][1],
                "cascade": round(best["none"][0], 4), "held_by_cascade": best["none"][1],
            }  # fmt: skip
            print(json.dumps(record), flush=True)
            out.append(record)
    return out


def squall_page(path: Path, records: list[dict[str, Any]]) -> None:
    lines = [
        "| join | keys | rows in | rows out | views, s (rows stored) | cascade, s (rows stored) |", "|---" * 6 + "|",
        *(
            f"| {r['case']} | {r['keys']} | {r['rows']:,} | {r['rows_out']:,} | {r['views']:.3f} ({r['held']:,}) | "
            f"{r['cascade']:.3f} ({r['held_by_cascade']:,}) |" for r in records
        ),
        "",
    ]  # fmt: skip
    _between_marks(path, "local views", lines)


def page(path: Path, records: list[dict[str, Any]]) -> None:
    """Put the table between the marks of a page."""
    lines = [
        f"Inputs of {records[0]['rows']:,} rows (slow, skewed, keyless and four inputs fewer), processor seconds:", "",
        "| workload | rows out | auto | none (cascade) | best by hand | its views | auto / best |", "|---" * 7 + "|",
        *(
            f"| {r['case']} | {r['rows_out']:,} | {r['auto']:.3f} | {r['none']:.3f} | {r['seconds']:.3f} | "
            f"{r['best']} | {r['ratio']:.2f} |" for r in records
        ),
        "",
    ]  # fmt: skip
    _between_marks(path, "views", lines)


def _between_marks(path: Path, name: str, lines: list[str]) -> None:
    text = path.read_text() if path.exists() else _EMPTY_PAGE
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(marks.sub(lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text))


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.multiway_views", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=100_000, help="of each input (default: %(default)s)")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--scale", type=float, default=0.2, help="of Squall's relations, in tenths of TPC-H's")
    p.add_argument("--only", default="", help="workloads whose name has this in it")
    p.add_argument("--out", default=str(RESULTS / "multiway_views.jsonl"))
    p.add_argument("--page", default=str(PAGE))
    args = p.parse_args(argv)
    records = run(args.rows, args.runs, args.only)
    local = [] if args.only else run_squall(args.scale, args.runs)
    save(Path(args.out), records + local)
    page(Path(args.page), records)
    if local:
        squall_page(Path(args.page), local)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
