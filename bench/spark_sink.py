"""What the sink of a streaming join costs by itself: the rows of ``spark_streams.py --case window`` without any join.

As many rows as the join gives, of the same columns, go into the same streaming Parquet sink in as many micro-batches:
once made inside Spark from the rows of one side (``explode``), once by a map stage in Python that hands over Arrow
batches, as ``band_join`` does at its end. No join of the same rows, Spark's own included, can take less than the
smaller of the two, whatever it costs to find the rows.

    python bench/spark_sink.py                       # 51 M rows in 20 micro-batches, as with 10^4 keys
    python bench/spark_sink.py --copies 1            # 1 M rows: what is left are micro-batches
    python bench/spark_sink.py --timestamps TIMESTAMP_MICROS   # instead of Spark's default, INT96
    python bench/spark_sink.py --join                # the joins themselves too, in the same run

Processor time is of the whole tree of processes, Spark's start included.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from bench.process_tree import answer_of
from bench.runner import append, machine
from bench.spark_streams import CASES, run_engine, session_for, write_inputs

_INPUT = "k long, ts timestamp, x double, v long"
_OUTPUT = f"{_INPUT}, ts_right timestamp, x_right double, v_right long"
_CHUNK = 1 << 16
_KEYS = 10_000
_ROWS = 1_000_000


def repeated(copies: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A map stage: each row paired with ``copies`` random rows of its task, like the output of a join."""

    def make(batches: Iterator[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        pieces = [b for b in batches if b.num_rows]
        if not pieces:
            return
        whole = pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
        n = whole.num_rows
        left = np.repeat(np.arange(n), copies)
        right = np.random.default_rng(1).integers(0, n, len(left))
        names = [column.split()[0] for column in _OUTPUT.split(", ")]
        for begin in range(0, len(left), _CHUNK):
            a, b = (whole.take(pa.array(rows[begin : begin + _CHUNK])) for rows in (left, right))
            yield pa.RecordBatch.from_arrays([*a.columns, *b.columns[1:]], names=names)

    return make


def exploded(rows: Any, copies: int) -> Any:
    """The same in Spark: the other side's columns are computed from the row and the number of its copy."""
    many = rows.selectExpr("*", f"explode(sequence(1, {copies})) AS i", "v AS w")
    return many.selectExpr(
        "k", "ts", "x", "v", "timestamp_micros(unix_micros(ts) + hash(w, i) % 300000000) AS ts_right",
        "x + hash(w, i) % 300 AS x_right", "v + hash(w, i) % 300000 AS v_right",
    )


def run(way: str, folder: Path, copies: int, timestamps: str) -> dict[str, Any]:
    if way.startswith("join"):
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f"--conf spark.sql.parquet.outputTimestampType={timestamps} pyspark-shell"
        )
        got = run_engine(way.partition(" ")[2], folder, replace(CASES["window"], keys=_KEYS), 600)
        return {"way": way, **{name: got[name] for name in ("seconds", "batch_ms", "rows_out")}}
    spark = session_for("ivjoin")
    spark.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
    rows = spark.readStream.schema(_INPUT).option("maxFilesPerTrigger", 1).parquet(str(folder / "left"))
    rows = rows.repartition(2, "k")
    out = rows.mapInArrow(repeated(copies), _OUTPUT) if way == "Arrow" else exploded(rows, copies)
    writer = out.writeStream.format("parquet").option("path", str(folder / f"out-{way}")).trigger(availableNow=True)
    begin = time.perf_counter()
    query = writer.option("checkpointLocation", str(folder / f"checkpoint-{way}")).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begin
    millis = [p["batchDuration"] for p in query.recentProgress if p["numInputRows"]]
    written = spark.read.parquet(str(folder / f"out-{way}")).count()
    return {"way": way, "seconds": seconds, "batch_ms": millis, "rows_out": written}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=51, help="rows out for each row of a side")
    parser.add_argument("--batches", type=int, default=20, help="micro-batches; each has 50,000 rows a side")
    parser.add_argument("--timestamps", default="INT96", help="spark.sql.parquet.outputTimestampType")
    parser.add_argument("--join", action="store_true", help="also run ivjoin and Spark's own join")
    parser.add_argument("--results", type=Path, help="append the results to this file, one JSON object a line")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(run(args.way, args.folder, args.copies, args.timestamps)), flush=True)
        os._exit(0)
    append(args.results, machine())
    folder = Path(tempfile.mkdtemp(prefix="ivjoin-bench-"))
    try:
        case = replace(CASES["window"], keys=_KEYS, batches=args.batches)
        write_inputs(folder, case, _ROWS * args.batches // CASES["window"].batches)
        for way in ("Spark", "Arrow", *(("join ivjoin-sink", "join ivjoin", "join native") if args.join else ())):
            command = [sys.executable, __file__, *sys.argv[1:], "--way", way, "--folder", str(folder)]
            got, tree = answer_of(command)
            got["cpu"] = tree.cpu_by_program()
            cpu = ", ".join(f"{name} {got['cpu'].get(name, 0.0):.1f}" for name in ("java", "python"))
            print(f"{way:12} {got['seconds']:6.1f} s for {got['rows_out']} rows; CPU s: {cpu}", flush=True)
            append(args.results, {"copies": args.copies, "timestamps": args.timestamps, **got})
            for made in folder.glob(f"*-{way.removeprefix('join ')}"):
                shutil.rmtree(made)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
