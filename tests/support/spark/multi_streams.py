"""A join of three streams in a folder, and the rows that it must emit."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ivjoin.spark

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("id", pa.int64())])

WHERE = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 30 AND c.ts BETWEEN b.ts - 5 AND b.ts + 20"

ORDERS = dict.fromkeys("abc", "ts")


def piece(alias: str, turn: int, rows: int = 200) -> pa.Table:
    rng = np.random.default_rng(1000 * turn + ord(alias))
    ts = turn * 100 + rng.permutation(rng.integers(0, 100, rows))  # in no order within a micro-batch
    return pa.table([rng.integers(0, 8, rows), ts, np.arange(rows) + 10_000 * turn], schema=SCHEMA)


def wanted(turns: int) -> Counter[tuple[int, ...]]:
    con = duckdb.connect()
    for alias in "abc":
        con.register(alias, pa.concat_tables([piece(alias, t) for t in range(turns)]))
    return Counter(con.execute(f"SELECT a.id, b.id, c.id FROM a, b, c WHERE {WHERE}").fetchall())


def ids(table: pa.Table) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(table.column(f"{a}_id").to_pylist() for a in "abc"), strict=True))


class Folder:
    """Three streams of Parquet files, their join into Parquet files, and its checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.query: Any = None

    def add(self, turn: int) -> None:
        for alias in "abc":
            path = self.folder / alias / f"{turn:03d}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(piece(alias, turn), path)
            os.utime(path, (1_600_000_000 + turn, 1_600_000_000 + turn))

    def start(self, spark: Any) -> Any:
        frames = {
            a: spark.readStream.schema("k long, ts long, id long").option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder / a)) for a in "abc"
        }  # fmt: skip
        joined = ivjoin.spark.multi_join(frames, WHERE, orders=ORDERS, workers=2)
        return (
            joined.writeStream.format("parquet").option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip

    def run(self, spark: Any) -> Counter[tuple[int, ...]]:
        self.query = self.start(spark)
        assert self.query.awaitTermination(300)
        return ids(spark.read.parquet(str(self.folder / "out")).toArrow())
