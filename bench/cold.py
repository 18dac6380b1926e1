"""Measure the time from the start of a process to the last row of a small join.

    python -m bench.cold

The case is ``seed`` with 8,192 rows per side, read from Arrow files. ivjoin runs twice: with compiled kernels on disk,
and without them, as in the first join after the installation. ``nothing`` is a process that only reads the files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.cases import named
from bench.cell import open_table
from bench.peers import PEERS
from bench.runner import RESULTS, save, write

__all__ = ["main"]

CASE = "seed/64 keys/8192 rows"
NOTHING, NO_CACHE = "nothing", "ivjoin, kernels not compiled"


def child(what: str, folder: Path) -> None:
    left, right = open_table(folder / "left.arrow"), open_table(folder / "right.arrow")
    if what == NOTHING:
        return
    peer = PEERS[what]()
    peer.prepare(named(CASE), left, right, 4096 if peer.streaming else None, folder)
    peer.run(lambda batch: None)


def timed(what: str, folder: Path) -> float:
    # Bytecode is kept, as where a package is installed, for every system alike; beside the tree, which stays as it is.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    with tempfile.TemporaryDirectory() as cache:
        if what == NO_CACHE:
            environment["NUMBA_CACHE_DIR"] = cache
        command = [sys.executable, "-m", "bench.cold", "--child", "ivjoin" if what == NO_CACHE else what, str(folder)]
        begun = time.perf_counter()
        subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parent.parent, timeout=300)
        return time.perf_counter() - begun


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.cold", description=__doc__.splitlines()[0])
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--out", default=str(RESULTS / "cold.jsonl"))
    p.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    if args.child:
        child(args.child[0], Path(args.child[1]))
        return 0
    records = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "case"
        write(named(CASE), folder)
        others = [name for name, peer in PEERS.items() if not name.startswith("ivjoin") and peer.installed()]
        shown = [NOTHING, "ivjoin", NO_CACHE, *others]
        for what in shown:
            if what != NO_CACHE:
                timed(what, folder)  # for the bytecode, and ivjoin's kernels
            runs = [timed(what, folder) for _ in range(max(1, args.runs // 2) if what == NO_CACHE else args.runs)]
            records.append({
                "kind": "cold", "what": what, "seconds": statistics.median(runs), "fastest": min(runs),
                "slowest": max(runs), "runs": len(runs),
            })  # fmt: skip
            print(f"{what:30} {statistics.median(runs):7.3f} s ({min(runs):.3f}..{max(runs):.3f})", flush=True)
    save(Path(args.out), records)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
