"""A driver for ``spark-submit``: joins on separate executors. Prints one line of JSON for each thing that it tried."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

BAND = "r.x BETWEEN l.x - 10 AND l.x"
ROWS, FILES = 60, 4
folder, backends = Path(sys.argv[1]), sys.argv[2:]
spark: Any = SparkSession.builder.appName("ivjoin on a cluster").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

import ivjoin.spark  # noqa: E402


def rows(side: str, file: int) -> list[tuple[int, int]]:
    return [(i % 7, file * ROWS + i - (5 if side == "right" else 0)) for i in range(ROWS)]


def expected(files: int) -> Counter[Any]:
    left, right = ([row for f in range(files) for row in rows(side, f)] for side in ("left", "right"))
    out: Counter[Any] = Counter()
    for k, x in left:
        partners: list[int | None] = [y for j, y in right if j == k and x - 10 <= y <= x]
        out.update((k, x, y) for y in partners or [None])
    return out


def add(place: Path, files: range) -> None:
    for f in files:
        for side in ("left", "right"):
            keys, values = zip(*rows(side, f), strict=True)
            (place / side).mkdir(parents=True, exist_ok=True)
            path = place / side / f"{f}.parquet"
            pq.write_table(pa.table({"k": keys, "x": values}), path)
            os.utime(path, (1_600_000_000 + f, 1_600_000_000 + f))  # Spark reads files in the order of their times


def read(path: Path) -> Counter[Any]:
    return Counter(map(tuple, spark.read.parquet(str(path)).collect()))


def worker_error(text: str) -> str:
    """Return the last error of a Python worker in Spark's report."""
    return text[text.rfind("Traceback (most recent call last)") :]


def tell(what: str, attempt: Callable[[], Any], again: bool = True) -> None:
    try:
        told = attempt()
    except Exception as e:
        # A worker has 10 s to start, which is too little on a busy machine: the query then starts again, as users do.
        if again and any(said in str(e) for said in ("failed to connect back", "timed out", "TimeoutException")):
            tell(what, attempt, again=False)
            return
        told = f"{str(e)[:1500]} ... {worker_error(str(e))[:1500]}"
    print(json.dumps([what, told]), flush=True)


def where() -> Any:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import ivjoin

        for _ in batches:
            executor = os.environ.get("SPARK_EXECUTOR_DIRS", "")
            yield pa.record_batch({"file": [ivjoin.__file__], "executor": [executor]})

    found = spark.range(0, 4, 1, 4).mapInArrow(look, "file string, executor string").distinct().collect()
    return [ivjoin.__file__, sorted({r.file for r in found}), len({r.executor for r in found})]


def static() -> Any:
    add(folder / "static", range(FILES))
    left, right = (spark.read.parquet(str(folder / "static" / side)) for side in ("left", "right"))
    joined = left.band_join(right, on="k", condition=BAND, how="left", buckets=2)
    same = Counter(map(tuple, joined.collect())) == expected(FILES)
    return [same, left.asof_join(right, on="x", by="k").count()]


def streamed(backend: str) -> Any:
    """Two runs on one checkpoint, the first into Spark's sink and the second into that of ``write_stream``."""
    place = folder / backend
    out = [place / "out", place / "files"]
    for run, files in enumerate((range(2), range(2, FILES))):
        add(place, files)
        sides = [
            spark.readStream.schema("k long, x long").option("maxFilesPerTrigger", 1).parquet(str(place / side))
            for side in ("left", "right")
        ]
        joined = sides[0].band_join(
            sides[1], on="k", condition=BAND, how="left", left_order="x", right_order="x", backend=backend, buckets=2
        )
        if run == 0:
            writer = joined.writeStream.format("parquet").option("path", str(out[0])).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(place / "checkpoint")).start()
        else:
            query = ivjoin.spark.write_stream(joined, out[1], place / "checkpoint", trigger="availableNow")
        query.awaitTermination()
    found, want = read(out[0]) + read(out[1]), expected(FILES)
    undecided = {row for row in want if row[1] >= FILES * ROWS - 20}  # unmatched rows that a later row may match
    return [not found - want and not set(want - found) - undecided, sum(found.values()) > ROWS]


tell("where", where)
tell("static", static)
for name in backends:
    tell(name, lambda name=name: streamed(name))  # type: ignore[misc]
spark.stop()
