"""One cell: a case, a peer and a batch size, checked and then timed, by default in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.answer import Answer, row_sum

__all__ = ["measure", "memory", "open_table"]


def open_table(path: Path) -> pa.Table:
    """A table of an Arrow file, read into memory of its own."""
    with pa.OSFile(str(path)) as f:
        return pa.ipc.open_file(f).read_all().combine_chunks()


def memory(field: str, process: int | str = "self") -> int:
    """A figure of a process in bytes (VmRSS, VmHWM); 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def copy_seconds(size: int) -> float:
    """The least of five times that numpy takes to copy so many bytes: no join that reads and writes them is faster."""
    source, target = np.ones(max(size, 1), np.uint8), np.zeros(max(size, 1), np.uint8)
    spent = []
    for _ in range(5):
        begun = time.perf_counter()
        np.copyto(target, source)
        spent.append(time.perf_counter() - begun)
    return min(spent)


def measure(spec: dict[str, Any], peer: Any = None, case: Any = None) -> dict[str, Any]:
    """Check a cell's answer, then time it.

    Parameters
    ----------
    spec : dict
        ``case``, ``peer``, ``batch``, ``folder`` (with left.arrow and right.arrow), ``rows`` and ``checksum`` expected,
        ``repeat`` and ``budget`` (seconds; fewer repeats once they are spent).
    """
    begun = time.perf_counter()
    if peer is None:
        from bench.peers import PEERS

        peer = PEERS[spec["peer"]]()
    if case is None:
        from bench.cases import named

        case = named(spec["case"])
    folder = Path(spec["folder"])
    left, right = open_table(folder / "left.arrow"), open_table(folder / "right.arrow")
    scratch = folder / f"scratch-{os.getpid()}"
    scratch.mkdir(exist_ok=True)
    loaded = time.perf_counter()
    peer.prepare(case, left, right, spec["batch"], scratch)
    got, moved = Answer(), left.nbytes + right.nbytes
    apart = [0.0, 0.0]

    def check(batch: pa.RecordBatch) -> None:
        # at once, and its time taken off: pieces that are kept can hold on to far larger buffers of the peer
        nonlocal got, moved
        clock, spent = time.perf_counter(), time.process_time()
        got += row_sum(batch)
        moved += batch.nbytes
        apart[0] += time.perf_counter() - clock
        apart[1] += time.process_time() - spent

    _forget_peak()
    before = memory("VmRSS")
    first, spent = time.perf_counter(), time.process_time()
    peer.run(check)
    first_seconds = time.perf_counter() - first - apart[0]
    first_cpu = time.process_time() - spent - apart[1]
    want = Answer(spec["rows"], spec["checksum"])
    out: dict[str, Any] = {"first_seconds": first_seconds, "rows_out": got.rows}
    if got != want:
        return {**out, "status": "wrong", "detail": f"{got.rows} rows, checksum {got.checksum}; expected {want}"}
    _forget_peak()
    seconds: list[float] = []
    cpu: list[float] = []
    count = 0

    def take(batch: pa.RecordBatch) -> None:
        nonlocal count
        count += batch.num_rows

    slow = first_seconds > spec["budget"] / 3
    if slow:  # a second run may not fit: the first, checked one stands, and `runs` says that it is alone
        seconds, cpu = [first_seconds], [first_cpu]
    while not slow and len(seconds) < spec["repeat"] and (not seconds or time.perf_counter() - loaded < spec["budget"]):
        count = 0
        start, spent = time.perf_counter(), time.process_time()
        peer.run(take)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - spent)
        if count != want.rows:
            return {**out, "status": "wrong", "detail": f"{count} rows in a repeat, {want.rows} before"}
    out |= {
        "status": "ok", "seconds": statistics.median(seconds), "fastest": min(seconds), "slowest": max(seconds),
        "cpu_seconds": statistics.median(cpu), "bytes_in": left.nbytes + right.nbytes,
        "runs": len(seconds), "rows_in": left.num_rows + right.num_rows, "setup_seconds": first - begun,
        "peak_memory": memory("VmHWM"), "memory_added": max(0, memory("VmHWM") - before),
    }  # fmt: skip
    if peer.streaming:
        out |= {"bytes_moved": moved, "copy_seconds": copy_seconds(moved)}
    return out | peer.beside(slow)


def main() -> None:
    spec = json.loads(sys.argv[1])
    if spec["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: spec["cores"]])
    print(json.dumps(measure(spec)), flush=True)


if __name__ == "__main__":
    main()
