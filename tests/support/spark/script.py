"""Scripts over streams of files, after Spark's own StreamTest: add data, run, look at what is new, stop, start."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[Any, ...]


class StreamFailed(AssertionError):
    """A streaming query that ended with an error; the message is the Python worker's where there is one."""


def worker_error(text: str) -> str:
    """A Python worker's message, out of Spark's report of a failed query."""
    at = text.find("Traceback (most recent call last)")
    return text if at < 0 else text[at:].split("SQLSTATE")[0].split("=== Streaming Query ===")[0]


class Script:
    """Two streams of Parquet files, a join over them, and a Parquet sink with a checkpoint.

    Every file is one micro-batch of its side (``maxFilesPerTrigger=1``); files are taken in the order they were added.
    """

    def __init__(
        self, spark: Any, folder: Path, join: Callable[[Any, Any], Any], left: pa.Schema, right: pa.Schema
    ) -> None:
        self.spark, self.folder, self.join = spark, folder, join
        self.schemas = {"left": left, "right": right}
        self.added = {"left": 0, "right": 0}
        self.seen: Counter[Row] = Counter()
        self.query: Any = None
        for side in self.schemas:
            (folder / side).mkdir(parents=True, exist_ok=True)

    def add(self, **rows: Iterable[Any] | pa.Table) -> Script:
        """``add(left=[...], right=[...])``: one file a side."""
        for side, given in rows.items():
            table = given if isinstance(given, pa.Table) else self._table(side, list(given))
            n = self.added[side] = self.added[side] + 1
            path = self.folder / side / f"{n:05d}.parquet"
            pq.write_table(table, path.with_suffix(".tmp"))
            os.utime(path.with_suffix(".tmp"), (1_600_000_000 + n, 1_600_000_000 + n))  # files are read in this order
            path.with_suffix(".tmp").rename(path)
        return self

    def add_all(self, left: Iterable[Any], right: Iterable[Any]) -> None:
        for a, b in zip(left, right, strict=True):
            self.add(left=a, right=b)

    def _table(self, side: str, rows: list[Row]) -> pa.Table:
        schema = self.schemas[side]
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    def source(self, side: str) -> Any:
        from ivjoin.spark.api.schema import spark_type

        ddl = ", ".join(f"`{f.name}` {spark_type(f.type).simpleString()}" for f in self.schemas[side])
        reader = self.spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1)
        return reader.option("pathGlobFilter", "*.parquet").parquet(str(self.folder / side))

    def start(self) -> Any:
        out = self.join(self.source("left"), self.source("right"))
        writer = out.writeStream.format("parquet").outputMode("append").option("path", str(self.folder / "out"))
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True).start()

    def run(self, timeout: int = 600) -> Counter[Row]:
        """Start the query anew, let it take all there is, and return the rows that were not there before.

        A worker has 10 s to start, which is too little on a busy machine: the query then starts again, as users do.
        """
        for again in (True, True, False):
            self.query = self.start()
            try:
                ended = self.query.awaitTermination(timeout)
                break
            except Exception as e:
                if not (again and "Python worker failed to connect back" in str(e)):
                    raise StreamFailed(worker_error(str(e))) from None
        if not ended:
            self.query.stop()
            raise AssertionError(f"the query did not end within {timeout} s")
        new = self.output() - self.seen
        self.seen += new
        return new

    def run_by_batch(self, timeout: int = 600) -> list[Counter[Row]]:
        """As ``run``, into no sink: the rows of each micro-batch."""
        out: list[Counter[Row]] = []
        joined = self.join(self.source("left"), self.source("right"))
        writer = joined.writeStream.foreachBatch(lambda frame, _: out.append(rows_of(frame.toArrow())))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True)
        self.query = writer.start()
        if not self.query.awaitTermination(timeout):
            self.query.stop()
            raise AssertionError(f"the query did not end within {timeout} s")
        return out

    def output(self) -> Counter[Row]:
        table = self.spark.read.parquet(str(self.folder / "out")).toArrow()
        return rows_of(table)

    def counts(self) -> list[dict[str, Any]]:
        from ivjoin.spark import metrics

        return metrics(self.query)


def rows_of(table: pa.Table) -> Counter[Row]:
    """The rows as a multiset; times as whole numbers, so that no zone and no range of datetime matters."""
    columns = []
    for c in table.columns:
        if pa.types.is_timestamp(c.type) or pa.types.is_duration(c.type):
            c = c.cast(pa.int64())
        columns.append([repr(v) if isinstance(v, (list, dict, float)) else v for v in c.to_pylist()])
    return Counter(zip(*columns, strict=True)) if columns else Counter()
