"""One task against all of them on Spark: no key, one key, 80 % of the rows in one key; static frames and streams.

    python bench/spark_spread.py --kind static           # 10^6 rows a side
    python bench/spark_spread.py --kind streams          # 10^6 rows a side and micro-batch, three micro-batches
    python bench/spark_spread.py --quick                 # whether all still runs: both kinds, small

Each way runs in a process of its own on ``local[2]`` with two shuffle partitions. ``hashed`` is ``routing="hash"``:
rows without a key, and those of one key, are joined by one task. ``spread`` finds hot keys of static frames by its
sample; of streams they are named (``hot_keys``). Static frames go to a sink that keeps nothing, once cold and then
``--repeat`` times; streams into Spark's Parquet sink, the first micro-batch apart from the median of the others, and
with ``ivjoin.spark.write_stream`` (``spread-sink``). All ways have to give the same number of rows.

The rows of each bucket in the last micro-batch are told beside: all in one, or even. Source of the data: drawn by
numpy's PCG64 with the seeds 1 (left) and 2 (right).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
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
from bench.static_spark import session_for, timed_runs, write_parts

CASES = ("no key", "one key", "80 % hot")
WAYS = {"static": ("spread", "hashed"), "streams": ("spread", "hashed", "spread-sink", "hashed-sink")}
_KEYS = 10_000
_EPOCH = 1_700_000_000_000_000
_MICROS = 1000  # from one row of a side to the next
_COLUMNS = "k long, ts timestamp, v long"


def band(pairs: int) -> str:
    """A band with about so many partners for each row of the case's one key."""
    half = pairs * _MICROS // 2
    return f"l.ts BETWEEN r.ts - INTERVAL '{half / 1e6:f}' SECOND AND r.ts + INTERVAL '{half / 1e6:f}' SECOND"


def table(case: str, seed: int, rows: int) -> pa.Table:
    """Rows in no order, many of them with the key 0."""
    rng = np.random.default_rng(seed)
    keys = np.zeros(rows, dtype=np.int64)
    if case == "80 % hot":
        keys = np.where(rng.random(rows) < 0.8, 0, rng.integers(1, _KEYS, rows))
    micros = rng.integers(0, rows * _MICROS, rows) + _EPOCH
    return pa.table({"k": keys, "ts": pa.array(micros, pa.timestamp("us", "UTC")), "v": np.arange(rows)})


def write_inputs(folder: Path, kind: str, case: str, rows: int, batches: int) -> None:
    for seed, side in ((1, "left"), (2, "right")):
        if kind == "static":
            write_parts(folder / side, table(case, seed, rows), 4)
            continue
        whole = table(case, seed, rows * batches).sort_by("ts")
        write_parts(folder / side, whole, batches)
        for b in range(batches):
            path = folder / side / f"{b}.parquet"
            part = pq.read_table(path)
            mixed = np.random.default_rng(b).permutation(part.num_rows)
            pq.write_table(part.take(pa.array(mixed)), path, row_group_size=1 << 16)
            os.utime(path, (1_600_000_000 + b, 1_600_000_000 + b))


def joined(left: Any, right: Any, case: str, way: str, pairs: int, streams: bool) -> Any:
    options: dict[str, Any] = {"routing": "hash"} if way.startswith("hashed") else {}
    if streams:
        left, right = left.withWatermark("ts", "0 seconds"), right.withWatermark("ts", "0 seconds")
        if case != "no key" and way.startswith("spread"):
            options["hot_keys"] = [0]
    return left.band_join(right, on=None if case == "no key" else "k", condition=band(pairs), **options)


def run_static(way: str, folder: Path, case: str, args: argparse.Namespace) -> dict[str, Any]:
    spark = session_for(f"bench spread {way}", spark__sql__shuffle__partitions=2)
    left, right = (spark.read.parquet(str(folder / side)) for side in ("left", "right"))
    return timed_runs(spark, lambda: joined(left, right, case, way, args.pairs, False), args.repeat, args.limit)


def run_streams(way: str, folder: Path, case: str, args: argparse.Namespace) -> dict[str, Any]:
    import ivjoin.spark

    spark = session_for(f"bench spread {way}", spark__sql__shuffle__partitions=2)

    def source(side: str) -> Any:
        # A large file is read by both tasks.
        return spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / side))

    spark.conf.set("spark.sql.files.maxPartitionBytes", str(4 << 20))
    out = joined(source("left"), source("right"), case, way, args.pairs, True)
    target, checkpoint = str(folder / f"out-{way}"), str(folder / f"checkpoint-{way}")
    begin = time.perf_counter()
    if way.endswith("sink"):
        query = ivjoin.spark.write_stream(out, target, checkpoint, trigger="availableNow")
    else:
        writer = out.writeStream.format("parquet").option("path", target).outputMode("append")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    ended = query.awaitTermination(args.limit)
    seconds = [round(time.perf_counter() - begin, 2)] if ended else []
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    found: dict[str, Any] = {"seconds": seconds, "ended": ended, "batch_ms": [p["batchDuration"] for p in progress]}
    if ended:
        counts: list[dict[str, Any]] = ivjoin.spark.metrics(query)
        found["rows_out"] = sum(c["rows_out"] for c in counts)
        # In the last micro-batch; each bucket's rows in and out together.
        busy: list[dict[str, int]] = next((c["buckets"] for c in reversed(counts) if c["left_rows_in"]), [])
        found["buckets"] = [b["left_rows_in"] + b["right_rows_in"] + b["rows_out"] for b in busy]
    return found


def line(kind: str, case: str, found: dict[str, dict[str, Any]]) -> str:
    """A case's ways side by side."""
    parts = []
    for way, r in found.items():
        if not r["ended"]:
            parts.append(f"{way} did not end")
        elif kind == "static":
            parts.append(f"{way} {r['seconds'][0]:.1f} s cold, {min(r['seconds'][1:] or r['seconds']):.2f} s")
        else:
            steady = median(r["batch_ms"][1:] or r["batch_ms"])
            parts.append(f"{way} {r['batch_ms'][0] / 1000:.1f} s, then {steady:,.0f} ms {r['buckets']}")
    for a, b in (("hashed", "spread"), ("hashed-sink", "spread-sink")):
        if a in found and b in found and found[a]["ended"] and found[b]["ended"]:
            name = "" if a == "hashed" else " into the sink"
            parts.append(f"{_steady(kind, found[a]) / _steady(kind, found[b]):.2f} times as fast{name}")
    return f"{kind}, {case}: " + "; ".join(parts)


def _steady(kind: str, r: dict[str, Any]) -> float:
    if kind == "static":
        return float(min(r["seconds"][1:] or r["seconds"]))
    return float(median(r["batch_ms"][1:] or r["batch_ms"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=WAYS, help="both by default")
    parser.add_argument("--case", choices=CASES, help="all by default")
    parser.add_argument("--ways", default="", help="comma-separated, all by default")
    parser.add_argument("--rows", type=int, default=1_000_000, help="a side; of streams, and micro-batch")
    parser.add_argument("--batches", type=int, default=3, help="micro-batches of streams")
    parser.add_argument("--pairs", type=int, default=10, help="partners of a row among those of its key")
    parser.add_argument("--repeat", type=int, default=2, help="warm runs of static frames")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for all runs of a way")
    parser.add_argument("--quick", action="store_true", help="20,000 rows, one warm run")
    parser.add_argument("--results", type=Path, help="append the results to this file, one JSON object a line")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.rows, args.repeat = 20_000, 1
    if args.way:
        run = run_static if args.kind == "static" else run_streams
        print(json.dumps({"way": args.way, **run(args.way, args.folder, args.case, args)}), flush=True)
        os._exit(0)
    append(args.results, machine())
    for kind in [args.kind] if args.kind else WAYS:
        for case in [args.case] if args.case else CASES:
            with tempfile.TemporaryDirectory(prefix="ivjoin-bench-") as name:
                write_inputs(Path(name), kind, case, args.rows, args.batches)
                found = {}
                for way in args.ways.split(",") if args.ways else WAYS[kind]:
                    command = [sys.executable, __file__, *sys.argv[1:], "--kind", kind, "--case", case]
                    got, tree = answer_of([*command, "--way", way, "--folder", name])
                    found[way] = got | {"peak_mb": tree.peak_bytes >> 20, "cpu_seconds": round(tree.cpu_seconds, 1)}
                    append(args.results, {"case": f"{kind} {case}", "rows": args.rows, **found[way]})
            print(line(kind, case, found), flush=True)
            if len({r["rows_out"] for r in found.values() if r["ended"]}) > 1:
                raise SystemExit(f"the ways differ in the number of rows: {found}")


if __name__ == "__main__":
    main()
