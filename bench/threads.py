"""One thread and two over tables in order: ``python -m bench.threads [rows]``.

The medians of five runs in turn: seconds on the clock, and of processor time in parentheses, since a machine that
others use has no second core to give. Timestamps are drawn evenly or with Zipf gaps (exponent 1.5, seed 1 and 2).
Beside them two processes that join a half each at the same time, on one thread: what the machine gives.
"""

from __future__ import annotations

import sys
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


def halves(left: pa.Table, right: pa.Table, case: str) -> list[tuple[pa.Table, pa.Table]]:
    """The rows below the middle of the left side and those from it on, with all that they can meet."""
    at, width = left["t"][left.num_rows // 2].as_py(), WIDTHS[case]
    below = left.filter(pc.less(left["t"], at)), right.filter(pc.less(right["t"], at + width))
    above = left.filter(pc.greater_equal(left["t"], at)), right.filter(pc.greater_equal(right["t"], at - width))
    return [(one.combine_chunks(), other.combine_chunks()) for one, other in (below, above)]


def by_processes(parts: list[tuple[pa.Table, pa.Table]], case: str) -> tuple[float, float, int]:
    """As :func:`measured`, of parts that are joined at the same time by a process each."""
    fork = get_context("fork")
    start, said = fork.Barrier(len(parts)), fork.SimpleQueue()

    def join(left: pa.Table, right: pa.Table, start: Barrier) -> None:
        measured(left, right, case, 1)
        start.wait()
        begin = time.perf_counter()
        _, processor, out = measured(left, right, case, 1)
        said.put((begin, time.perf_counter(), processor, out))

    processes = [fork.Process(target=join, args=(*part, start)) for part in parts]
    for process in processes:
        process.start()
    begins, ends, processor, out = zip(*(said.get() for _ in processes), strict=True)
    for process in processes:
        process.join()
    return max(ends) - min(begins), sum(processor), sum(out)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print("| join | rows out | one thread | two threads | gain | two processes | gain |\n|---|---|---|---|---|---|---|")
    for case in WIDTHS:
        left, right = table(case, rows, 1), table(case, rows, 2)
        parts = halves(left, right, case)
        runs: list[list[tuple[float, float, int]]] = []
        for _ in range(_RUNS):
            by_threads = [measured(left, right, case, threads) for threads in (1, 2)]
            runs.append([*by_threads, by_processes(parts, case)])
        outs = {out for done in runs for _, _, out in done}
        assert len(outs) == 1, f"{case}: {outs} rows"
        one, two, apart = ([median(done[way][i] for done in runs) for i in (0, 1)] for way in range(3))
        print(
            f"| {case} | {outs.pop():,} | {one[0]:.3f} ({one[1]:.3f}) | {two[0]:.3f} ({two[1]:.3f}) | "
            f"{one[0] / two[0]:.2f} | {apart[0]:.3f} ({apart[1]:.3f}) | {one[0] / apart[0]:.2f} |", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
