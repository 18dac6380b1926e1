"""Measure the cost of spilling by memory limit, and the memory of the process over time.

    python -m bench.spilling                 # print a table, and draw a chart for docs/benchmarks-memory.md
    python -m bench.spilling --share 0.2     # fewer rows, in smaller windows

Each run is a separate process. The first run has no limit, and shows how much memory the join needs. The other runs
have three quarters, a half and a third of it. Only the processor and wall-clock time of ``push`` is counted, and the
least of the runs is shown. Memory is the resident size with mapped files, minus the resident size at the start. It is
sampled after each push, and its peak is read from the operating system.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import charts
from bench.limit import status
from bench.tables import table

__all__ = ["KINDS", "main", "measured", "run"]

DOCS = Path(__file__).parent.parent / "docs"
BATCH = 8192
SHARES = (0.75, 0.5, 0.33)
# What rows are: the window and the rows of a side, keys, doubles, and bytes of text.
KINDS: dict[str, tuple[int, int, int, int, int]] = {
    "key, time, 16 doubles": (300_000, 600_000, 100_000, 16, 0),
    "key, time, 200 bytes of text": (300_000, 600_000, 100_000, 0, 200),
    "key, time, number; a key a row": (1_000_000, 1_500_000, 1_000_000, 1, 0),
}
_TEXTS = 1000


def _schema(kind: str) -> pa.Schema:
    _, _, _, doubles, text = KINDS[kind]
    fields = [("k", pa.int64()), ("t", pa.int64()), *((f"c{i}", pa.float64()) for i in range(doubles))]
    return pa.schema([*fields, *([("s", pa.string())] if text else [])])


def _batch(kind: str, i: int, side: int, keys: int) -> pa.RecordBatch:
    _, _, _, doubles, text = KINDS[kind]
    rng = np.random.default_rng((i, side))
    columns: list[Any] = [rng.integers(0, keys, BATCH), np.arange(i * BATCH, (i + 1) * BATCH)]
    columns += [rng.random(BATCH) for _ in range(doubles)]
    if text:
        words = pa.array([f"{x:08d}" * (text // 8) for x in range(_TEXTS)])
        columns.append(words.take(pa.array(rng.integers(0, _TEXTS, BATCH))))
    return pa.record_batch(columns, schema=_schema(kind))


def measured(kind: str, limit: int, share: float) -> dict[str, Any]:
    """One record, of a join in this process; ``limit`` 0 for none."""
    from ivjoin import SymmetricHashJoin

    window, rows, keys = (max(1, int(x * share)) for x in KINDS[kind][:3])
    schema = _schema(kind)

    def join(**within: Any) -> Any:
        return SymmetricHashJoin(
            schema, schema, on="k", condition=f"abs(l.t - r.t) <= {window}", left_order="t", right_order="t", **within
        )

    small = join(memory_limit=600_000, when_full="spill")  # all is loaded, spilling too, before the first look
    for i in range(3):
        for s, side in enumerate(("left", "right")):
            for _ in small.push(side, _batch(kind, i, s, keys)):
                pass
    del small
    start = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    op = join(**({"memory_limit": limit, "when_full": "spill"} if limit else {}))
    cpu = clock = 0.0
    found = spilled = 0
    over = []
    for i in range(rows // BATCH):
        for s, side in enumerate(("left", "right")):
            batch = _batch(kind, i, s, keys)
            c, t = time.process_time(), time.perf_counter()
            for out in op.push(side, batch):
                found += out.num_rows
            cpu, clock = cpu + time.process_time() - c, clock + time.perf_counter() - t
            over.append(status("VmRSS") - start)
            spilled = max(spilled, op.metrics.spilled_bytes)
    return {
        "kind": kind, "limit": limit, "cpu": cpu, "clock": clock, "found": found, "spilled": spilled,
        "need": op.metrics.peak_state_bytes, "peak": status("VmHWM") - start, "over": over,
    }  # fmt: skip


def run(kind: str, limit: int, share: float) -> dict[str, Any]:
    """One record, of a join in a process of its own."""
    asked = [sys.executable, "-m", "bench.spilling", "--child", kind, "--limit", str(limit), "--share", str(share)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True, cwd=DOCS.parent)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def _least(kind: str, limit: int, share: float, runs: int) -> dict[str, Any]:
    return min((run(kind, limit, share) for _ in range(runs)), key=lambda r: r["cpu"])


def _mb(n: int) -> str:
    return f"{n / 1e6:.0f} MB"


def _drawn(series: dict[str, tuple[list[int], int]], folder: Path) -> None:
    """Resident size over time; of each series the sizes, and the limit."""
    plt = charts.pyplot()
    figure, axes = plt.subplots(figsize=(6, 3.6))
    for name, (over, limit) in series.items():
        (line,) = axes.plot(np.arange(len(over)) * BATCH / 1e6, np.array(over) / 1e6, label=name)
        if limit:
            axes.axhline(limit / 1e6, linestyle=":", color=line.get_color())
    axes.set(xlabel="million rows of both sides", ylabel="resident, over the start, MB")
    axes.legend()
    charts.save(figure, folder / "memory-spilled.svg")


def main(arguments: Sequence[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--share", type=float, default=1.0, help="of the rows, windows and keys")
    p.add_argument("--runs", type=int, default=1)
    p.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    p.add_argument("--output", type=Path, default=DOCS)
    p.add_argument("--child", choices=list(KINDS), help=argparse.SUPPRESS)
    p.add_argument("--limit", type=int, default=0, help=argparse.SUPPRESS)
    options = p.parse_args(arguments)
    if options.child:
        print(json.dumps(measured(options.child, options.limit, options.share)))
        return
    lines = []
    for k, kind in enumerate(options.kinds):
        free = _least(kind, 0, options.share, options.runs)
        series = {"no limit": (free["over"], 0)}
        lines.append([kind, f"none ({_mb(free['need'])} needed)", f"{free['cpu']:.1f}", "1.0", _mb(free["peak"]), ""])
        for part in SHARES:
            limit = int(free["need"] * part)
            r = _least(kind, limit, options.share, options.runs)
            if r["found"] != free["found"]:
                raise AssertionError(f"{kind}, {part} of the need: {r['found']} rows came, expected {free['found']}")
            lines.append([
                "", f"{_mb(limit)}, {part:.2f} of it", f"{r['cpu']:.1f}", f"{r['cpu'] / free['cpu']:.1f}",
                _mb(r["peak"]), _mb(r["spilled"]),
            ])  # fmt: skip
            series[f"within {_mb(limit)}"] = r["over"], limit
        if k == 0:
            _drawn(series, options.output)
    head = ["rows", "limit", "CPU seconds", "factor", "peak above the start", "on disk"]
    print(table(head, lines))


if __name__ == "__main__":
    main()
