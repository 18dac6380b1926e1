"""Streaming: Spark's own stream-stream join (default store, and RocksDB with state format 4) against band_join.

Two streams of Parquet files, one file a side and micro-batch, into a Parquet sink, on ``local[2]``. Each engine runs in
a session of its own (a fresh process). The script checks that all engines wrote the same number of rows, and prints
time, peak memory of the process tree, the time of each stage, and the ratios. An engine that has not ended after
``--limit`` seconds is stopped; its ratio is then a lower bound.

    python bench/spark_streams.py --case uniform            # 10^4 keys, band of -10 s .. +5 s, 1.5 M matches
    python bench/spark_streams.py --case zipf               # keys by Zipf(1.2), 9 M matches
    python bench/spark_streams.py --case window             # 300,000 live rows a side, 10^6 keys
    python bench/spark_streams.py --case narrow             # the same, 300 keys, partners alike in x too
    python bench/spark_streams.py --case numeric            # l.x BETWEEN r.x - 5 AND r.x + 5, no event time
    python bench/spark_streams.py --rows 100000 --batches 5 # smaller
    python bench/spark_streams.py --rows 20000 --batches 20 # small micro-batches: 1,000 rows a side
    python bench/spark_streams.py --rows 8000000 --batches 8 --limit 240   # large ones, as in a backfill
    python bench/spark_streams.py --case window --rows 310000 --batches 11 --fill 300000   # then 1,000 rows at a time
    python bench/spark_streams.py --partitions 200          # as many shuffle partitions as Spark has by default
    python bench/spark_streams.py --quick                   # whether all still runs: a minute or so

Told apart are planning (the calls that build and start the query), the first micro-batch, in which workers start, and
the others, of which the median counts, from the third on. Seconds begin with planning. A case takes some four minutes,
since an engine is stopped after ``--limit`` seconds. The engine
``ivjoin-sink`` writes with ``ivjoin.spark.write_stream``, the others with Spark's Parquet sink; ``native-rocksdb`` has
changelog checkpointing on. ``ivjoin-connect`` is ``ivjoin-sink`` from a client of Spark Connect, ``ivjoin-segments`` is
``ivjoin-sink`` with ``backend="transformWithState"``: any case takes them by ``--engines``.

``--case numeric`` also runs ivjoin on the band alone (``ivjoin-keyless``), which Spark's own join of streams refuses;
that is another result, so its rows are not compared. ``bench/spark_state.py`` draws the state of that case.

Source of the data: drawn by numpy's PCG64 with the seeds 1 (left) and 2 (right).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if __package__ in (None, ""):
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from bench.process_tree import answer_of
from bench.runner import append, machine
from bench.static_spark import drawn_keys


@dataclass(frozen=True)
class Case:
    """One pair of streams and its band.

    Attributes
    ----------
    rate : float
        Rows a side per second of event time (per unit of ``x``); sets how many rows a band holds.
    keys : int
    before, after : float
        The band: ``l >= r - before AND l <= r + after``, in seconds or units of ``x``.
    zipf : bool
        Keys by Zipf(1.2) over ``keys`` ranks, else uniform.
    numeric : bool
        The band is on ``x``, and there is no event time.
    narrow : float
        If not 0, ``x`` is uniform in [0, 1), and partners lie within this of each other in it as well.
    batches : int
    engines : str
    """

    rate: float
    keys: int = 10_000
    before: float = 10
    after: float = 5
    zipf: bool = False
    numeric: bool = False
    narrow: float = 0
    batches: int = 20
    engines: str = "ivjoin-sink,ivjoin,native,native-rocksdb"


CASES = {
    "uniform": Case(rate=1000),
    # At 1000 rows a second the hot keys alone would give 900 M matches, and every engine would time its Parquet writer.
    "zipf": Case(rate=10, zipf=True),
    # With 10^4 keys each row would have 60 partners; with 10^6 the state is what is large, not the output.
    "window": Case(
        rate=1000, keys=1_000_000, before=300, after=300,
        engines="ivjoin-sink,ivjoin,ivjoin-segments,native,native-rocksdb",
    ),
    # 1,000 live rows a side and key, about one of them a partner.
    "narrow": Case(rate=1000, keys=300, before=300, after=300, narrow=3e-4, engines="ivjoin-sink,ivjoin,native"),
    # Half a row a side per unit: without a key each row has five partners.
    "numeric": Case(
        rate=0.5, before=5, after=5, numeric=True, batches=50,
        engines="ivjoin-sink,ivjoin,native,ivjoin-keyless",
    ),
}
_EPOCH = 1_700_000_000_000_000
_COLUMNS = "k long, ts timestamp, x double, v long"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def write_inputs(folder: Path, case: Case, rows: int, fill: int = 0) -> None:
    """``case.batches`` files a side, in order of event time and of ``x``; the first of ``fill`` rows, if given."""
    first = fill or rows // case.batches
    ends = [first + b * (rows - first) // max(1, case.batches - 1) for b in range(case.batches)]
    for seed, side in ((1, "left"), (2, "right")):
        rng = np.random.default_rng(seed)
        (folder / side).mkdir(parents=True)
        keys = drawn_keys(rng, rows, case.keys, 1.2 if case.zipf else 0.0)
        span = rows / case.rate
        micros = np.sort(rng.integers(0, int(span * 1_000_000), rows))
        table = pa.table({
            "k": pa.array(keys, pa.int64()),
            "ts": pa.array(micros + _EPOCH, pa.timestamp("us", "UTC")),
            "x": pa.array(rng.random(rows) if case.narrow else micros / 1_000_000, pa.float64()),
            "v": pa.array(np.arange(rows), pa.int64()),
        })
        for b in range(case.batches):
            begin, end = ends[b - 1] if b else 0, ends[b]
            path = folder / side / f"{b:05d}.parquet"
            pq.write_table(table.slice(begin, end - begin), path)
            os.utime(path, (1_600_000_000 + b, 1_600_000_000 + b))


def band_of(case: Case) -> str:
    if case.numeric:
        return f"l.x BETWEEN r.x - {case.before:g} AND r.x + {case.after:g}"
    band = f"l.ts BETWEEN r.ts - INTERVAL {case.before:g} SECONDS AND r.ts + INTERVAL {case.after:g} SECONDS"
    if case.narrow:
        band += f" AND l.x BETWEEN r.x - {case.narrow:f} AND r.x + {case.narrow:f}"
    return band


def joined(engine: str, left: Any, right: Any, case: Case) -> Any:
    """The join as an engine's user writes it."""
    from pyspark.sql import functions as F

    import ivjoin.spark  # noqa: F401  gives DataFrames band_join

    band = band_of(case)
    if not case.numeric:
        left, right = left.withWatermark("ts", "0 seconds"), right.withWatermark("ts", "0 seconds")
    if engine.startswith("native"):
        out = left.alias("l").join(right.alias("r"), F.expr(f"l.k = r.k AND {band}"))
        return out.selectExpr("l.k", "l.ts", "l.x", "l.v", "r.ts AS ts_right", "r.x AS x_right", "r.v AS v_right")
    orders = {"left_order": "x", "right_order": "x"} if case.numeric else {}
    backend = {"backend": "transformWithState"} if engine == "ivjoin-segments" else {}
    return left.band_join(right, on=None if engine == "ivjoin-keyless" else "k", condition=band, **orders, **backend)


def session_for(engine: str, partitions: int = 2, conf: Sequence[str] = ()) -> Any:
    """A session as an engine's user has it; ``conf`` are settings besides, ``name=value``."""
    import ivjoin.spark
    from ivjoin.spark.runtime.environment import CHECKPOINT_FILES

    if engine == "ivjoin-connect":
        return connected(partitions, conf)
    config: dict[str, Any] = {
        "spark__sql__shuffle__partitions": partitions, "spark__ui__enabled": "false", "spark__driver__memory": "6g",
        "spark__sql__session__timeZone": "UTC", "spark__ui__showConsoleProgress": "false",
        "spark__sql__streaming__numRecentProgressUpdates": 1000,
    }
    if engine in ("native-rocksdb", "ivjoin-segments"):
        config["spark__sql__streaming__stateStore__providerClass"] = _ROCKSDB
    if engine == "native-rocksdb":
        config["spark__sql__streaming__join__stateFormatVersion"] = 4
        config["spark__sql__streaming__stateStore__rocksdb__changelogCheckpointing__enabled"] = "true"
    if not engine.startswith("ivjoin"):  # what our sessions set, and Spark's do not
        config[CHECKPOINT_FILES.replace(".", "__")] = None
    config |= {name.replace(".", "__"): value for name, _, value in (c.partition("=") for c in conf)}
    spark = ivjoin.spark.session("local[2]", f"bench {engine}", **config)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def connected(partitions: int, conf: Sequence[str]) -> Any:
    """A client of a Connect server on this machine; what ``ivjoin.spark.session`` sets is up to the server's owner."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]").appName("bench ivjoin-connect")
    for name, value in {
        "spark.sql.shuffle.partitions": str(partitions), "spark.ui.enabled": "false", "spark.driver.memory": "6g",
        "spark.sql.session.timeZone": "UTC", "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.ui.showConsoleProgress": "false",
        **dict(c.split("=", 1) for c in conf),
    }.items():  # fmt: skip
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run_engine(
    engine: str, folder: Path, case: Case, limit: float, partitions: int = 2, conf: Sequence[str] = ()
) -> dict[str, Any]:
    """One engine's whole run, in this process."""
    import ivjoin.spark

    spark = session_for(engine, partitions, conf)

    def source(side: str) -> Any:
        return spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / side))

    begin = time.perf_counter()
    out = joined(engine, source("left"), source("right"), case)
    target = folder / f"out-{engine}"
    checkpoint = str(folder / f"checkpoint-{engine}")
    if engine in ("ivjoin-sink", "ivjoin-connect", "ivjoin-segments"):
        query = ivjoin.spark.write_stream(out, target, checkpoint, trigger="availableNow")
    else:
        query = (
            out.writeStream.format("parquet").option("path", str(target)).outputMode("append")
            .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )
    planned = time.perf_counter() - begin
    ended = query.awaitTermination(limit)
    seconds = time.perf_counter() - begin
    # Of a whole micro-batch, Connect leaves out the number of rows.
    progress = [p for p in query.recentProgress if any(source["numInputRows"] for source in p["sources"])]
    result: dict[str, Any] = {
        "engine": engine, "ended": ended, "seconds": round(seconds, 2), "planned_s": round(planned, 2),
        "batches": len(progress),
        "batch_ms": [p["batchDuration"] for p in progress],
        "state": [p["stateOperators"][0]["numRowsTotal"] for p in progress if p["stateOperators"]],
        "stages": stages(progress),
    }
    if engine.startswith("ivjoin"):
        counts: list[dict[str, Any]] = ivjoin.spark.metrics(query)
        result["state"] = [c["state_rows"] for c in counts]
        for name in ("read_us", "join_us", "write_us"):
            result["stages"][f"in the operator: {name.removesuffix('_us')}"] = sum(c[name] for c in counts) / 1e6
        result["bytes_written"] = sum(c["bytes_written"] for c in counts)
        result["restored"] = sum(c["restored"] for c in counts)
        result["caught_up"] = sum(c["caught_up"] for c in counts)
    if ended:
        result["rows_out"] = pq.read_table(target, columns=["k" if engine != "ivjoin-keyless" else "v"]).num_rows
        spark.stop()
    result["stages"] = {k: round(v, 2) for k, v in result["stages"].items()}
    return result


def stages(progress: list[Any]) -> dict[str, float]:
    """Seconds over all micro-batches: where Spark says they went."""
    out: dict[str, float] = {}
    for p in progress:
        for name, millis in p["durationMs"].items():
            if name != "triggerExecution":
                out[name] = out.get(name, 0.0) + millis / 1000
        for op in p["stateOperators"]:
            # Summed over the tasks, so that with two tasks at work it counts twice.
            out["tasks: state commit"] = out.get("tasks: state commit", 0.0) + op["commitTimeMs"] / 1000
    return out


def first_and_steady(result: dict[str, Any]) -> str:
    """Until the query had started; its first micro-batch; the median of those from the third on."""
    steady = steady_ms(result)
    then = "" if steady is None else f", then {steady:.0f} ms a micro-batch"
    return f"planned in {result['planned_s']:.1f} s, first micro-batch {result['batch_ms'][0] / 1000:.1f} s{then}"


def steady_ms(result: dict[str, Any]) -> float | None:
    others = result["batch_ms"][2:]
    return median(others) if others else None


def beside(ours: dict[str, Any], other: dict[str, Any]) -> str:
    """Start and steady state of another engine in parts of ours."""
    out = f"first micro-batch {other['batch_ms'][0] / ours['batch_ms'][0]:.2f}, with planning "
    started = [r["planned_s"] + r["batch_ms"][0] / 1000 for r in (ours, other)]
    out += f"{started[1] / started[0]:.2f}"
    mine, theirs = steady_ms(ours), steady_ms(other)
    return out if mine is None or theirs is None else f"{out}, steady {theirs / mine:.2f}"


def reported(results: list[dict[str, Any]]) -> list[str]:
    """Ratios against the first engine."""
    ours = results[0]
    lines = [f"{r['engine']}: {first_and_steady(r)}" for r in results if r["batch_ms"]]
    for r in results[1:]:
        if ours["batch_ms"] and r["batch_ms"] and r["engine"].startswith("native"):
            lines.append(f"{r['engine']} took, in times of {ours['engine']}: {beside(ours, r)}")
        if ours["ended"] and r["engine"].startswith("native"):
            bound = "" if r["ended"] else "at least "
            line = f"{ours['engine']} is {bound}{r['seconds'] / ours['seconds']:.1f} times as fast as {r['engine']}"
            if not r["ended"]:
                # It had not ended this many when it was stopped; what came after would have taken it longer still.
                begun = r["batches"] + 1
                same = sum(ours["batch_ms"][:begun]) / 1000
                line += f" (over the first {begun} micro-batches at least {r['seconds'] / same:.0f} times)"
            lines.append(f"{line}, with {ours['peak_mb'] / r['peak_mb']:.2f} of its memory")
    for r in results:
        most = f"state rows: at most {max(r['state'])}, {r['state'][-1]} at the end" if r["state"] else "no state seen"
        spent = ", ".join(f"{k} {v:.1f}" for k, v in r["stages"].items() if v >= 0.05)
        cpu = ", ".join(f"{k} {v:.1f}" for k, v in r["cpu_by_program"].items())
        cpu += "; MB at the peak: " + ", ".join(f"{k} {n}" for k, n in r["peak_mb_by_program"].items() if n)
        if "bytes_written" in r and r["batches"]:
            most += f"; state written: {r['bytes_written'] / r['batches'] / 1e6:.2f} MB a micro-batch"
            most += f"; turns that read the state: {r['restored']}, that caught up: {r['caught_up']}"
        lines.append(f"{r['engine']}: {most}; seconds by stage: {spent}; CPU seconds: {cpu}")
    return lines


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="uniform")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows a side")
    parser.add_argument("--batches", type=int, help="micro-batches (20; 50 for numeric)")
    parser.add_argument("--fill", type=int, default=0, help="rows a side of the first micro-batch, if another")
    parser.add_argument("--keys", type=int, help="distinct keys")
    parser.add_argument("--engines", help="comma-separated; the first is what the others are compared with")
    parser.add_argument("--window-rows", type=int, help="a band that holds this many live rows a side")
    parser.add_argument("--limit", type=float, default=75.0, help="seconds after which an engine is stopped")
    parser.add_argument("--partitions", type=int, default=2, help="spark.sql.shuffle.partitions")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark's")
    parser.add_argument("--quick", action="store_true", help="40,000 rows a side, 4 micro-batches, 120 s an engine")
    parser.add_argument("--results", type=Path, help="append the results to this file, one JSON object a line")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.rows, args.batches, args.limit = 40_000, args.batches or 4, min(args.limit, 120.0)
    return args


def case_of(args: argparse.Namespace) -> Case:
    case = CASES[args.case]
    if args.window_rows:
        case = replace(case, before=args.window_rows / case.rate, after=args.window_rows / case.rate)
    return replace(case, **{n: getattr(args, n) for n in ("batches", "keys", "engines") if getattr(args, n)})


def main() -> None:
    args = parsed()
    case = case_of(args)
    if args.engine:
        got = run_engine(args.engine, args.folder, case, args.limit, args.partitions, args.conf)
        print(json.dumps(got), flush=True)
        # A query that was stopped half way may take long to let go of its tasks.
        os._exit(0)
    append(args.results, machine())
    folder = Path(tempfile.mkdtemp(prefix="ivjoin-bench-"))
    print(f"{args.case}: {args.rows} rows a side, {asdict(case)}", flush=True)
    try:
        write_inputs(folder, case, args.rows, args.fill)
        results = []
        for engine in case.engines.split(","):
            command = [sys.executable, __file__, *sys.argv[1:], "--engine", engine, "--folder", str(folder)]
            got, tree = answer_of(command)
            got |= {"peak_mb": tree.peak_bytes >> 20, "cpu_seconds": round(tree.cpu_seconds, 1)}
            got["cpu_by_program"] = {k: round(v, 1) for k, v in tree.cpu_by_program().items()}
            got["peak_mb_by_program"] = {k: n >> 20 for k, n in tree.peak_by_program.items()}
            results.append(got)
            rows = f"{got['rows_out']} rows" if got["ended"] else f"stopped after {got['batches']} micro-batches"
            used = f"{got['seconds']:7.1f} s {got['cpu_seconds']:7.1f} s CPU {got['peak_mb']:6} MB"
            print(f"{engine:15} {used}  {rows}", flush=True)
            size = {"rows": args.rows, "partitions": args.partitions, "micro_batches": case.batches, "fill": args.fill}
            size |= {"conf": args.conf} if args.conf else {}
            append(args.results, {"case": args.case, **size, **asdict(case), **got})
        same = {r["rows_out"] for r in results if r["ended"] and r["engine"] != "ivjoin-keyless"}
        if len(same) > 1:
            raise SystemExit("the engines differ in the number of rows they wrote")
        print("\n".join(reported(results)))
        if not results[0]["ended"]:
            raise SystemExit(f"{results[0]['engine']} had not ended after {args.limit:.0f} s: there is no ratio")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
