"""Measure the cost of one push of 128 rows and of one row, with the kernel and the output.

    python -m bench.pushes

The case is ``seed``, on one core. The mean is the processor time per push after the first tenth of a run, and the
median of five runs is shown. The median and the 99th percentile are wall-clock times of single pushes in one run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.seed import seed_case
from bench.peers.base import in_turn
from bench.runner import RESULTS, save

__all__ = ["latency", "main"]


def _operator(left: pa.Table, right: pa.Table, condition: str) -> Any:
    from ivjoin import SymmetricHashJoin

    return SymmetricHashJoin(
        left.schema, right.schema, on="k", condition=condition, left_order="s", right_order="s"
    )


def latency(card: int, batch: int, pushes: int, runs: int) -> dict[str, Any]:
    """One record: microseconds a push."""
    case = seed_case(card, batch * pushes // 2)
    left, right = case.make()
    events = in_turn(left, right, batch)
    warm = len(events) // 10
    means = []
    for _ in range(runs):
        op = _operator(left, right, case.condition)
        push = op.push
        for side, b in events[:warm]:
            for _out in push(side, b):
                pass
        begun = time.process_time()
        for side, b in events[warm:]:
            for _out in push(side, b):
                pass
        means.append((time.process_time() - begun) / (len(events) - warm) * 1e6)
    op = _operator(left, right, case.condition)
    push, clock, single = op.push, time.perf_counter_ns, []
    for side, b in events:
        begun_ns = clock()
        for _out in push(side, b):
            pass
        single.append(clock() - begun_ns)
    spread = np.array(single[warm:]) / 1e3
    return {
        "kind": "push", "case": case.name, "batch": batch, "pushes": len(events), "cpu_us": statistics.median(means),
        "least_us": min(means), "most_us": max(means), "median_us": float(np.median(spread)),
        "p99_us": float(np.quantile(spread, 0.99)), "rows_out": op.metrics.rows_out,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.pushes", description=__doc__.splitlines()[0])
    p.add_argument("--pushes", type=int, default=10_000)
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--out", default=str(RESULTS / "pushes.jsonl"))
    args = p.parse_args(argv)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    records = []
    for batch in (128, 1):
        for card in (8, 64, 1024):
            r = latency(card, batch, args.pushes, args.runs)
            records.append(r)
            print(
                f"{card:5} keys, {batch:4} rows a push: {r['cpu_us']:7.1f} us of CPU, median {r['median_us']:7.1f}, "
                f"p99 {r['p99_us']:7.1f}, {r['rows_out']} rows out",
                flush=True,
            )
    save(Path(args.out), records)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
