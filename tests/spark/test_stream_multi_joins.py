"""A join of three streams on a hypercube: stopped and started again, each row once; what it keeps; what it refuses."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import ivjoin.spark
from ivjoin.errors import SnapshotError
from ivjoin.multi.question import multi_spec
from ivjoin.multi.spread import cube
from ivjoin.spark.cell_state import cell_function
from ivjoin.spark.pack import packer
from ivjoin.spark.results import Results

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


class State:
    """``GroupState`` of one cell."""

    def __init__(self) -> None:
        self.held: Any = None

    @property
    def exists(self) -> bool:
        return self.held is not None

    @property
    def get(self) -> Any:
        return self.held

    def update(self, value: Any) -> None:
        self.held = value


@pytest.mark.parametrize("workers", [1, 3])
def test_cells_played_by_hand(workers: int) -> None:
    """Without Spark: each micro-batch packed, the cells played with states as Spark keeps them, one of them twice."""
    spec = multi_spec(dict.fromkeys("abc", SCHEMA), WHERE, orders=ORDERS, on_late="drop")
    plan = cube(spec, workers)
    assert plan.workers == workers
    labels = list(range(workers))
    play = cell_function(spec, plan, Results(10_000))
    states = {label: State() for label in labels}
    found: Counter[tuple[int, ...]] = Counter()
    sizes = []
    for turn in range(6):
        packed: list[pa.RecordBatch] = []
        for side, alias in enumerate("abc"):
            given = piece(alias, turn)
            batch = pa.RecordBatch.from_arrays(
                [pa.array(np.asarray(given["k"]) % workers, pa.int32()), *(c.combine_chunks() for c in given.columns)],
                names=["bucket", *SCHEMA.names],
            )  # fmt: skip
            packed += packer(spec.inputs[alias], 0, labels, tag=side)(iter([batch]))
        frame = pa.Table.from_batches(packed).to_pandas()
        for label in labels:
            rows = frame[frame["label"] == label]
            if turn == 3 and label == 0:  # a task that fails at its end and runs again: its state was not committed
                before = states[0].held
                list(play((0,), iter([rows]), states[0]))
                states[0].held = before
            for out in play((label,), iter([rows]), states[label]):
                for packed_rows in out["rows"].dropna():
                    found.update(ids(pa.Table.from_batches([pa.ipc.read_record_batch(packed_rows, spec.schema)])))
        sizes.append(sum(len(s.held[3]) for s in states.values()))
    assert found == wanted(6)
    assert max(sizes[3:]) < 1.5 * sizes[1], sizes
    other = multi_spec(dict.fromkeys("abc", SCHEMA), WHERE + " AND a.k > 0", orders=ORDERS, on_late="drop")
    with pytest.raises(SnapshotError, match="condition was"):
        list(cell_function(other, plan, Results(10_000))((0,), iter([pd.DataFrame()]), states[0]))


@pytest.mark.spark
def test_stopped_and_started_again(spark: Any, tmp_path: Path) -> None:
    for alias in "abc":
        (tmp_path / alias).mkdir()

    def add(turn: int) -> None:
        for alias in "abc":
            path = tmp_path / alias / f"{turn:03d}.parquet"
            pq.write_table(piece(alias, turn), path)
            os.utime(path, (1_600_000_000 + turn, 1_600_000_000 + turn))

    def run() -> Counter[tuple[int, ...]]:
        frames = {
            a: spark.readStream.schema("k long, ts long, id long").option("maxFilesPerTrigger", 1)
            .parquet(str(tmp_path / a)) for a in "abc"
        }  # fmt: skip
        joined = ivjoin.spark.multi_join(frames, WHERE, orders=ORDERS, workers=2)
        query = (
            joined.writeStream.format("parquet").option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(300)
        return ids(spark.read.parquet(str(tmp_path / "out")).toArrow())

    add(0)
    add(1)
    assert run() == wanted(2)
    add(2)
    assert run() == wanted(3)
