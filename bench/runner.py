"""The runner: every case with every peer that can run it, cell by cell, into a file of JSON lines."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.answer import candidates, expected
from bench.case import Case
from bench.cases import select
from bench.cell import measure, memory
from bench.peers import PEERS
from bench.tables import net

__all__ = ["append", "machine", "main", "save"]

RESULTS = Path(__file__).parent / "results"
_MOST_MEMORY = 8 << 30  # of a cell's process: beyond that it is ended and reported as such


def command() -> str:
    """The command line of this process, as one types it."""
    path = Path(sys.argv[0])
    folder = "bench.papers" if path.parent.name == "papers" else "bench"
    name = folder if path.stem == "__main__" else f"{folder}.{path.stem}"
    return " ".join(["python -m", name, *map(shlex.quote, sys.argv[1:])])


def machine() -> dict[str, Any]:
    """Where the figures come from: processor, cores, memory, versions."""
    cpu = platform.processor() or "unknown"
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(x.split(":", 1)[1].strip() for x in lines if "model name" in x)
    versions = {"python": platform.python_version()}
    for p in ("ivjoin", "pyarrow", "numpy", "numba", "datafusion", "duckdb", "polars", "pandas", "pyspark"):
        try:
            versions[p] = version(p)
        except PackageNotFoundError:
            continue
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return {
        "kind": "machine", "cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(pages / 2**30, 1),
        "system": platform.platform(), "versions": versions, "load": os.getloadavg()[0],
        "command": command(), "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def save(path: Path, records: list[dict[str, Any]]) -> None:
    """Write a result file: the machine, then the records, one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in [machine(), *records]))


def append(path: Path | None, record: dict[str, Any]) -> None:
    """Add a record to a result file, if there is one."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def write(case: Case, folder: Path) -> dict[str, Any]:
    """Generate a case's tables and its answer."""
    folder.mkdir(parents=True)
    left, right = case.make()
    for name, table in (("left", left), ("right", right)):
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as f, pa.ipc.new_file(f, table.schema) as writer:
            writer.write_table(table)
    answer = expected(case, left, right)
    return {"rows": answer.rows, "checksum": answer.checksum, "candidates": candidates(case, left, right)}


def isolated(spec: dict[str, Any], limit: float) -> dict[str, Any]:
    """A cell in a fresh process, ended when its time or its memory is spent."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        begun = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.cell", json.dumps(spec)], stdout=out, stderr=err,
            cwd=Path(__file__).parent.parent,
        )
        status = None
        try:
            while child.poll() is None and status is None:
                time.sleep(0.02)
                if time.perf_counter() - begun > limit:
                    status = {"status": "slow", "detail": f"over {limit:g} s"}
                elif memory("VmRSS", child.pid) > _MOST_MEMORY:
                    status = {"status": "memory", "detail": f"over {_MOST_MEMORY >> 30} GiB"}
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if status:
            return status
        wall = time.perf_counter() - begun
        out.seek(0)
        err.seek(0)
        if child.returncode:
            text = err.read().strip()
            last = text.rpartition("Traceback (most recent call last):")[2].splitlines()
            detail = " ".join(x.strip() for x in last if x and not x.startswith(" "))
            return {"status": "failed", "detail": detail[:300] or f"exit code {child.returncode}"}
        return {**json.loads(out.read().strip().splitlines()[-1]), "process_seconds": wall}


def cells(case: Case, peers: list[str], only: list[int]) -> Iterator[tuple[str, int | None]]:
    for name in peers:
        if case.peers is not None and name not in case.peers:
            continue
        for batch in case.batches if PEERS[name].streaming else (None,):
            if batch is None or not only or batch in only:
                yield name, batch


def _line(case: Case, name: str, batch: int | None, r: dict[str, Any]) -> str:
    head = f"{case.name:38} {name:24} {batch or '':>6}"
    if r["status"] != "ok":
        return f"{head}  {r['status']}: {r.get('detail', '')}"
    cpu = r["cpu_seconds"]
    bare = f", net {net(r):.4f}" if "input_cpu_seconds" in r else ""
    state = f"  state {r['peak_state_rows']}" if "peak_state_rows" in r else ""
    spread = f"({r['fastest']:.4f}..{r['slowest']:.4f}, {r['runs']})"
    return f"{head}  {r['seconds']:9.4f} s {spread}  cpu {cpu:.4f}{bare}{state}"


def run(args: argparse.Namespace) -> int:
    peers = [p for p in (args.peers or PEERS) if PEERS[p].installed()]
    missing = [p for p in PEERS if not PEERS[p].installed()]
    chosen = select(args.profile, args.case)
    if not chosen:
        print(f"no case matches {args.case}", file=sys.stderr)
        return 2
    out = Path(args.out) if args.out else RESULTS / f"{args.profile}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    work = Path(tempfile.mkdtemp(prefix="ivjoin-bench-"))
    wrong = 0
    try:
        with part.open("w") as f:
            f.write(json.dumps({**machine(), "profile": args.profile, "missing": missing}) + "\n")
            for number, case in enumerate(chosen):
                folder = work / str(number)
                truth = write(case, folder)
                for name, batch in cells(case, peers, args.batch):
                    reason = PEERS[name].refuses(case, truth["candidates"])
                    spec = {
                        "case": case.name, "peer": name, "batch": batch, "folder": str(folder), "rows": truth["rows"],
                        "checksum": truth["checksum"], "repeat": args.repeat, "budget": args.limit * 0.7,
                        "cores": args.cores or PEERS[name].cores,
                    }  # fmt: skip
                    if reason:
                        result = {"status": "refused", "detail": reason}
                    elif args.in_process:
                        try:
                            result = measure(spec)
                        except Exception as e:
                            detail = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
                            result = {"status": "failed", "detail": detail}
                    else:
                        result = isolated(spec, args.limit)
                    if result["status"] == "failed" and any(m in result["detail"] for m in PEERS[name].cannot):
                        result["status"] = "cannot"
                    record = {"kind": "cell", "family": case.family, "how": case.how} | {
                        k: spec[k] for k in ("case", "peer", "batch", "cores")
                    }
                    f.write(json.dumps(record | result | {"rows_expected": truth["rows"]}) + "\n")
                    f.flush()
                    wrong += result["status"] in ("wrong", "failed")
                    print(_line(case, name, batch, result), flush=True)
                shutil.rmtree(folder)
        part.replace(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"results in {out}; {wrong} wrong or failed")
    return 1 if wrong else 0


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench", description=__doc__)
    p.add_argument("case", nargs="*", help="families or patterns of case names (default: all of the profile)")
    p.add_argument("--profile", choices=("smoke", "quick", "full"), default="quick")
    p.add_argument("--peers", action="append", choices=list(PEERS), help="only this peer (repeatable)")
    p.add_argument("--batch", action="append", type=int, default=[], help="only this batch size (repeatable)")
    p.add_argument("--repeat", type=int, default=None, help="timed runs of a cell (default 5; smoke 1)")
    p.add_argument("--limit", type=float, default=None, help="seconds a cell's process may take (default 60; full 180)")
    p.add_argument("--cores", type=int, default=None, help="pin every peer to so many cores")
    p.add_argument("--in-process", action="store_true", help="no process per cell (the default of smoke)")
    p.add_argument("--out", help="result file (default bench/results/PROFILE.jsonl)")
    args = p.parse_args(argv)
    # ended from outside, the cell's process and the temporary files go too
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    smoke = args.profile == "smoke" and not args.case
    args.repeat = args.repeat or (1 if smoke else 5)
    args.limit = args.limit or {"smoke": 20.0, "quick": 60.0, "full": 180.0}[args.profile]
    args.in_process |= smoke
    return run(args)
