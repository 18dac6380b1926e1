"""Streaming HyperCube (Qiu, Papadias, Yi, EDBT 2019): routing of a streaming join whose keys are skewed.

Every row goes through the shipped planner and router; nothing is joined, all output is counted. The adaptive rule runs
over a stream with two heavy keys, one of which grows while the other one shrinks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.charts import pyplot, save
from bench.routing import EXPONENTS, sides
from bench.tables import table
from ivjoin.routing import Relation, heavy_grids, hypercube, simulate
from ivjoin.routing.report import BETA

__all__ = ["adapted", "examples", "lines", "loads", "run"]

Record = dict[str, Any]
Grids = dict[Hashable, tuple[int, int]]
_COLORS = {"hash": "#0b5394", "one grid": "#6aa84f", "auto": "#c1272d"}
_WORKERS = (8, 64)
_STEPS = 12


def examples() -> list[list[str]]:
    """The worked example: the heavy keys, the paper's grids, and those of ``heavy_grids``."""
    now = heavy_grids({"b1": (100, 100), "b2": (50, 200)}, workers=8)
    later = heavy_grids({"b1": (100, 300), "b2": (50, 200)}, workers=8, current=now)
    return [
        ["b1 of 100 and 100 rows, b2 of 50 and 200", "2 x 2 and 1 x 4", _grids(now)],
        ["then b1 of 100 and 300 rows", "2 x 4 and 1 x 4", _grids(later)],
    ]


def _grids(grids: Grids) -> str:
    return " and ".join(f"{a} x {b}" for a, b in grids.values())


def loads(rows: int) -> list[Record]:
    """The loads of keys that are hashed, of one grid for all rows (which knows no keys), and of our plan.

    By skew and workers; then of joins on the primary key of both sides, and of one.
    """
    out = []
    joins = [(f"{e:g}", sides(rows, e, min(100_000, rows))) for e in EXPONENTS]
    key, other = (pa.table({"k": np.random.default_rng(s).permutation(rows)}) for s in (1, 2))
    joins += [("primary keys", (key, other)), ("primary and foreign key", (key, pa.table({"k": joins[0][1][1]["k"]})))]
    for keys, (left, right) in joins:
        for workers in _WORKERS:
            found = {s: simulate(left, right, on="k", workers=workers, scheme=s) for s in ("hash", "auto")}
            loads = {scheme: (r.over_bound, r.replication) for scheme, r in found.items()}
            plan = hypercube({side: Relation(rows, ("k",)) for side in "RS"}, workers, "random")
            whole = plan.load + BETA * found["auto"].rows_out.sum() / workers
            loads["one grid"] = whole / found["auto"].lower_bound, plan.total / (2 * rows)
            for scheme, (over, replication) in loads.items():
                out.append({
                    "kind": "load", "keys": keys, "scheme": scheme, "workers": workers, "rows": rows,
                    "over": round(float(over), 3), "replication": round(replication, 3),
                })  # fmt: skip
    return out


def adapted(workers: int) -> list[Record]:
    """The rule over a stream: b1 grows from 100 to 3,200 rows per side, and b2 shrinks from 3,200 to 100."""
    grids, out = None, []
    for step in range(_STEPS + 1):
        sizes = [100 * 2 ** (5 * x / _STEPS) for x in (step, _STEPS - step)]
        heavy: dict[Hashable, tuple[float, float]] = {"b1": (sizes[0], sizes[0]), "b2": (sizes[1], sizes[1])}
        grids = heavy_grids(heavy, workers, current=grids)
        root = (sum(a * b for a, b in heavy.values()) / workers) ** 0.5
        cells = {key: heavy[key][0] / a + heavy[key][1] / b for key, (a, b) in grids.items()}
        out.append({
            "kind": "adapted", "step": step, "workers": workers, "b1": [sizes[0], *grids["b1"]],
            "b2": [sizes[1], *grids["b2"]], "cells": sum(a * b for a, b in grids.values()),
            "load": round(max(cells.values()) / (2 * root), 3),
        })  # fmt: skip
    return out


def run(quick: bool) -> list[Record]:
    """All cells."""
    return loads(20_000 if quick else 200_000) + adapted(64)


def lines(records: Sequence[Record], folder: Path) -> list[str]:
    """Tables, and a chart in a folder."""
    cells = [r for r in records if r["kind"] == "load"]
    at = {(r["keys"], r["workers"], r["scheme"]): r for r in cells}
    steps = [r for r in records if r["kind"] == "adapted"]
    columns = [(w, s) for w in _WORKERS for s in _COLORS]
    return [
        table(["heavy keys, 8 workers", "grids of the paper", "`heavy_grids`"], examples()), "",
        f"The load of the fullest worker divided by the lower bound, and the copies per row ({cells[0]['rows']:,} rows "
        "per side). *One grid* assigns all rows to the rows and columns of one grid. *Auto* is the choice of "
        "`plan_join`:", "",
        table(["keys", *(f"{s}, {w} workers" for w, s in columns)],
              [[f"Zipf {keys}" if keys[0].isdigit() else keys,
                *(f"{at[keys, w, s]['over']:.2f}, {at[keys, w, s]['replication']:.2f}" for w, s in columns)]
               for keys in dict.fromkeys(r["keys"] for r in cells)]),
        "", f"![Load by skew, and grids over a stream]({_chart(cells, steps, folder)})", "",
        f"The adaptive rule with {steps[0]['workers']} workers. *Load* is the number of rows in the fullest grid cell, "
        "divided by the number of rows in a cell if the grids had the desired sizes.", "",
        table(["step", "rows of b1 per side", "grid of b1", "rows of b2 per side", "grid of b2", "cells", "load"],
              [[str(r["step"]), *(x for k in ("b1", "b2") for x in (f"{r[k][0]:,.0f}", f"{r[k][1]} x {r[k][2]}")),
                str(r["cells"]), f"{r['load']:.2f}"] for r in steps]),
    ]  # fmt: skip


def _chart(cells: Sequence[Record], steps: Sequence[Record], folder: Path) -> str:
    figure, axes = pyplot().subplots(1, 3, figsize=(10, 3), layout="constrained")
    for scheme, color in _COLORS.items():
        for workers, style in zip(_WORKERS, ("-", "--"), strict=True):
            own = [r for r in cells if (r["scheme"], r["workers"]) == (scheme, workers) and r["keys"][0].isdigit()]
            at = [float(r["keys"]) for r in own]
            for axis, what in zip(axes, ("over", "replication"), strict=False):
                label = f"{scheme}, {workers} workers"
                axis.semilogy(at, [r[what] for r in own], style, color=color, label=label)
    axes[0].set(xlabel="Zipf exponent", ylabel="load over the lower bound")
    axes[1].set(xlabel="Zipf exponent", ylabel="copies a row")
    axes[0].legend(fontsize=7)
    for key, color in (("b1", "#0b5394"), ("b2", "#c1272d")):
        axes[2].step([r["step"] for r in steps], [r[key][1] * r[key][2] for r in steps], where="post", color=color,
                     label=f"cells of {key}")  # fmt: skip
    axes[2].plot([r["step"] for r in steps], [r["cells"] for r in steps], ":", color="gray", label="all cells")
    axes[2].set(xlabel="step of the stream", ylabel="cells")
    axes[2].legend(fontsize=7)
    return save(figure, folder / "papers-hypercube.svg")
