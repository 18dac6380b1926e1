"""Measure how evenly the planner spreads skewed joins, compared with hashed keys and with a lower bound.

    python -m bench.routing                  # a million rows a side; writes docs/benchmarks-routing.md
    python -m bench.routing --rows 20000 --out build/bench/routing.jsonl --page build/bench/routing.md

Every row goes through the shipped planner and router (``ivjoin.routing.simulate``); nothing is joined, all output is
counted. Joins of keys alone, and of keys and a band, whose keys are drawn from one Zipf distribution; then joins of a
band narrower and wider than a worker's share, without a key, of one key, and with 80 % of the rows in one key.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.papers.common import put
from bench.runner import RESULTS, save
from ivjoin.routing import LoadReport, simulate

__all__ = ["main", "sides"]

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-routing.md"
WORKERS = (8, 48, 64, 200)
EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0)
KEYS = 100_000
JOINS = {"no key": 1.0, "one key": 1.0, "80 % in one key": 0.8}  # and how many rows have that key
BAND = "l.t BETWEEN r.t - 500 AND r.t + 500"


def sides(rows: int, exponent: float, keys: int) -> tuple[pa.Table, pa.Table]:
    weight = np.arange(1, keys + 1) ** -exponent
    out = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        k = rng.choice(keys, size=rows, p=weight / weight.sum())
        out.append(pa.table({"k": k, "t": np.sort(rng.integers(0, 10 * rows, rows)), "v": np.arange(rows)}))
    return out[0], out[1]


def around_one_key(rows: int, part: float) -> tuple[pa.Table, pa.Table]:
    """So many of the rows have one key, the others one of a thousand."""
    out = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        k = np.where(rng.random(rows) < part, 7, rng.integers(0, 1000, rows))
        out.append(pa.table({"k": k, "t": np.sort(rng.integers(0, 10 * rows, rows)), "v": np.arange(rows)}))
    return out[0], out[1]


def least_replication(report: LoadReport, rows: np.ndarray, pairs: np.ndarray) -> float:
    """Copies a row that any plan makes whose fullest worker has a report's load, at least.

    A worker that puts out m pairs of one key has 2 sqrt(m) rows of it or more, as those of a rectangle of pairs, so of
    a load of 2 sqrt(m) + beta m no more than m fit.

    ``rows``, ``pairs``: rows of both sides and output rows of each key : float[keys].
    """
    root = report.load / (1 + np.sqrt(1 + report.beta * report.load))
    return float(np.maximum(rows, 2 * pairs / root).sum() / rows.sum())


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.routing", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=1_000_000, help="of each side (default: %(default)s)")
    p.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    p.add_argument("--out", default=str(RESULTS / "routing.jsonl"))
    p.add_argument("--page", default=str(PAGE))
    args = p.parse_args(argv)
    records: list[dict[str, Any]] = []

    def run(
        join: str, left: pa.Table, right: pa.Table, scheme: str, exponent: float | None, band: str | None = None,
        **options: Any,
    ) -> None:
        start = time.perf_counter()
        r = simulate(left, right, scheme=scheme, **options)
        seconds = time.perf_counter() - start
        record = {
            "kind": "routing", "join": join, "rows": args.rows, "exponent": exponent, "scheme": scheme,
            "workers": options["workers"], "how": options.get("how", "inner"), "skew": round(r.skew_degree, 3),
            "replication": round(r.replication, 3), "over": round(r.over_bound, 3), "seconds": round(seconds, 2),
        }  # fmt: skip
        if band is not None:
            record["band"] = band
        if join == "keys":
            a, b = (np.bincount(t["k"].to_numpy(), minlength=KEYS).astype(float) for t in (left, right))
            record["least"] = round(least_replication(r, a + b, a * b), 3)
        records.append(record)
        print(json.dumps(record), flush=True)

    for exponent in EXPONENTS:
        left, right = sides(args.rows, exponent, min(KEYS, args.rows))
        for workers in args.workers:
            for scheme in ("hash", "auto"):
                run("keys", left, right, scheme, exponent, on="k", workers=workers)
                both = {"on": "k", "condition": BAND}
                run("keys and band", left, right, scheme, exponent, workers=workers, **both)
    for join, part in JOINS.items():
        left, right = around_one_key(args.rows, part)
        for band, width in (("narrow", 500), ("wide", args.rows // 2)):
            on, condition = None if join == "no key" else "k", f"l.t BETWEEN r.t - {width} AND r.t + {width}"
            for how in ("inner", "left", "full") if join == "no key" else ("inner", "full"):
                for workers in args.workers:
                    for scheme in ("hash", "auto"):
                        options = {"on": on, "condition": condition, "how": how, "workers": workers}
                        run(join, left, right, scheme, None, band, **options)
    save(Path(args.out), records)
    put(Path(args.page), "tables", _lines(records))
    return 0


def _lines(records: list[dict[str, Any]]) -> list[str]:
    rows = f"{records[0]['rows']:,}"
    out = []
    for join, title in (("keys", "Equal keys only"), ("keys and band", "Equal keys and a band")):
        out += [f"{title}, {rows} rows per side. Skew degree, copies per row, and load over the lower bound:", ""]
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
    out += [
        f"Bands without a key, with one key, and with 80 % of the rows in one key, {rows} rows per side. *Hash* is the "
        "load over the lower bound with hashed keys. The other columns describe the plan:", "",
    ]  # fmt: skip
    out += ["| join | band | type | workers | hash | skew degree | copies per row | load over the bound |"]
    out += ["|---|---|---|---|---|---|---|---|"]
    for h, r in zip(*([r for r in records if "band" in r and r["scheme"] == s] for s in ("hash", "auto")), strict=True):
        out.append(
            f"| {r['join']} | {r['band']} | {r['how']} | {r['workers']} | {h['over']:.2f} | {r['skew']:.2f} | "
            f"{r['replication']:.2f} | **{r['over']:.2f}** |"
        )
    planned = [r for r in records if r["scheme"] == "auto"]
    over = np.array([r["over"] for r in planned])
    copied = [r["replication"] / r["least"] for r in planned if "least" in r]
    out += ["", (
        f"Over all {len(over)} plans, the load over the lower bound has a geometric mean of "
        f"{np.exp(np.log(over).mean()):.3f} and a maximum of {over.max():.2f}. For keys only, the number of copies is "
        f"at most {max(copied):.2f} times the least number for any plan with the same load."
    )]  # fmt: skip
    return out


if __name__ == "__main__":
    raise SystemExit(main())
