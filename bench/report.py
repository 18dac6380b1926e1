"""``python -m bench.report``: the result files as docs/benchmarks.md, with tables and charts.

    python -m bench.report                      # docs/benchmarks.md from the files in bench/results
    python -m bench.report --brief some.jsonl   # one result file as plain tables on the terminal
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench import charts
from bench.runner import RESULTS
from bench.tables import (
    Cells,
    bound_table,
    cold_table,
    family_table,
    geometric_mean,
    losses_table,
    machine_text,
    memory_table,
    planning_table,
    pushes_table,
    seed_grid,
    state_table,
    weak_table,
)  # fmt: skip

__all__ = ["brief", "main", "render"]

DOCS = Path(__file__).parent.parent / "docs"

HEAD = """# Benchmarks

Each case is a join that every system here answers with the same rows: the count and an order-independent checksum of
the output are compared with an answer computed by numpy before anything is timed. `python -m bench` runs the cases
and writes JSON lines to `bench/results/`, `python -m bench.report` makes this page of them.

| command | what it runs |
|---|---|
| `make bench` | the cases of the profile *quick*, up to 10^6 rows a side, and this page |
| `make bench-full` | also 10^7 rows, all table sizes of the seed's grid, longer limits |
| `make bench-smoke` | every case and every system once on some thousand rows: does it still run, is the answer right |
| `python -m bench seed "window/*" --peers ivjoin` | families or patterns of cases, some systems |
| `python -m bench.pushes` | the cost of one push of 128 rows and of one row |
| `python -m bench.planning` | a join planned for the first time and again, and the bounds that it prunes by |
| `python -m bench.cold` | from the start of a process to the first row |
| `python -m bench.memory` | bytes of state for each byte of payload, by window and kind of row |
| `python -m bench.soak` | 10^8 rows through one join: does its memory grow |
| `python -m bench.lost_rows` | rows that pruning loses, ivjoin beside DataFusion |
| `python -m bench.weak_pruning` | state held under conditions that are hard to prune for, ivjoin beside DataFusion |

How it is measured:

- Each cell runs in a process of its own, pinned to as many cores as the table says; the answer is checked in a first
  run, then come five timed runs (fewer if they exceed the time limit: the number is in the result file) of which the
  median stands here.
- *Seconds* are wall-clock time, *CPU* the processor time of the process. For a system pinned to one core the two are
  the same on a quiet machine; on a busy one the CPU figure is the one to compare.
- ivjoin takes Arrow batches and gives Arrow batches. Each timed run makes a new operator, whose plan it remembers from
  the first run: see *Planning* for what a condition costs that was not seen before. The others parse their SQL in each
  run.
- DataFusion runs its symmetric hash join over unbounded tables only, which from Python are CSV files. The time for
  reading those, at the same batch size and without a join, is measured in the same process and subtracted (*net*);
  nor does its net time hold the handing over of its output to Python.
- Static systems start from data that is loaded already: DuckDB from its own tables, Polars, Acero and pandas from
  theirs.
- *DuckDB, buckets by hand* is the best SQL we could write for a static engine: both sides cut into time buckets, one
  side copied into each bucket it reaches, the width tuned before the timing.
- *Added* memory is what the process's peak in the timed runs exceeds what it held with the inputs loaded.
"""

NONE_YET = """
## Results

There are no figures here yet. `make bench` writes them.
"""


def load(paths: Iterable[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The machines and the records of result files."""
    records = [json.loads(line) for p in paths if p.exists() for line in p.read_text().splitlines() if line.strip()]
    return [r for r in records if r.get("kind") == "machine"], [r for r in records if r.get("kind") != "machine"]


TITLES = {
    "time-uniform": "Timestamps, uniform keys", "time-zipf": "Timestamps, Zipf keys", "no-key": "A band without a key",
    "keys": "Text and two-column keys",
    "nulls": "Nulls in a tenth of keys and ordered values", "alone": "Semi and anti joins",
    "wide": "Wide rows", "residual": "Residual conditions",
    "slack": "Rows out of order", "rates": "Ten to one", "hot-key": "One hot key", "window": "The window grows",
    "live-keys": "Live keys", "length": "The inputs grow",
}  # fmt: skip


EXPECTED = {
    "window": "Expected: 0. Keys grow with the window, so that a row meets two others whatever its size.",
    "live-keys": "Expected: as the rows in and out. With few keys a row meets many others, with many next to none.",
    "length": "Expected: 1, in proportion to the rows.",
}


def _fits(cells: Cells, family: str, curves: dict[str, list[tuple[float, float]]]) -> str:
    """How the time of each system goes with the size that a family varies, and how it should."""
    fits = [f"{p} {charts.exponent(points):z.2f}" for p, points in curves.items()]
    rows = charts.work(cells, family)
    if not rows:
        return f"Exponent fitted to the CPU time: {', '.join(fits)}. {EXPECTED[family]}"
    each = [t / w * 1e9 for (_, t), (_, w) in zip(curves["ivjoin"], rows, strict=True)]
    return (
        f"Exponent fitted to the CPU time: {', '.join(fits)}; to the rows in and out {charts.exponent(rows):z.2f}. "
        f"{EXPECTED[family]} ivjoin takes {min(each):.0f} to {max(each):.0f} ns for each row that goes in or comes out."
    )


def render(records: list[dict[str, Any]], machines: list[dict[str, Any]], folder: Path) -> str:
    """The page; its charts go to ``folder``."""
    parts = [HEAD]
    if not records:
        return HEAD + NONE_YET
    parts.append("## Machine\n\n" + machine_text(machines))
    cells = Cells([r for r in records if r["kind"] == "cell"])

    def section(title: str, body: str, chart: str | None = None) -> None:
        if body:
            picture = f"![{title}]({chart})\n\n" if chart else ""
            parts.append(f"## {title}\n\n{picture}{body}")

    for rows in cells.seed_rows():
        body, ratios = seed_grid(cells, rows)
        if ratios:
            body += f"\n\nGeometric mean of DataFusion's net time over ivjoin's: **{geometric_mean(ratios):.1f}**, "
            body += f"least {min(ratios):.2f}, over {len(ratios)} cells."
        section(f"The seed's grid, {rows:,} rows a side", body, charts.seed(cells, rows, folder))
    drawn: dict[str, Callable[..., str | None]] = dict.fromkeys(("window", "live-keys", "length"), charts.scaling)
    for family, title in TITLES.items():
        chart = drawn[family](cells, family, folder) if family in drawn else charts.bars(cells, family, folder)
        curves = charts.curves(cells, family) if family in drawn else {}
        said = f"\n\n{_fits(cells, family, curves)}" if curves else ""
        section(title, family_table(cells, family) + said, chart)
    section("State and memory", state_table(cells), charts.state(cells, folder))
    body = memory_table(records)
    said = "The window full, batches of 1,024 rows: `python -m bench.memory`."
    section("Bytes of state for each byte of payload", f"{body}\n\n{said}" if body else "")
    long = [r for r in records if r["kind"] == "soak"]
    if long:
        said = f"{long[-1]['rows']:,} rows in {long[-1]['seconds']:.0f} s: `python -m bench.soak`."
        section("A long run", said, charts.soak(long, folder))
    section("Against the memory bound", bound_table(cells))
    section("One push", pushes_table(records))
    section("Planning", planning_table(records))
    section("Cold start", cold_table(records))
    section("Rows lost by pruning", losses_table(records))
    section("State under conditions that are hard to prune for", weak_table(records))
    return "\n\n".join(p.rstrip("\n") for p in parts) + "\n"


def brief(paths: list[Path]) -> str:
    """The tables of some result files, without prose."""
    machines, records = load(paths)
    cells = Cells([r for r in records if r["kind"] == "cell"])
    parts = [f"load at the start: {', '.join(str(round(m['load'], 1)) for m in machines)}"]
    for rows in cells.seed_rows():
        table, ratios = seed_grid(cells, rows)
        parts.append(f"seed, {rows} rows\n{table}")
        if ratios:
            parts.append(f"geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    parts += [f"{t}\n{family_table(cells, f)}" for f, t in TITLES.items() if family_table(cells, f)]
    parts += [t for t in (state_table(cells), pushes_table(records), cold_table(records)) if t]
    return "\n\n".join(parts)


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.report", description=__doc__.splitlines()[0])
    default = "(default: all in bench/results but the smoke's and Spark's)"
    p.add_argument("files", nargs="*", type=Path, help=f"result files {default}")
    p.add_argument("--brief", action="store_true", help="plain tables on the terminal")
    p.add_argument("--docs", type=Path, default=DOCS, help="folder to write benchmarks.md and its charts to")
    args = p.parse_args(argv)
    files = args.files or sorted(f for f in RESULTS.glob("*.jsonl") if not f.stem.startswith(("smoke", "spark")))
    missing = [f for f in args.files if not f.exists()]
    if missing:
        print(f"no such result file: {', '.join(map(str, missing))}", file=sys.stderr)
        return 2
    if args.brief:
        print(brief(files))
        return 0
    machines, records = load(files)
    args.docs.mkdir(parents=True, exist_ok=True)
    page = args.docs / "benchmarks.md"
    page.write_text(render(records, machines, args.docs))
    print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
