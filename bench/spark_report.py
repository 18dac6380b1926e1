"""``python -m bench.spark_report``: the results of the Spark benchmarks as docs/spark-benchmarks.md, with a chart.

    python bench/spark_streams.py --case uniform --results bench/results/spark-streams.jsonl   # also zipf, window, ...
    python bench/spark_streams.py --rows 20000 --results bench/results/spark-streams.jsonl     # also other sizes
    python bench/spark_static.py --case uniform --results bench/results/spark-static.jsonl     # also zipf, nokey
    python bench/spark_multiway.py --case uniform --results bench/results/spark-multiway.jsonl # also skewed, chain
    python bench/spark_spread.py --results bench/results/spark-spread.jsonl
    python bench/spark_sink.py --join --results bench/results/spark-sink.jsonl
    python -m bench.spark_report

Of each case, size and engine the last result counts.
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

Spark's own join of streams (its default store, and RocksDB with state format 4) and
`band_join` over the same Parquet files, one file a side and micro-batch, into a Parquet sink, on `local[2]`;
`ivjoin-sink` is `band_join` with `ivjoin.spark.write_stream`, `ivjoin-segments` the same on `transformWithState`,
`ivjoin-connect` the same from a client of Spark Connect. Each engine runs in a process of its own, one after the
other; seconds are from the first call that builds the query to its end, processor time and peak memory are of the whole
tree of processes, Spark's start included. The engines' rows are counted and compared. `python -m bench.spark_report`
writes this page; the commands that measured are named with each table. Only what one run measured is compared:
machines differ from day to day. Native runs have Spark's own settings; our sessions write checkpoint files another way,
by which Spark's join gains little ([tuning](spark-tuning.md)).
"""

SAID = {
    "uniform": "10^4 keys, a band of 15 s; three rows out for each four in.",
    "zipf": "Keys by Zipf(1.2), nine rows out for each row in: the hot keys have many rows in the window.",
    "window": "300,000 live rows a side, 10^6 keys, so that each row has few partners.",
    "narrow": "300,000 live rows a side, 300 keys; partners must be alike in a second column too.",
    "numeric": "A band of numbers without event time, 50 micro-batches; Spark's own join keeps every row.",
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
    """The last record of each case and engine, in the order in which they first came."""
    return list({(r.get("case"), _size(r), r.get("engine", r.get("way"))): r for r in records}.values())


def loaded(path: Path) -> tuple[list[Record], list[Record]]:
    """The machines and the records of a result file; each record with its run: when that was, and on what."""
    machines, records = load([path])
    runs, found = iter(machines), []
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
    """Rows a side and micro-batch, in all, and shuffle partitions."""
    rows, fill = r.get("rows", _ROWS), r.get("fill", 0)
    planned = r.get("micro_batches", 50 if r.get("numeric") else 20)  # of a stopped run, "batches" are those that ended
    each = (rows - fill) // (planned - 1) if fill else rows // planned
    return each, rows, r.get("partitions", _PARTITIONS)


def _alike(r: Record) -> tuple[Any, ...]:
    """What two engines must have in common to be compared."""
    return r["case"], _size(r), r.get("run")


def _ratio(ours: Record, other: Record) -> str:
    if not ours["ended"] or not other["engine"].startswith("native"):
        return ""
    return f"{'' if other['ended'] else '> '}{other['seconds'] / ours['seconds']:.1f}"


def streams_tables(records: list[Record]) -> str:
    """One line for each case and engine, and one for where its time went."""
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
    head = ("case", "engine", "seconds", "CPU s", "peak MB", "rows out", "state rows at most",
            "the faster ivjoin of the run, times as fast", "run")
    first = table(head, lines)
    head = ("case", "engine", *_STAGES, "CPU of the JVM", "CPU of Python")
    note = (
        "Seconds over all micro-batches. The micro-batch holds the tasks; what tasks count is summed over both, so "
        "that with two at work it counts twice."
    )
    return f"{first}\n\n## Where the time goes\n\n{note}\n\n{table(head, stages)}"


def steady_table(records: list[Record]) -> str:
    """The first micro-batch, and the median of those from the third on."""
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
        "case", "rows a side and micro-batch", "partitions", "engine", "planning s", "first micro-batch s",
        "others, median ms",
        "peak MB", "times the better native of the run", "run",
    )  # fmt: skip
    return table(head, lines)


def static_table(records: list[Record]) -> str:
    """Cold run, and the best of those after it."""
    lines = []
    for r in records:
        cold, warm = r["seconds"][:1], r["seconds"][1:]
        lines.append([
            r["case"].removeprefix("static "), f"{r['rows']:,}", r["engine"],
            f"{cold[0]:.1f}" if cold else "did not end", f"{min(warm):.1f}" if warm else "", f"{r['peak_mb']:,}",
        ])  # fmt: skip
    return table(("case", "rows a side", "engine", "cold s", "warm s", "peak MB"), lines)


def many_table(records: list[Record]) -> str:
    """As of static frames, with the bytes that stages wrote for others."""
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
    """Static frames: the cold run, and the best of the others; streams: the first micro-batch, the others' median."""
    lines = []
    for r in records:
        runs = [ms / 1000 for ms in r["batch_ms"]] if "batch_ms" in r else r["seconds"]
        first, others = runs[:1], runs[1:]
        later = median(others) if "batch_ms" in r and others else min(others, default=None)
        lines.append([
            r["case"], f"{r['rows']:,}", r["way"], f"{first[0]:.1f}" if first else "did not end",
            f"{later:.2f}" if later else "", " ".join(f"{n:,}" for n in r.get("buckets", [])), f"{r['peak_mb']:,}",
        ])  # fmt: skip
    head = ("case", "rows a side", "way", "first s", "others s", "rows of each bucket", "peak MB")
    return table(head, lines)


def sink_table(records: list[Record]) -> str:
    ways = {"Spark": "rows made in Spark, sink", "Arrow": "rows made by a map in Python, sink"}
    lines = [
        [
            ways.get(r["way"], r["way"]), f"{r['seconds']:.1f}", f"{r['cpu'].get('java', 0):.0f}",
            f"{r['cpu'].get('python', 0):.0f}", f"{r['rows_out']:,}",
        ]
        for r in records
    ]  # fmt: skip
    return table(("what runs", "seconds", "CPU s of the JVM", "of Python", "rows out"), lines)


def chart(records: list[Record], folder: Path) -> str:
    """Seconds of each engine, a group for each case."""
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
    """The page; its chart goes to ``folder``."""
    parts = [HEAD]
    files = [loaded(results / f"spark-{name}.jsonl") for name in ("streams", "sink", "static", "multiway", "spread")]
    machines = [m for found, _ in files for m in found]
    streams, sink, static, many, spread = (latest(records) for _, records in files)
    if machines:
        parts += ["## Machine", machine_text(machines)]
    measured = [r for r in streams if r["case"] in SAID]
    streams = [r for r in measured if r.get("rows", _ROWS) == _ROWS and r.get("partitions", _PARTITIONS) == _PARTITIONS]
    if streams:
        cases = "\n".join(f"- *{c}*: {said}" for c, said in SAID.items() if any(r["case"] == c for r in streams))
        picture = f"![Seconds of each engine in each case]({chart(streams, folder)})"
        said = "`python bench/spark_streams.py --case ...`, 10^6 rows a side in 20 micro-batches."
        parts += ["## Streams", said, cases, picture, streams_tables(streams)]
    timed = sorted((r for r in measured if r.get("batch_ms")), key=lambda r: (list(SAID).index(r["case"]), _size(r)))
    if timed:
        said = (
            "Planning are the calls that build and start the query. In the first micro-batch workers start, where they "
            "have not yet, and load what they need, and of the JVM's code little is compiled. "
            "Of the others, from the third on, the median. Engines that were stopped count as far as they came."
        )
        parts += ["## First micro-batch and steady state", said, steady_table(timed)]
    if sink:
        said = (
            "With 10^4 keys and a window of 300,000 rows a side, 51 rows come out for each row of a side. Written to "
            "the same Parquet sink without any join, they take what the first two lines say: no join that writes them "
            "there can take less (`python bench/spark_sink.py --join`)."
        )
        parts += ["## What the sink costs by itself", said, sink_table(sink)]
    if static:
        said = "The same call on static frames, against Spark's batch join: `python bench/spark_static.py --case ...`."
        parts += ["## Static frames", said, static_table(static)]
    if many:
        said = (
            "Three static frames with `ivjoin.spark.multi_join`, against two of Spark's batch joins, one after the "
            "other, none of which is broadcast: `python bench/spark_multiway.py --case ...`."
        )
        parts += ["## Many frames", said, many_table(many)]
    if spread:
        said = (
            "`hashed` is `routing=\"hash\"`: rows without a key, or of one key, are joined by one task. `spread` is "
            "the default of static frames, and `hot_keys=` of streams; rows of streams are of each micro-batch, and "
            "`-sink` is `ivjoin.spark.write_stream`: `python bench/spark_spread.py`."
        )
        parts += ["## No key, one key, a hot key", said, spread_table(spread)]
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
