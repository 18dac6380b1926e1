"""Pruning symmetric hash join (Synnada, DataFusion): batch size x cardinality x table size, and a run with and without.

The grid is that of ``python -m bench seed``, with DataFusion's own operator in the same cells. The run over time pushes
the same batches into a join that prunes and into one whose inputs declare no order, which therefore stores all rows.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import charts, runner
from bench.cases.seed import seed_case
from bench.peers.base import in_turn
from bench.tables import Cells, geometric_mean, net, seed_grid, table
from ivjoin import SymmetricHashJoin

__all__ = ["lines", "over_time", "run"]

Record = dict[str, Any]
_POINTS = 32


def over_time(card: int, rows: int, batch: int, prunes: bool) -> Record:
    """Processor seconds so far, and rows in state, at some points of a run."""
    case = seed_case(card, rows)
    left, right = case.make()
    orders: dict[str, Any] = {"left_order": "s", "right_order": "s"} if prunes else {}
    op = SymmetricHashJoin(left.schema, right.schema, on="k", condition=case.condition, **orders)
    events, spent, out = in_turn(left, right, batch), 0.0, 0
    series: dict[str, list[float]] = {"rows": [], "seconds": [], "state": []}
    for number, (side, b) in enumerate(events, 1):
        begun = time.process_time()
        out += sum(found.num_rows for found in op.push(side, b))
        spent += time.process_time() - begun
        if number * _POINTS // len(events) > (number - 1) * _POINTS // len(events):
            for name, value in zip(series, (number * batch, spent, op.metrics.state_rows), strict=True):
                series[name].append(round(value, 6))
    return {"kind": "over time", "card": card, "batch": batch, "prunes": prunes, "rows_out": out, **series}


def run(quick: bool) -> list[Record]:
    """All cells of the grid, and the runs over time."""
    over_time(8, 1024, 128, True)  # compiles kernels where this was not done at installation
    arguments = ["seed/*/8192 rows", "--in-process", "--repeat", "1"] if quick else ["seed", "--repeat", "3"]
    with tempfile.TemporaryDirectory(prefix="ivjoin-bench-") as folder:
        path = Path(folder) / "cells.jsonl"
        if runner.main([*arguments, "--peers", "ivjoin", "--peers", "DataFusion SHJ", "--out", str(path)]):
            raise SystemExit("a cell failed or gave a wrong answer; the line above says which")
        cells = [json.loads(line) for line in path.read_text().splitlines()]
    return [*cells[1:], *runs_over_time(8192 if quick else 65_536)]


def runs_over_time(rows: int) -> list[Record]:
    """With and without pruning, by cardinality; each once before it counts."""
    pairs = [(card, prunes) for card in (8, 1024) for prunes in (True, False)]
    return [[over_time(card, rows, 512, prunes) for _ in range(2)][1] for card, prunes in pairs]


def lines(records: Sequence[Record], folder: Path) -> list[str]:
    """Tables, and charts in a folder."""
    cells, out = Cells([r for r in records if r["kind"] == "cell"]), []
    for rows in cells.seed_rows():
        grid, ratios = seed_grid(cells, rows)
        chart = charts.seed(cells, rows, folder)
        out += [f"{rows:,} rows per side:", ""]
        out += [f"![Time by keys and batch size, {rows:,} rows per side]({chart})", ""] if chart else []
        out += [grid, ""]
        if ratios:
            out += ["DataFusion's net time divided by ivjoin's has a geometric mean of "
                    f"**{geometric_mean(ratios):.1f}** over {len(ratios)} cells. "
                    f"The least ratio is {min(ratios):.2f}.", ""]  # fmt: skip
    close = [
        f"{net(theirs) / net(ours):.1f} ({rows:,} rows)" for rows in cells.seed_rows()
        if (ours := cells.get(f"seed/1024 keys/{rows} rows", "ivjoin", 128)) and ours["status"] == "ok"
        and (theirs := cells.get(f"seed/1024 keys/{rows} rows", "DataFusion SHJ", 128)) and theirs["status"] == "ok"
    ]  # fmt: skip
    if close:
        out += [f"With 1,024 keys and batches of 128 rows, the ratio is {', '.join(close)}.", ""]
    own = [r for r in records if r["kind"] == "over time"]
    return [
        *out, "The same batches with and without pruning:", "",
        table(["keys", "batch", "pruning", "rows pushed", "rows in state at the end", "greatest", "CPU s", "rows out"],
              [[str(r["card"]), str(r["batch"]), "yes" if r["prunes"] else "no", f"{r['rows'][-1]:,}",
                f"{r['state'][-1]:,}", f"{max(r['state']):,}", f"{r['seconds'][-1]:.4f}", f"{r['rows_out']:,}"]
               for r in own]),
        "", f"![Time and state over a run, with and without pruning]({_chart(own, folder)})",
    ]  # fmt: skip


def _chart(own: Sequence[Record], folder: Path) -> str:
    figure, axes = charts.pyplot().subplots(1, 2, figsize=(9, 3), layout="constrained")
    for r in own:
        style = {"color": "#c1272d" if r["prunes"] else "gray", "linestyle": "-" if r["card"] == 8 else "--"}
        label = f"{r['card']} keys, {'pruning' if r['prunes'] else 'no pruning'}"
        axes[0].plot(r["rows"], [1e3 * s for s in r["seconds"]], label=label, **style)
        axes[1].semilogy(r["rows"], r["state"], label=label, **style)
    axes[0].set(xlabel="rows pushed, both sides", ylabel="CPU, ms")
    axes[1].set(xlabel="rows pushed, both sides", ylabel="rows in state")
    axes[0].legend(fontsize=8)
    return charts.save(figure, folder / "papers-pruning-run.svg")
