"""Run the experiments of the papers: ``python -m bench.papers [--quick] [1..5]``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from bench.papers import approximate, cluster, hypercube, pruning, squall
from bench.papers.common import DOCS, Refused, measured_on, put
from bench.runner import RESULTS, machine, save

__all__ = ["main"]

HOWS = ("threads", "processes", "simulated", "spark")
PAPERS: dict[int, Any] = {1: pruning, 2: hypercube, 3: squall, 4: approximate, 5: cluster}


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.papers", description=__doc__)
    p.add_argument("papers", nargs="*", type=int, metavar="PAPER", help="1 to 5 (default: all)")
    p.add_argument("--quick", action="store_true", help="small, in about a minute; writes below build/bench")
    p.add_argument("--out", type=Path, help="folder of the result files (default: bench/results)")
    p.add_argument("--page", type=Path, help="page between whose marks the tables go (default: docs/papers.md)")
    p.add_argument("--rates", type=float, nargs="+", default=(), help="of 5: rows a second of each stream")
    p.add_argument("--workers", type=int, nargs="+", default=(), help="of 5: numbers of workers")
    p.add_argument("--how", nargs="+", default=(), choices=HOWS, help="of 5: workers")
    args = p.parse_args(argv)
    built = Path("build/bench")
    out = args.out or (built if args.quick else RESULTS)
    page = args.page or (built / "papers.md" if args.quick else DOCS / "papers.md")
    chosen = args.papers or list(PAPERS)
    try:
        if unknown := [n for n in chosen if n not in PAPERS]:
            raise Refused(f"paper {unknown[0]} does not exist; expected numbers from {min(PAPERS)} to {max(PAPERS)}")
        cluster.check(args.rates, args.workers, args.how)
        for number in chosen:
            paper, begun = PAPERS[number], time.perf_counter()
            name = paper.__name__.rpartition(".")[2]
            section = "spark" if number == 5 and "spark" in args.how else name
            options = (args.rates, args.workers, args.how) if number == 5 else ()
            where = measured_on(machine())
            records: list[dict[str, Any]] = []
            try:
                for record in paper.run(args.quick, *options):
                    print({k: v for k, v in record.items() if not isinstance(v, list)}, flush=True)
                    records.append(record)
            finally:  # what a run that is ended has measured
                save(out / f"papers-{section}.jsonl", records)
            page.parent.mkdir(parents=True, exist_ok=True)
            put(page, section, [*where, *paper.lines(records, page.parent)])
            print(f"paper {number}, {section}: {time.perf_counter() - begun:.0f} s; wrote {page}", flush=True)
    except Refused as e:
        print(f"python -m bench.papers: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
