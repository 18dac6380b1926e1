"""One thread and two over tables in order: ``python -m bench.threads [rows]``.

The medians of five runs in turn: seconds on the clock, and of processor time in parentheses, since a machine that
others use has no second core to give. Timestamps are drawn evenly or with Zipf gaps (exponent 1.5, seed 1 and 2).
"""

from __future__ import annotations

import sys
import time
from statistics import median

import numpy as np
import pyarrow as pa

from ivjoin import band_join

WIDTHS = {"uniform": 1000, "zipf": 3000, "no key": 3, "80 % in one key": 4, "text key": 1000}
_RUNS = 5


def table(case: str, rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, rows, rows))
    if case == "zipf":
        t = np.cumsum(np.minimum(rng.zipf(1.5, rows), 10_000)) // 4
    keys = rng.integers(0, 1000, rows)
    if case == "80 % in one key":
        keys = np.where(rng.random(rows) < 0.8, 0, keys)
    names = pa.array([f"key number {i}" for i in range(1000)])
    columns = {"k": names.take(pa.array(keys)) if case == "text key" else keys, "t": t, "v": np.arange(rows)}
    if case == "no key":
        del columns["k"]
    return pa.table(columns)


def measured(left: pa.Table, right: pa.Table, case: str, threads: int) -> tuple[float, float, int]:
    """Seconds on the clock, of the processor, rows out."""
    width = WIDTHS[case]
    stream = band_join(
        left, right, on=None if case == "no key" else "k", condition=f"l.t BETWEEN r.t - {width} AND r.t + {width}",
        left_order="t", right_order="t", threads=threads,
    )
    clock, processor = time.perf_counter(), time.process_time()
    out = sum(batch.num_rows for batch in stream)
    return time.perf_counter() - clock, time.process_time() - processor, out


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print("| join | rows out | one thread | two threads | gain |\n|---|---|---|---|---|")
    for case in WIDTHS:
        left, right = table(case, rows, 1), table(case, rows, 2)
        runs: dict[int, list[tuple[float, float, int]]] = {1: [], 2: []}
        for _ in range(_RUNS):
            for threads, done in runs.items():
                done.append(measured(left, right, case, threads))
        outs = {out for done in runs.values() for _, _, out in done}
        assert len(outs) == 1, f"{case}: {outs} rows"
        one, two = ([median(r[i] for r in runs[threads]) for i in (0, 1)] for threads in (1, 2))
        print(f"| {case} | {outs.pop():,} | {one[0]:.3f} ({one[1]:.3f}) | {two[0]:.3f} ({two[1]:.3f}) | "
              f"{one[0] / two[0]:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
