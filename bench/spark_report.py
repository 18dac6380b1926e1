"""Write the results of the Spark benchmarks as docs/spark-benchmarks.md, with a chart.

    python bench/spark_streams.py --case uniform --results bench/results/spark-streams.jsonl   # also zipf, window, ...
    python bench/spark_streams.py --rows 20000 --results bench/results/spark-streams.jsonl     # also other sizes
    python bench/spark_static.py --case uniform --results bench/results/spark-static.jsonl     # also zipf, nokey
    python bench/spark_multiway.py --case uniform --results bench/results/spark-multiway.jsonl # also skewed, chain
    python bench/spark_spread.py --results bench/results/spark-spread.jsonl
    python bench/spark_sink.py --join --results bench/results/spark-sink.jsonl
    python -m bench.spark_report

The page shows the last result of each case, size and engine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from bench import charts
from bench.report import DOCS, load
from bench.runner import RESULTS
from bench.tables import machine_text, table

__all__ = ["main", "render"]

HEAD = """# Benchmarks on Spark

This page compares Spark's own joins with ivjoin over the same Parquet files on `local[2]`. Each micro-batch reads one
file for each side and writes to a Parquet sink.

| engine | what runs |
|---|---|
| `native` | Spark's own join with its default state store and its own settings |
| `native-rocksdb` | the same with RocksDB and state format 4 |
| `ivjoin` | `band_join` into Spark's sink |
| `ivjoin-sink` | `band_join` with `ivjoin.spark.write_stream` |
| `ivjoin-segments` | `ivjoin-sink` on `transformWithState` |
| `ivjoin-connect` | `ivjoin-sink` from a client of Spark Connect |
| `ivjoin-keyless` | `ivjoin` without the key |

How it is measured:

- **Runs.** The engines run one after the other, each in a separate process. The rows of all engines are counted and
  compared.
- **Time.** Seconds count from the first call that builds the query to the end of the query. Processor time and peak
  memory are for the whole tree of processes, including the start of Spark.
- **Time limit.** `stopped at 62` means that the run was stopped after 62 s.
- **Comparison.** Compare only results of one run, because machines differ from day to day.
- **Settings.** ivjoin's sessions write checkpoint files with another file manager
  ([tuning](guides/spark-tuning.md)). Spark's own join gains only slightly from it.

`python -m bench.spark_report` writes this page. The text before each table names the command that measured it.
"""

SAID = {
    "uniform": "10^4 keys and a band of 15 s. The join emits three rows for four input rows.",
    "zipf": "Keys by Zipf(1.2). Hot keys have many rows in the window. The join emits nine rows for each input row.",
    "window": "300,000 rows per side in the window and 10^6 keys, so that each row has few matches.",
    "narrow": "300,000 rows per side in the window and 300 keys. Matches must also agree in a second column.",
    "numeric": "A band of numbers without event time, in 50 micro-batches. Spark's own join stores every row.",
}
_COLORS = {
    "ivjoin-sink": "#7f0000", "ivjoin": "#c1272d", "ivjoin-segments": "#e69138", "native": "#0b5394",
    "native-rocksdb": "#6fa8dc", "ivjoin-connect": "#b4a7d6",
}  # fmt: skip
_ROWS, _PARTITIONS = 1_000_000, 2
_STAGES = {
    "planning": ("queryPlanning",), "offsets and logs": ("latestOffset", "getBatch", "walCommit", "commitOffsets"),
    "micro-batch": ("addBatch",), "tasks: state commit": ("tasks: state commit",),
    "tasks: open and restore": ("in the operator: read",), "tasks: join": ("in the operator: join",),
    "tasks: write state": ("in the operator: write",),
}  # fmt: skip

Record = dict[str, Any]


def latest(records: list[Record]) -> list[Record]:
    """Return the last record of each case and engine, in the order of their first ones."""
    return list({(r.get("case"), _size(r), r.get("engine", r.get("way"))): r for r in records}.values())


def loaded(path: Path) -> tuple[list[Record], list[Record]]:
    """Return the machines and the records of a result file, each record with the time and machine of its run."""
    machines, records = load([path])
    runs = iter(machines)
    found: list[Record] = []
    lines = path.read_text().splitlines() if path.exists() else []
    run = None
    for is_machine in ('"kind": "machine"' in line for line in lines if line.strip()):
        if is_machine:
            m = next(runs)
            run = f"{m['started'][:16].replace('T', ' ')}, {m['cpu']}"
        else:
            found.append(records[len(found)] | {"run": run})
    return machines, found


def _size(r: Record) -> tuple[int, int, int]:
    """Return the rows a side and micro-batch, the rows in all, and the shuffle partitions."""
    rows, fill = r.get("rows", _ROWS), r.get("fill", 0)
    planned = r.get("micro_batches", 50 if r.get("numeric") else 20)  # of a stopped run, "batches" are those that ended
    each = (rows - fill) // (planned - 1) if fill else rows // planned
    return each, rows, r.get("partitions", _PARTITIONS)


def _alike(r: Record) -> tuple[Any, ...]:
    """Return what two engines must have in common to be compared."""
    return r["case"], _size(r), r.get("run")


def _ratio(ours: Record, other: Record) -> str:
    if not ours["ended"] or not other["engine"].startswith("native"):
        return ""
    return f"{'' if other['ended'] else '> '}{other['seconds'] / ours['seconds']:.1f}"


def streams_tables(records: list[Record]) -> str:
    """Return a table of results, and one of the time of each stage."""
    lines, stages = [], []
    ours: dict[Any, Record] = {}
    for r in records:
        run = r["case"], r.get("run")
        if r["engine"] in ("ivjoin", "ivjoin-sink") and (run not in ours or r["seconds"] < ours[run]["seconds"]):
            ours[run] = r
    for r in sorted(records, key=lambda r: list(SAID).index(r["case"])):
        own = ours.get((r["case"], r.get("run")))
        seconds = f"{r['seconds']:.1f}" if r["ended"] else f"stopped at {r['seconds']:.0f}"
        rows = f"{r['rows_out']:,}" if r["ended"] else f"{r['batches']} micro-batches"
        lines.append([
            r["case"], r["engine"], seconds, f"{r['cpu_seconds']:.0f}", f"{r['peak_mb']:,}", rows,
            f"{max(r['state'], default=0):,}", _ratio(own, r) if own else "", r.get("run") or "",
        ])  # fmt: skip
        spent = [sum(r["stages"].get(name, 0.0) for name in names) for names in _STAGES.values()]
        cpu = r["cpu_by_program"]
        stages.append([
            r["case"], r["engine"], *(f"{x:.1f}" if x else "" for x in spent),
            *(f"{cpu.get(name, 0):.0f}" for name in ("java", "python")),
        ])  # fmt: skip
    head: tuple[str, ...] = ("case", "engine", "seconds", "CPU s", "peak MB", "rows out", "peak state rows",
            "speedup of the faster ivjoin engine in the run", "run")
    first = table(head, lines)
    head = ("case", "engine", *_STAGES, "CPU of the JVM", "CPU of Python")
    note = (
        "Seconds over all micro-batches. The column *micro-batch* contains the tasks. The columns *tasks* are sums "
        "over all tasks, so two tasks at the same time count twice."
    )
    return f"{first}\n\n## Where the time goes\n\n{note}\n\n{table(head, stages)}"


def steady_table(records: list[Record]) -> str:
    """Return the time of the first micro-batch, and the median from the third one on."""
    lines = []
    for r in records:
        first, *others = r["batch_ms"]
        rows, _, partitions = _size(r)
        fill = r.get("fill", 0)
        steady = median(others[1:]) if len(others) > 1 else None
        beside = [
            o["batch_ms"][2:] for o in records
            if o["engine"].startswith("native") and _alike(o) == _alike(r) and len(o["batch_ms"]) > 2
        ]  # fmt: skip
        best = min(map(median, beside), default=None)
        times = f"{best / steady:.1f}" if best and steady and r["engine"].startswith("ivjoin") else ""
        lines.append([
            r["case"] + (f", {fill:,} rows first" if fill else ""), f"{rows:,}", str(partitions), r["engine"],
            f"{r['planned_s']:.1f}" if "planned_s" in r else "", f"{first / 1000:.1f}",
            f"{steady:,.0f}" if steady else "", f"{r['peak_mb']:,}", times, r.get("run") or "",
        ])  # fmt: skip
    head = (
        "case", "rows per side and micro-batch", "partitions", "engine", "planning s", "first micro-batch s",
        "others, median ms",
        "peak MB", "speedup over the faster native engine in the run", "run",
    )  # fmt: skip
    return table(head, lines)


def static_table(records: list[Record]) -> str:
    """Return the first run, and the best later one."""
    lines = []
    for r in records:
        cold, warm = r["seconds"][:1], r["seconds"][1:]
        lines.append([
            r["case"].removeprefix("static "), f"{r['rows']:,}", r["engine"],
            f"{cold[0]:.1f}" if cold else "did not end", f"{min(warm):.1f}" if warm else "", f"{r['peak_mb']:,}",
        ])  # fmt: skip
    return table(("case", "rows per side", "engine", "cold s", "warm s", "peak MB"), lines)


def many_table(records: list[Record]) -> str:
    """Return the same as for static frames, with the shuffled bytes."""
    lines = []
    for r in records:
        cold, warm = r["seconds"][:1], r["seconds"][1:]
        lines.append([
            r["case"].removeprefix("multiway "), f"{r['rows']:,}", r["engine"],
            f"{cold[0]:.1f}" if cold else "did not end", f"{min(warm):.1f}" if warm else "",
            f"{r['shuffled'] / 1e6:,.1f}" if cold else "", f"{r['rows_out']:,}" if cold else "", f"{r['peak_mb']:,}",
        ])  # fmt: skip
    head = ("case", "rows an input", "engine", "cold s", "warm s", "MB shuffled", "rows out", "peak MB")
    return table(head, lines)


def spread_table(records: list[Record]) -> str:
    """Return the first and the best run of static frames; of streams the first micro-batch and the others' median."""
    lines = []
    for r in records:
        runs = [ms / 1000 for ms in r["batch_ms"]] if "batch_ms" in r else r["seconds"]
        first, others = runs[:1], runs[1:]
        later = median(others) if "batch_ms" in r and others else min(others, default=None)
        lines.append([
            r["case"], f"{r['rows']:,}", r["way"], f"{first[0]:.1f}" if first else "did not end",
            f"{later:.2f}" if later else "", " ".join(f"{n:,}" for n in r.get("buckets", [])), f"{r['peak_mb']:,}",
        ])  # fmt: skip
    head = ("case", "rows per side", "routing", "first s", "others s", "rows per bucket", "peak MB")
    return table(head, lines)


def sink_table(records: list[Record]) -> str:
    ways = {"Spark": "rows made in Spark, sink", "Arrow": "rows made by a map in Python, sink"}
    lines = [
        [
            str(ways.get(r["way"], r["way"])), f"{r['seconds']:.1f}", f"{r['cpu'].get('java', 0):.0f}",
            f"{r['cpu'].get('python', 0):.0f}", f"{r['rows_out']:,}",
        ]
        for r in records
    ]  # fmt: skip
    return table(("query", "seconds", "CPU s of the JVM", "CPU s of Python", "rows out"), lines)


def chart(records: list[Record], folder: Path) -> str:
    """Draw the seconds of each engine, a group for each case."""
    plt = charts.pyplot()
    cases = [c for c in SAID if any(r["case"] == c for r in records)]
    figure, axis = plt.subplots(figsize=(8, 0.6 + 0.75 * len(cases)))
    height = 1 / (len(_COLORS) + 1)
    for i, (engine, color) in enumerate(_COLORS.items()):
        found = [(n, r) for n, c in enumerate(cases) for r in records if (r["case"], r["engine"]) == (c, engine)]
        bars = axis.barh(
            [n + i * height for n, _ in found], [r["seconds"] for _, r in found], height, color=color, label=engine
        )
        labels = [f"{r['seconds']:.0f}" if r["ended"] else f"stopped at {r['seconds']:.0f}" for _, r in found]
        axis.bar_label(bars, labels, fontsize=7, padding=2)
    axis.set_yticks([n + 1.5 * height for n in range(len(cases))], cases)
    axis.invert_yaxis()
    axis.set(xlabel="seconds")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    return charts.save(figure, folder / "spark-benchmarks.svg")


def render(results: Path, folder: Path) -> str:
    """Return the page, and write its chart to ``folder``."""
    parts = [HEAD]
    files = [loaded(results / f"spark-{name}.jsonl") for name in ("streams", "sink", "static", "multiway", "spread")]
    machines = [m for found, _ in files for m in found]
    streams, sink, static, many, spread = (latest(records) for _, records in files)
    measured = [r for r in streams if r["case"] in SAID]
    streams = [r for r in measured if r.get("rows", _ROWS) == _ROWS and r.get("partitions", _PARTITIONS) == _PARTITIONS]
    if streams:
        cases = "\n".join(f"- *{c}*: {said}" for c, said in SAID.items() if any(r["case"] == c for r in streams))
        picture = f"![Seconds of each engine in each case]({chart(streams, folder)})"
        said = "`python bench/spark_streams.py --case ...` runs these cases (10^6 rows per side, 20 micro-batches)."
        parts += ["## Streams", said, cases, picture, streams_tables(streams)]
    timed = sorted((r for r in measured if r.get("batch_ms")), key=lambda r: (list(SAID).index(r["case"]), _size(r)))
    if timed:
        said = (
            "*Planning* is the time of the calls that build and start the query. In the first micro-batch, Python "
            "workers start and load their modules, and the JVM has compiled only a small part of its code. *Others* is "
            "the median from the third micro-batch on. Engines that were stopped count with the micro-batches that "
            "ended."
        )
        parts += ["## First micro-batch and steady state", said, steady_table(timed)]
    if sink:
        said = (
            "With 10^4 keys and a window of 300,000 rows per side, the join emits 51 rows for each row of a side. The "
            "first two lines write the same rows to the same Parquet sink without a join. No join that writes there "
            "can be faster (`python bench/spark_sink.py --join`)."
        )
        parts += ["## The cost of the sink", said, sink_table(sink)]
    if static:
        said = "`python bench/spark_static.py --case ...` runs the same call on static frames, and Spark's batch join."
        parts += ["## Static frames", said, static_table(static)]
    if many:
        said = (
            "`python bench/spark_multiway.py --case ...` joins three static frames with `ivjoin.spark.multi_join`. It "
            "compares them with two of Spark's batch joins in sequence, without a broadcast."
        )
        parts += ["## Many inputs", said, many_table(many)]
    if spread:
        said = (
            "`hashed` is `routing=\"hash\"`: one task joins all rows if there is no key, or only one key. `spread` is "
            "the default for static frames, and `hot_keys=` for streams. `-sink` is `ivjoin.spark.write_stream`. For "
            "streams, the rows are given per micro-batch. The command is `python bench/spark_spread.py`."
        )
        parts += ["## No key, one key, a hot key", said, spread_table(spread)]
    if machines:
        parts += ["## Machine and runs", machine_text(machines)]
    return "\n\n".join(p.rstrip("\n") for p in parts) + "\n"


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.spark_report", description=__doc__.splitlines()[0])
    p.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files")
    p.add_argument("--docs", type=Path, default=DOCS, help="folder to write spark-benchmarks.md and its chart to")
    args = p.parse_args(argv)
    args.docs.mkdir(parents=True, exist_ok=True)
    page = args.docs / "spark-benchmarks.md"
    page.write_text(render(args.results, args.docs))
    print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
