"""Write the result files as docs/benchmarks.md, with tables and charts.

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
    ahead_table,
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

This page compares joins of streams and tables with other engines. Every engine computes the same rows. Before a case is
timed, the number of output rows and an order-independent checksum are compared with a result from numpy.

To run the cases, use `python -m bench`, which writes JSON lines to `bench/results/`. `python -m bench.report` writes
this page from these files. The name of a case, such as `window/1000 rows/1000000 rows`, states the family, the varied
size and the rows on each side. For the family `seed` (keys and batch sizes), see [The papers](papers.md).

| command | what it runs |
|---|---|
| `make bench` | the profile *quick*, up to 10^6 rows per side, and this page |
| `make bench-full` | also 10^7 rows, all sizes of the first family, longer time limits |
| `make bench-smoke` | every case and engine once with a few thousand rows, to check that they run and are correct |
| `python -m bench seed "window/*" --peers ivjoin` | selected families or patterns of cases, and selected engines |
| `python -m bench.pushes` | the cost of one push of 128 rows and of one row |
| `python -m bench.planning` | planning a join for the first time and again, and computing its prune bounds |
| `python -m bench.cold` | from the start of a process to its last row |
| `python -m bench.memory` | bytes of state for each byte of payload, by window and kind of row |
| `python -m bench.soak` | 10^8 rows through one join, to check that memory does not grow |
| `python -m bench.lost_rows` | the rows that pruning loses, in ivjoin and in DataFusion |
| `python -m bench.weak_pruning` | the state under conditions that are hard to prune, in ivjoin and in DataFusion |

How it is measured:

- **Runs.** Each cell of a table runs in a separate process. ivjoin and DataFusion's symmetric hash join run on one
  core, and the other engines on two. The first run checks the result. The table shows the median of the next runs.
  Their number is `--repeat`, or less if they exceed the time limit.
- **Time limit.** `> 10 s` means that the run was stopped after 10 s. Charts show such runs as outlines.
- **Seconds and CPU.** *Seconds* are wall-clock time, and *CPU* is the processor time of the process. On one core of an
  idle machine, they are equal. On a busy machine, compare CPU.
- **ivjoin** reads and writes Arrow batches. Each timed run makes a new operator, whose plan comes from the cache.
  [Planning](#planning) shows the cost of a condition that is not in the cache. The other engines parse their SQL in
  each run.
- **DataFusion** runs its symmetric hash join only over unbounded tables, which are CSV files in Python. The time for
  reading these files at the same batch size is measured in the same process and subtracted (*net*). Net time also
  excludes handing the output to Python.
- **Engines without streams** start from loaded data. DuckDB, Polars, Acero and pandas each use their own tables.
- ***DuckDB, buckets by hand*** is the best SQL that we could write for such an engine. It cuts both sides into time
  buckets and copies one side into each bucket that it reaches. The bucket width is tuned before the timing.
- ***Added* memory** is the peak memory of the process in the timed runs, minus its memory with the inputs loaded.
"""

NONE_YET = """
## Results

This page has no figures yet. `make bench` writes them.
"""


def load(paths: Iterable[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the machines and the records of result files."""
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
    "window": "The expected exponent is 0: the number of keys grows with the window, so each row matches two others.",
    "live-keys": "The CPU time should follow the rows in and out. With few keys, a row matches many others.",
    "length": "The expected exponent is 1: the time is proportional to the rows.",
}


def _fits(cells: Cells, family: str, curves: dict[str, list[tuple[float, float]]]) -> str:
    """Return how the time of each engine grows with the size that a family varies, and how it should grow."""
    fits = [f"{p} {charts.exponent(points):z.2f}" for p, points in curves.items()]
    rows = charts.work(cells, family)
    if not rows:
        return f"Fitted exponents of the CPU time: {', '.join(fits)}. {EXPECTED[family]}"
    each = [t / w * 1e9 for (_, t), (_, w) in zip(curves["ivjoin"], rows, strict=True)]
    return (
        f"Fitted exponents of the CPU time: {', '.join(fits)}. The rows in and out have the exponent "
        f"{charts.exponent(rows):z.2f}. {EXPECTED[family]} ivjoin takes {min(each):.0f} to {max(each):.0f} ns for each "
        "row of input or output."
    )


def render(records: list[dict[str, Any]], machines: list[dict[str, Any]], folder: Path) -> str:
    """Return the page, and write its charts to ``folder``."""
    parts = [HEAD]
    if not records:
        return HEAD + NONE_YET
    cells = Cells([r for r in records if r["kind"] == "cell"])

    def section(title: str, body: str, chart: str | None = None) -> None:
        if body:
            picture = f"![{title}]({chart})\n\n" if chart else ""
            parts.append(f"## {title}\n\n{picture}{body}")

    said = "In these cases, the fastest other engine takes less time than ivjoin. Each engine uses its best batch size."
    body = ahead_table(cells)
    section("Where other engines are faster", f"{said}\n\n{body}" if body else "")
    drawn: dict[str, Callable[..., str | None]] = dict.fromkeys(("window", "live-keys", "length"), charts.scaling)
    for family, title in TITLES.items():
        chart = drawn[family](cells, family, folder) if family in drawn else charts.bars(cells, family, folder)
        curves = charts.curves(cells, family) if family in drawn else {}
        said = f"\n\n{_fits(cells, family, curves)}" if curves else ""
        section(title, family_table(cells, family) + said, chart)
    section("State and memory", state_table(cells), charts.state(cells, folder))
    body = memory_table(records)
    said = "`python -m bench.memory` measures a full window and batches of 1,024 rows."
    section("Bytes of state for each byte of payload", f"{body}\n\n{said}" if body else "")
    long = [r for r in records if r["kind"] == "soak"]
    if long:
        said = f"`python -m bench.soak` joined {long[-1]['rows']:,} rows in {long[-1]['seconds']:.0f} s."
        section("A long run", said, charts.soak(long, folder))
    section("Compared with copying the rows", bound_table(cells))
    section("One push", pushes_table(records))
    section("Planning", planning_table(records))
    section("Cold start", cold_table(records))
    section("Rows lost by pruning", losses_table(records))
    section("State under conditions that are hard to prune", weak_table(records))
    section("Machine and runs", machine_text(machines))
    return "\n\n".join(p.rstrip("\n") for p in parts) + "\n"


def brief(paths: list[Path]) -> str:
    """Return the tables of some result files, without prose."""
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
    default = "(default: all in bench/results but those of the smoke, Spark and the papers)"
    p.add_argument("files", nargs="*", type=Path, help=f"result files {default}")
    p.add_argument("--brief", action="store_true", help="plain tables on the terminal")
    p.add_argument("--docs", type=Path, default=DOCS, help="folder to write benchmarks.md and its charts to")
    args = p.parse_args(argv)
    others = ("smoke", "spark", "papers")
    files = args.files or sorted(f for f in RESULTS.glob("*.jsonl") if not f.stem.startswith(others))
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
