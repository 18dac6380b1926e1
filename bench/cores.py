"""Band joins of tables on one core, two and all of them: ``python -m bench.cores [rows] [threads,...]``.

Each cell is the best of three runs: seconds on the clock, and in parentheses nanoseconds of processor time for each row
of both inputs. Each run is checked: the number of rows is computed with numpy, and rows and their order are the same
for any number of threads. DuckDB joins the same rows by buckets of the band, where it is installed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin import band_join
from ivjoin.conditions.read.fluent import left as of_left
from ivjoin.conditions.read.fluent import right as of_right

_RUNS = 3
_KEYS = 10_000
_SPAN = 1000  # ticks for each row
# name: (keys of the rows, whether they are the join's, ticks of the band below and above, whether rows are in order)
CASES: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], bool, int, int, bool]] = {
    "10,000 keys": (lambda g, n: g.integers(0, _KEYS, n), True, 10_000_000, 5_000_000, True),
    "one key has 80 %": (
        lambda g, n: np.where(g.random(n) < 0.8, 0, g.integers(0, _KEYS, n)), True, 3_000, 2_000, True,
    ),
    "no key": (lambda g, n: g.integers(0, 10, n), False, 3_000, 2_000, True),
    "10,000 keys, unordered": (lambda g, n: g.integers(0, _KEYS, n), True, 10_000_000, 5_000_000, False),
}  # fmt: skip
HOWS = {"10,000 keys": ("inner", "left", "full", "left_semi")}
COLUMNS = ["k", "ts", "v", "ts_right", "v_right"]


def table(case: str, rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys, _, _, _, ordered = CASES[case]
    ts = rng.integers(0, rows * _SPAN, rows)
    k = keys(rng, rows).astype(np.int64)
    return pa.table({"k": k, "ts": np.sort(ts) if ordered else ts, "v": np.arange(rows)})


def matches(case: str, left: pa.Table, right: pa.Table) -> tuple[int, int, int]:
    """How many pairs match, how many left rows do, and how many right rows do."""
    _, keyed, below, above, _ = CASES[case]
    shift = 1 << 44  # more than any tick
    a, b = ((t["k"].to_numpy() * shift if keyed else 0) + t["ts"].to_numpy() for t in (left, right))
    counts = []
    for mine, theirs, less, more in ((a, np.sort(b), above, below), (b, np.sort(a), below, above)):
        first = np.searchsorted(theirs, mine - less)
        counts.append(np.searchsorted(theirs, mine + more, side="right") - first)
    return int(counts[0].sum()), int((counts[0] > 0).sum()), int((counts[1] > 0).sum())


def expected(how: str, rows: int, found: tuple[int, int, int]) -> int:
    pairs, left, right = found
    if how == "left_semi":
        return left
    return pairs + (rows - left if how in ("left", "full") else 0) + (rows - right if how == "full" else 0)


def joined(case: str, how: str, left: pa.Table, right: pa.Table, threads: int) -> tuple[float, float, int, int]:
    """Seconds on the clock and of the processor, rows, and a number that depends on the rows and their order."""
    _, keyed, below, above, ordered = CASES[case]
    band = of_right("ts").between(of_left("ts") - above, of_left("ts") + below)
    orders: dict[str, Any] = {"left_order": "ts", "right_order": "ts"} if ordered else {}
    columns = COLUMNS if how != "left_semi" else COLUMNS[:3]
    clock, processor = time.perf_counter(), time.process_time()
    stream = band_join(
        left, right, on="k" if keyed else None, condition=band, how=how, threads=threads, columns=columns, **orders
    )
    batches = list(stream)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    print_of = 0
    for batch in batches:
        v = batch.column("v").fill_null(-1).to_numpy().astype(np.uint64)
        places = np.arange(print_of & 0xFFFF, (print_of & 0xFFFF) + len(v), dtype=np.uint64)
        print_of = (31 * print_of + int((v * (places | np.uint64(1))).sum())) & 0xFFFF_FFFF_FFFF
    return clock, processor, sum(b.num_rows for b in batches), print_of


def by_duckdb(
    case: str, left: pa.Table, right: pa.Table, threads: int
) -> Callable[[], tuple[float, float, int]] | None:
    try:
        import duckdb
    except ImportError:
        return None
    _, keyed, below, above, _ = CASES[case]
    con = duckdb.connect(config={"threads": threads})
    con.register("a", left)
    con.register("b", right)
    con.execute("CREATE TABLE l AS FROM a")
    con.execute("CREATE TABLE r AS FROM b")
    width = 4 * (below + above + 1)
    first, last = f"(ts - {below}) // {width}", f"(ts + {above}) // {width}"
    copies = (
        f"SELECT *, {first} AS b FROM r UNION ALL BY NAME "
        f"SELECT *, unnest(range({first} + 1, {last} + 1)) AS b FROM r WHERE {last} > {first}"
    )
    query = (
        f"SELECT l.k, l.ts, l.v, r.ts AS ts_right, r.v AS v_right FROM (SELECT *, ts // {width} AS b FROM l) l "
        f"JOIN ({copies}) r ON {'l.k = r.k AND ' if keyed else ''}l.b = r.b "
        f"AND l.ts BETWEEN r.ts - {below} AND r.ts + {above}"
    )

    def run() -> tuple[float, float, int]:
        clock, processor = time.perf_counter(), time.process_time()
        out = con.sql(query).to_arrow_table().num_rows
        return time.perf_counter() - clock, time.process_time() - processor, out

    return run


def cell(runs: list[tuple[float, float]], rows: int) -> str:
    return f"{min(w for w, _ in runs):.3f} ({1e9 * min(c for _, c in runs) / (2 * rows):.0f})"


def main() -> None:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    counts = [int(t) for t in sys.argv[2].split(",")] if len(sys.argv) > 2 else sorted({1, min(2, cores), cores})
    print("| join | rows out |" + "".join(f" {t} |" for t in counts) + " DuckDB, 1 |" + f" DuckDB, {counts[-1]} |")
    print("|---|---|" + "---|" * (len(counts) + 2))
    for case in CASES:
        left, right = table(case, rows, 1), table(case, rows, 2)
        found = matches(case, left, right)
        for how in HOWS.get(case, ("inner",)):
            want, cells, prints = expected(how, rows, found), [], set()
            for threads in counts:
                done = [joined(case, how, left, right, threads) for _ in range(_RUNS + 1)][1:]
                assert {out for _, _, out, _ in done} == {want}, f"{case}, {how}: {done}, expected {want} rows"
                prints |= {p for *_, p in done}
                cells.append(cell([(w, c) for w, c, _, _ in done], rows))
            assert len(prints) == 1, f"{case}, {how}: the order depends on the number of threads"
            for threads in (1, counts[-1]):
                run = by_duckdb(case, left, right, threads) if how == "inner" else None
                times = [] if run is None else [run() for _ in range(_RUNS)]
                assert all(out == want for _, _, out in times), f"DuckDB: {times}, expected {want} rows"
                cells.append(cell([(w, c) for w, c, _ in times], rows) if times else "")
            print(f"| {case}, {how} | {want:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
