"""Streaming: Spark's own stream-stream join (default store, and RocksDB with state format 4) against band_join.

Two streams of Parquet files, one file a side and micro-batch, into a Parquet sink, on ``local[2]``. Each engine runs in
a session of its own (a fresh process); the script checks that all wrote the same number of rows, and prints time, peak
memory of the process tree, and the ratios.

    python bench/spark_streams.py --case uniform            # 10^4 keys, band of -10 s .. +5 s
    python bench/spark_streams.py --case zipf               # keys by Zipf(1.2)
    python bench/spark_streams.py --case window             # 300,000 live rows a side
    python bench/spark_streams.py --case numeric            # l.x BETWEEN r.x - 5 AND r.x + 5, no event time
    python bench/spark_streams.py --rows 100000 --batches 5 # smaller

Source of the data: drawn by numpy's PCG64 with the seeds 1 (left) and 2 (right).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BAND = "l.ts BETWEEN r.ts - INTERVAL {before} SECONDS AND r.ts + INTERVAL {after} SECONDS"
CASES = {
    # rows per second of event time, keys, band before and after in seconds
    "uniform": {"rate": 100, "keys": 10_000, "before": 10, "after": 5, "zipf": False},
    "zipf": {"rate": 100, "keys": 10_000, "before": 10, "after": 5, "zipf": True},
    "window": {"rate": 100, "keys": 10_000, "before": 2_000, "after": 1_000, "zipf": False},
    "numeric": {"rate": 100, "keys": 10_000, "before": 5, "after": 5, "zipf": False},
}
ENGINES = ("ivjoin", "native", "native-rocksdb")


def write_inputs(folder: Path, case: dict[str, Any], rows: int, batches: int) -> None:
    """``batches`` files a side, in order of event time."""
    for seed, side in ((1, "left"), (2, "right")):
        rng = np.random.default_rng(seed)
        (folder / side).mkdir(parents=True)
        if case["zipf"]:
            weights = np.arange(1, case["keys"] + 1) ** -1.2
            keys = rng.choice(case["keys"], rows, p=weights / weights.sum())
        else:
            keys = rng.integers(0, case["keys"], rows)
        micros = np.sort(rng.integers(0, rows * 1_000_000 // case["rate"], rows)) + 1_700_000_000_000_000
        table = pa.table({
            "k": pa.array(keys, pa.int64()),
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "x": pa.array((micros - 1_700_000_000_000_000) / 10_000.0, pa.float64()),
            "v": pa.array(np.arange(rows), pa.int64()),
        })
        for b in range(batches):
            part = table.slice(b * rows // batches, (b + 1) * rows // batches - b * rows // batches)
            path = folder / side / f"{b:05d}.parquet"
            pq.write_table(part, path)
            os.utime(path, (1_600_000_000 + b, 1_600_000_000 + b))


def run_engine(engine: str, folder: Path, case: dict[str, Any], numeric: bool) -> dict[str, Any]:
    """One engine's whole run, in this process."""
    from pyspark.sql import functions as F

    import ivjoin.spark

    config = {
        "spark__sql__shuffle__partitions": 2, "spark__ui__enabled": "false", "spark__driver__memory": "6g",
        "spark__sql__session__timeZone": "UTC", "spark__ui__showConsoleProgress": "false",
    }
    if engine == "native-rocksdb":
        config["spark__sql__streaming__join__stateFormatVersion"] = 4
        config["spark__sql__streaming__stateStore__providerClass"] = (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        )
    spark = ivjoin.spark.session("local[2]", f"bench {engine}", **config)
    spark.sparkContext.setLogLevel("ERROR")

    def source(side: str) -> Any:
        reader = spark.readStream.schema("k long, ts timestamp, x double, v long").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder / side))

    left, right = source("left"), source("right")
    if numeric:
        band = "l.x BETWEEN r.x - 5 AND r.x + 5"
    else:
        band = BAND.format(**case)
        left, right = left.withWatermark("ts", "0 seconds"), right.withWatermark("ts", "0 seconds")
    if engine == "ivjoin":
        orders = {"left_order": "x", "right_order": "x"} if numeric else {}
        out = left.band_join(right, on="k", condition=band, **orders)
    else:
        out = left.alias("l").join(right.alias("r"), F.expr(f"l.k = r.k AND {band}"))
        out = out.selectExpr("l.k", "l.ts", "l.x", "l.v", "r.ts AS ts_right", "r.x AS x_right", "r.v AS v_right")
    target = folder / f"out-{engine}"
    begin = time.perf_counter()
    query = (
        out.writeStream.format("parquet").option("path", str(target)).outputMode("append")
        .option("checkpointLocation", str(folder / f"checkpoint-{engine}")).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - begin
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    state = [p["stateOperators"][0]["numRowsTotal"] for p in progress if p["stateOperators"]]
    result: dict[str, Any] = {
        "engine": engine, "seconds": round(seconds, 2), "rows_out": pq.read_table(target).num_rows,
        "batches": len(progress), "batch_ms": [p["batchDuration"] for p in progress], "state": state,
    }
    if engine == "ivjoin":
        counts = ivjoin.spark.metrics(query)
        result["state"] = [c["state_rows"] for c in counts]
        for name in ("read_us", "join_us", "write_us"):
            result[name.replace("_us", "_s")] = round(sum(c[name] for c in counts) / 1e6, 2)
        result["bytes_written"] = sum(c["bytes_written"] for c in counts)
        result["restored"] = sum(c["restored"] for c in counts)
    spark.stop()
    return result


def tree_memory(root: int) -> int:
    """Resident bytes of a process and all below it (Linux); Spark's Python workers are children of the JVM."""
    parents: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
                sizes[int(entry.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, IndexError):
                continue
    total, stack = 0, [root]
    while stack:
        pid = stack.pop()
        total += sizes.get(pid, 0)
        stack.extend(parents.get(pid, []))
    return total


def timed_process(args: list[str]) -> dict[str, Any]:
    """Run this script for one engine and watch its memory."""
    process = subprocess.Popen([sys.executable, __file__, *args], stdout=subprocess.PIPE, text=True)
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.25):
            peak = max(peak, tree_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = process.communicate()
    done.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(args)} ended with {process.returncode}")
    return {**json.loads(out.strip().splitlines()[-1]), "peak_mb": peak >> 20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="uniform")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows a side")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--window-rows", type=int, default=0, help="widen the band until this many rows a side live")
    parser.add_argument("--results", type=Path, help="append the results to this file, one JSON object a line")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    args = parser.parse_args()
    case = dict(CASES[args.case])
    if args.engine:
        print(json.dumps(run_engine(args.engine, args.folder, case, args.case == "numeric")))
        return
    folder = Path(tempfile.mkdtemp(prefix="ivjoin-bench-"))
    try:
        write_inputs(folder, case, args.rows, args.batches)
        results = []
        for engine in args.engines.split(","):
            got = timed_process(["--engine", engine, "--folder", str(folder), "--case", args.case])
            results.append(got)
            print(f"{engine:15} {got['seconds']:8.1f} s  {got['peak_mb']:6} MB  {got['rows_out']} rows", flush=True)
            if args.results:
                with args.results.open("a") as file:
                    file.write(json.dumps({"case": args.case, "rows": args.rows, **got}) + "\n")
        if len({r["rows_out"] for r in results}) != 1:
            raise SystemExit("the engines differ in the number of rows they wrote")
        ours = results[0]
        for r in results[1:]:
            print(f"ivjoin is {r['seconds'] / ours['seconds']:.1f} times as fast as {r['engine']}, "
                  f"with {ours['peak_mb'] / r['peak_mb']:.2f} of its memory")
        print(json.dumps({k: v for k, v in ours.items() if k not in ("state", "batch_ms")}))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
