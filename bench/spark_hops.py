"""What each way of handing rows to and from a stateful Python function costs, the function itself doing nothing.

    python bench/spark_hops.py                          # 10 micro-batches of 50,000 rows a side
    python bench/spark_hops.py --copies 8               # each left row comes out 8 times

Rows go in as plain columns through pandas, or packed as Arrow bytes by a map stage; they come out as plain columns or
packed and opened by a second map stage. Plain columns on the way in are not exact (a long with nulls becomes a
double), and are here for the comparison. Time is that of a micro-batch, the first two left out; with other work on
the machine compare the processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from bench.process_tree import answer_of
from bench.runner import append, machine
from bench.spark_streams import CASES, write_inputs

WAYS = ("plain in, nothing out", "packed in, nothing out", "packed in, plain out", "packed in, packed out")
_COLUMNS = "k long, ts timestamp, x double, v long"
_BUCKETS = 2


def run(way: str, folder: Path, copies: int) -> dict[str, Any]:
    from pyspark.sql import functions as F

    import ivjoin.spark

    spark = ivjoin.spark.session(
        "local[2]", "bench hops", spark__sql__shuffle__partitions=_BUCKETS, spark__ui__enabled="false",
        spark__sql__session__timeZone="UTC", spark__ui__showConsoleProgress="false",
    )
    spark.sparkContext.setLogLevel("OFF")
    sides = []
    for side in ("left", "right"):
        rows = spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        bucket = F.expr(f"pmod(hash(k), {_BUCKETS})").alias("bucket")
        rows = rows.select(bucket, F.lit(side == "right").alias("side"), "k", "ts", "x", "v")
        packed = way.startswith("packed")
        sides.append(rows.mapInArrow(pack, "bucket int, side boolean, rows binary") if packed else rows)
    grouped = sides[0].union(sides[1]).groupBy("bucket")
    out = {"nothing out": "n long", "plain out": _COLUMNS, "packed out": "rows binary"}[way.split(", ")[1]]
    function = {"nothing out": swallow, "plain out": as_columns(copies), "packed out": as_bytes(copies)}
    played = grouped.applyInPandasWithState(function[way.split(", ")[1]], out, "n long", "append", "NoTimeout")
    if way.endswith("packed out"):
        played = played.mapInArrow(opened, _COLUMNS)
    writer = played.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / f"check-{way}")).start()
    query.awaitTermination()
    millis = [p["batchDuration"] for p in query.recentProgress if p["numInputRows"]]
    return {"way": way, "copies": copies, "batch_ms": millis}


def pack(batches: Iterator[Any]) -> Iterator[Any]:
    import numpy as np
    import pyarrow as pa

    pieces = list(batches)
    if not pieces:
        return
    whole = pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
    bucket = np.asarray(whole.column(0))
    found = [int(b) for b in np.unique(bucket)]
    rows = [whole.select(["k", "ts", "x", "v"]).take(pa.array(np.flatnonzero(bucket == b))) for b in found]
    columns = [
        pa.array(found, pa.int32()), whole.column(1).slice(0, len(found)),
        pa.array([r.serialize().to_pybytes() for r in rows], pa.binary()),
    ]
    yield pa.RecordBatch.from_arrays(columns, names=["bucket", "side", "rows"])


def swallow(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    n = sum(len(f) for f in frames)
    state.update((n,))
    yield pd.DataFrame({"n": [n]})


def _left_rows(frames: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    schema = pa.schema([
        ("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("v", pa.int64())
    ])  # fmt: skip
    for frame in frames:
        for side, rows in zip(frame["side"], frame["rows"], strict=True):
            if not side:
                yield pa.ipc.read_record_batch(pa.py_buffer(rows), schema)


def as_columns(copies: int) -> Any:
    def plain(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        state.update((0,))
        for batch in _left_rows(frames):
            frame = batch.to_pandas()
            yield from (frame for _ in range(copies))

    return plain


def as_bytes(copies: int) -> Any:
    def packed(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        state.update((0,))
        for batch in _left_rows(frames):
            rows = batch.serialize().to_pybytes()
            yield from (pd.DataFrame({"rows": [rows]}) for _ in range(copies))

    return packed


def opened(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    schema = pa.schema([
        ("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("v", pa.int64())
    ])  # fmt: skip
    for batch in batches:
        for rows in batch.column(0):
            yield pa.ipc.read_record_batch(rows.as_buffer(), schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000, help="rows a side")
    parser.add_argument("--copies", type=int, default=4, help="times each left row comes out")
    parser.add_argument("--only", default="", help="ways whose name contains this")
    parser.add_argument("--results", type=Path, help="append the results to this file, one JSON object a line")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(run(args.way, args.folder, args.copies)), flush=True)
        os._exit(0)
    append(args.results, machine())
    folder = Path(tempfile.mkdtemp(prefix="ivjoin-bench-"))
    try:
        write_inputs(folder, replace(CASES["uniform"], batches=10), args.rows)
        for way in (w for w in WAYS if args.only in w):
            command = [sys.executable, __file__, *sys.argv[1:], "--way", way, "--folder", str(folder)]
            got, tree = answer_of(command)
            got["cpu"] = tree.cpu_by_program()
            cpu = ", ".join(f"{name} {got['cpu'].get(name, 0.0):.1f}" for name in ("java", "python"))
            print(f"{way:24} {statistics.median(got['batch_ms'][2:]):6.0f} ms a micro-batch; CPU s: {cpu}", flush=True)
            append(args.results, got)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
