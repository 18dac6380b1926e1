"""Load of the fullest worker over the lower bound: keys hashed, and what the planner makes of them.

    python -m bench.routing                  # a million rows a side; writes the tables of docs/parallel.md
    python -m bench.routing --rows 20000 --out build/bench/routing.jsonl --page build/bench/parallel.md
    python -m bench.routing_page             # the chart and the worked examples of docs/routing.md, from the results

Every row goes through the shipped planner and router (``ivjoin.routing.simulate``); nothing is joined, all output is
counted. Three joins: of keys alone, of keys and a band, of a band without a key. Keys of both sides are drawn from the
same Zipf distribution.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.runner import RESULTS, save
from ivjoin.routing import simulate

__all__ = ["main", "page", "sides"]

PAGE = Path(__file__).parent.parent / "docs" / "parallel.md"
WORKERS = (8, 64, 200)
EXPONENTS = (0.0, 0.5, 1.0, 1.5)
KEYS = 100_000
BAND = "l.t BETWEEN r.t - 500 AND r.t + 500"


def sides(rows: int, exponent: float, keys: int) -> tuple[pa.Table, pa.Table]:
    weight = np.arange(1, keys + 1) ** -exponent
    out = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        k = rng.choice(keys, size=rows, p=weight / weight.sum())
        out.append(pa.table({"k": k, "t": np.sort(rng.integers(0, 10 * rows, rows)), "v": np.arange(rows)}))
    return out[0], out[1]


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.routing", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=1_000_000, help="of each side (default: %(default)s)")
    p.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    p.add_argument("--out", default=str(RESULTS / "routing.jsonl"))
    p.add_argument("--page", default=str(PAGE))
    args = p.parse_args(argv)
    records: list[dict[str, Any]] = []

    def run(join: str, left: pa.Table, right: pa.Table, scheme: str, exponent: float | None, **options: Any) -> None:
        start = time.perf_counter()
        r = simulate(left, right, scheme=scheme, **options)
        record = {
            "kind": "routing", "join": join, "rows": args.rows, "exponent": exponent, "scheme": scheme,
            "workers": options["workers"], "how": options.get("how", "inner"), "skew": round(r.skew_degree, 3),
            "replication": round(r.replication, 3), "over": round(r.over_bound, 3),
            "seconds": round(time.perf_counter() - start, 2),
        }  # fmt: skip
        records.append(record)
        print(json.dumps(record), flush=True)

    for exponent in EXPONENTS:
        left, right = sides(args.rows, exponent, min(KEYS, args.rows))
        for workers in args.workers:
            for scheme in ("hash", "auto"):
                run("keys", left, right, scheme, exponent, on="k", workers=workers)
                both = {"on": "k", "condition": BAND}
                run("keys and band", left, right, scheme, exponent, workers=workers, **both)
    for how in ("inner", "left", "full"):
        for workers in args.workers:
            run("band", left, right, "auto", None, condition=BAND, workers=workers, how=how)
    save(Path(args.out), records)
    page(Path(args.page), records)
    return 0


def page(path: Path, records: list[dict[str, Any]]) -> None:
    """Put the tables between the marks of a page."""
    text = path.read_text() if path.exists() else "<!-- tables -->\n<!-- end of tables -->\n"
    marks = re.compile(r"(<!-- tables -->\n).*?(<!-- end of tables -->)", re.DOTALL)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(marks.sub(lambda m: m[1] + _tables(records) + m[2], text))


def _tables(records: list[dict[str, Any]]) -> str:
    rows = f"{records[0]['rows']:,}"
    out = []
    for join, title in (("keys", "Equal keys alone"), ("keys and band", "Equal keys and a band")):
        out += [f"{title}, {rows} rows a side. Skew degree, copies a row, and load over the lower bound:", ""]
        workers = list(dict.fromkeys(r["workers"] for r in records))
        out.append("| Zipf | scheme | " + " | ".join(f"{w} workers" for w in workers) + " |")
        out.append("|---|---|" + "---|" * len(workers))
        for exponent in EXPONENTS:
            for scheme in ("hash", "auto"):
                cells = []
                for w in workers:
                    r = next(
                        r for r in records
                        if (r["join"], r["exponent"], r["scheme"], r["workers"]) == (join, exponent, scheme, w)
                    )  # fmt: skip
                    cells.append(f"{r['skew']:.2f}, {r['replication']:.2f}, **{r['over']:.2f}**")
                out.append(f"| {exponent:g} | {scheme} | " + " | ".join(cells) + " |")
        out.append("")
    out += [f"A band without a key, {rows} rows a side, `auto`:", ""]
    out += ["| join | workers | skew degree | copies a row | load over the bound |", "|---|---|---|---|---|"]
    for r in records:
        if r["join"] == "band":
            line = f"| {r['how']} | {r['workers']} | {r['skew']:.2f} | {r['replication']:.2f} | **{r['over']:.2f}** |"
            out.append(line)
    return "\n".join([*out, ""]) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
