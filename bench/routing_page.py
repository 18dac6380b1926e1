"""Write the papers' worked examples, and a chart of the simulated loads, into docs/benchmarks-routing.md.

    python -m bench.routing_page            # from bench/results/routing.jsonl, simulating nothing

The shipped planner computes the examples. The papers' own figures are in the column next to its results.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from bench.charts import pyplot, save
from bench.runner import RESULTS
from ivjoin.routing import HypercubePlan, Relation, heavy_grids, hypercube

__all__ = ["draw", "examples", "main", "put"]

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-routing.md"
H = 1_000_000
CHAIN = {"R": Relation(H, ("x", "y")), "S": Relation(H, ("y", "z")), "T": Relation(H, ("z", "t"))}
SQUALL, STREAMING = "Squall", "Streaming HyperCube"
_COLORS = {"hash": "#0b5394", "auto": "#c1272d"}
_LINES = {8: "-", 48: (0, (1, 1, 3, 1)), 64: "--", 200: ":"}


def examples() -> list[tuple[str, str, str, str]]:
    """Return the rows of the table: the join, the paper, its printed result (corrected), the planner's result."""
    two = {"A": Relation(4, ("x",)), "B": Relation(1, ("x",))}
    heavy: dict[Hashable, tuple[float, float]] = {"b1": (100, 100), "b2": (50, 200)}
    now = heavy_grids(heavy, workers=8)
    later = heavy_grids({"b1": (100, 300), "b2": (50, 200)}, workers=8, current=now)
    chain, loads = "R(x,y), S(y,z), T(z,t) of H rows, 64 workers", "{0}; load {1:.4f} H, {2:.0f} H received"

    def found(plan: HypercubePlan) -> str:
        return loads.format(_grid(plan), plan.load / H, plan.total / H)

    return [
        (f"{chain}, hash", SQUALL, "8 x 8; load 0.2656 H, 17 H received", found(hypercube(CHAIN, 64, "hash"))),
        (f"{chain}, random", SQUALL, "4 x 4 x 4; load 0.75 H, 48 H received", found(hypercube(CHAIN, 64, "random"))),
        (f"{chain}, z skewed, hash", SQUALL, "8 x 8; load 0.6875 H", found(hypercube(CHAIN, 64, "hash", {"z"}))),
        (f"{chain}, z skewed, hybrid", SQUALL, "9 x 7 (printed as 7 and 9); load 0.3651 H, 23 H received",
         found(hypercube(CHAIN, 64, "hybrid", {"z"}))),
        ("two inputs of 4 : 1, 64 workers, random", SQUALL, "16 x 4", _grid(hypercube(two, 64, "random"))),
        ("three equal inputs, 7 workers, random", SQUALL, "1 x 2 x 3", _grid(hypercube(CHAIN, 7, "random"))),
        ("three equal inputs, 36 workers, hash", SQUALL, "6 x 6", _grid(hypercube(CHAIN, 36, "hash"))),
        ("heavy keys b1 of 100 and 100 rows, b2 of 50 and 200, 8 workers", STREAMING, "2 x 2 and 1 x 4", _grids(now)),
        ("then b1 of 100 and 300 rows", STREAMING, "2 x 4 and 1 x 4", _grids(later)),
    ]  # fmt: skip


def _grid(plan: HypercubePlan) -> str:
    return " x ".join(f"{name} {size}" for name, size in plan.dims.items())


def _grids(grids: dict[Any, tuple[int, int]]) -> str:
    return " and ".join(f"{key} {a} x {b}" for key, (a, b) in grids.items())


def draw(records: list[dict[str, Any]], folder: Path) -> str:
    """The chart, of the records of :mod:`bench.routing`: load over the lower bound, and copies a row, by skew."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(8, 5), sharex=True, sharey="row")
    for column, join in enumerate(("keys", "keys and band")):
        for scheme, color in _COLORS.items():
            for workers in dict.fromkeys(r["workers"] for r in records):
                own = [r for r in records if (r["join"], r["scheme"], r["workers"]) == (join, scheme, workers)]
                if own:
                    at = [r["exponent"] for r in own]
                    style = {"color": color, "linestyle": _LINES.get(workers, "-."), "label": f"{scheme}, {workers}"}
                    axes[0][column].semilogy(at, [r["over"] for r in own], **style)
                    axes[1][column].plot(at, [r["replication"] for r in own], **style)
        axes[0][column].set(title=f"join of {join}")
        axes[1][column].set(xlabel="Zipf exponent of the keys")
    axes[0][0].set_ylabel("load over the lower bound")
    axes[1][0].set_ylabel("copies a row")
    axes[1][1].legend(title="scheme, workers", fontsize=7)
    return save(figure, folder / "routing-load.svg")


def put(page: Path, records: list[dict[str, Any]]) -> None:
    """Draw the chart into the page's folder, and write it and the examples between the page's marks."""
    page.parent.mkdir(parents=True, exist_ok=True)
    chart = draw([r for r in records if r.get("kind") == "routing"], page.parent)
    lines = ["| join | paper | result of the paper | `ivjoin.routing` |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in examples()]
    lines += ["", f"![Load over the lower bound, and copies a row, by skew]({chart})", ""]
    text = page.read_text() if page.exists() else "<!-- planner -->\n<!-- end of planner -->\n"
    marks = re.compile(r"(<!-- planner -->\n).*?(<!-- end of planner -->)", re.DOTALL)
    page.write_text(marks.sub(lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text))


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.routing_page", description=__doc__.splitlines()[0])
    p.add_argument("--results", type=Path, default=RESULTS / "routing.jsonl")
    p.add_argument("--page", type=Path, default=PAGE)
    args = p.parse_args(argv)
    put(args.page, [json.loads(line) for line in args.results.read_text().splitlines()])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
