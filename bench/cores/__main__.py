"""Joins of tables by number of threads: ``python -m bench.cores [--rows N] [--threads 1,2] [--runs 3] [--only TEXT]``.

Each cell is the best of the runs: seconds on the clock, and in parentheses nanoseconds of processor time for each row
of both inputs. Each run is checked: the number of rows is known beforehand, and rows and their order are the same for
any number of threads. As-of joins and aggregates have a quarter as many left rows as right ones. DuckDB and Polars run
where they are installed, on one thread and on the largest number of threads, in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cores.bands import BANDS, Band
from bench.cores.lookups import LOOKUPS, Lookup

CASES: list[Band | Lookup] = [*BANDS, *LOOKUPS]
_PEERS = ("duckdb", "polars")
_SECONDS = 300  # that a peer may take for a case


def label(case: Band | Lookup) -> str:
    return f"{case.name}, {case.how}" if isinstance(case, Band) else case.name


def timed(join: Callable[[], Any]) -> tuple[float, float, Any]:
    clock, processor = time.perf_counter(), time.process_time()
    out = join()
    return time.perf_counter() - clock, time.process_time() - processor, out


def fingerprint(batches: list[pa.RecordBatch]) -> int:
    """A number that depends on the left rows and their order."""
    v = np.concatenate([b.column("v").fill_null(-1).to_numpy(zero_copy_only=False) for b in batches]).astype(np.uint64)
    return int((v * (np.arange(len(v), dtype=np.uint64) | np.uint64(1))).sum())


def cell(runs: list[tuple[float, float]], rows: int) -> str:
    return f"{min(w for w, _ in runs):.3f} ({1e9 * min(c for _, c in runs) / rows:.0f})"


def ours(case: Band | Lookup, left: pa.Table, right: pa.Table, counts: list[int], runs: int) -> tuple[int, list[str]]:
    """Rows out, and a cell for each number of threads."""
    want, cells, prints = case.expected(left, right), [], set()
    for threads in counts:
        done = []
        for _ in range(runs + 1):  # the first one compiles or loads what the others find
            wall, cpu, batches = timed(partial(case.join, left, right, threads))
            out = sum(b.num_rows for b in batches)
            assert out == want, f"{label(case)}, {threads} threads: {out} rows, expected {want}"
            prints.add(fingerprint(batches))
            del batches
            done.append((wall, cpu))
        cells.append(cell(done[1:], left.num_rows + right.num_rows))
    assert len(prints) == 1, f"{label(case)}: the order depends on the number of threads"
    return want, cells


def peer(name: str, index: int, rows: int, threads: int, runs: int) -> None:
    """What a process of its own runs: prints rows out and the times, or null where the peer has no such join."""
    case = CASES[index]
    left, right = case.tables(rows)
    if name == "duckdb":
        import duckdb

        con, query = duckdb.connect(config={"threads": threads}), case.sql()
        con.execute("SET preserve_insertion_order = false")
        con.register("a", left)
        con.register("b", right)
        con.execute("CREATE TABLE l AS FROM a")
        con.execute("CREATE TABLE r AS FROM b")
        run = None if query is None else lambda: con.sql(query).to_arrow_table().num_rows
    else:
        has_such = case.polars(*case.tables(1000)) is not None
        run = (lambda: case.polars(left, right).height) if has_such else None
    if run is None:
        print("null")
        return
    done = [timed(run) for _ in range(runs)]
    print(json.dumps([done[0][2], [(wall, cpu) for wall, cpu, _ in done]]))


def beside(name: str, case: Band | Lookup, want: int, arguments: argparse.Namespace, threads: int) -> str:
    """The peer's cell; empty where it is not installed or has no such join."""
    if find_spec(name) is None:
        return ""
    command = [sys.executable, "-m", "bench.cores", "--rows", str(arguments.rows), "--runs", str(arguments.runs)]
    command += ["--peer", name, str(CASES.index(case)), str(threads)]
    env = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"> {_SECONDS}"
    found = json.loads(done.stdout.splitlines()[-1])
    if found is None:
        return ""
    assert found[0] == want, f"{name}: {found[0]} rows, expected {want}"
    left, right = (arguments.rows if isinstance(case, Band) else arguments.rows // 4), arguments.rows
    return cell(found[1], left + right)


def main(arguments: list[str] | None = None) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    default = ",".join(map(str, sorted({1, min(2, cores), cores})))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--threads", default=default, help="numbers of threads, by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.peer:
        peer(options.peer[0], int(options.peer[1]), options.rows, int(options.peer[2]), options.runs)
        return
    counts = [int(t) for t in options.threads.split(",")]
    if options.rows < 1000 or min(counts) < 1 or options.runs < 1:
        parser.error("--rows must be at least 1,000, and --threads and --runs at least 1")
    beside_us = [] if options.no_peers else [(name, t) for name in _PEERS for t in dict.fromkeys((1, counts[-1]))]
    heads = ["join", "rows out", *map(str, counts), *(f"{name}, {t}" for name, t in beside_us)]
    print("| " + " | ".join(heads) + " |\n|---|" + "--:|" * (len(heads) - 1), flush=True)
    for case in CASES:
        if options.only in label(case):
            want, cells = ours(case, *case.tables(options.rows), counts, options.runs)
            cells += [beside(name, case, want, options, t) for name, t in beside_us]
            print(f"| {label(case)} | {want:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
