"""A join of three streams on a hypercube: stopped and started again, each row once; what it keeps; what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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
from ivjoin.spark.cell_state import cell_function, counts_of
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
    counted: list[dict[str, int]] = []
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
                for text in out["counts"].dropna():
                    counted.append(dict(zip(counts_of("abc"), map(int, text.split(",")), strict=True)))
                for packed_rows in out["rows"].dropna():
                    found.update(ids(pa.Table.from_batches([pa.ipc.read_record_batch(packed_rows, spec.schema)])))
        sizes.append(sum(len(s.held[3]) for s in states.values()))
    assert found == wanted(6)
    assert sum(c["rows_out"] for c in counted) == sum(found.values())
    assert sum(c["a_rows_in"] for c in counted) == 6 * 200
    assert sum(c["restored"] for c in counted) == 5 * workers
    assert sum(c["b_rows_retired"] for c in counted) > 4 * 200
    assert all(c["state_bytes"] > 0 and c["bytes_written"] > 0 and c["late_rows"] == 0 for c in counted)
    assert max(sizes[3:]) < 1.5 * sizes[1], sizes
    other = multi_spec(dict.fromkeys("abc", SCHEMA), WHERE + " AND a.k > 0", orders=ORDERS, on_late="drop")
    with pytest.raises(SnapshotError, match="condition was"):
        list(cell_function(other, plan, Results(10_000))((0,), iter([pd.DataFrame()]), states[0]))


class Folder:
    """Three streams of Parquet files, their join into Parquet files, and its checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.query = folder, None

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


@pytest.mark.spark
def test_stopped_and_started_again(spark: Any, tmp_path: Path) -> None:
    streams = Folder(tmp_path)
    streams.add(0)
    streams.add(1)
    assert streams.run(spark) == wanted(2)
    counted = ivjoin.spark.metrics(streams.query)
    assert sum(m["rows_out"] for m in counted) == sum(wanted(2).values())
    assert sum(m["a_rows_in"] for m in counted) == 2 * 200
    assert {m["join"] for m in counted} == {"ivjoin"}
    assert all((0 < m["production_delay_us"] <= m["peak_production_delay_us"]) == (m["rows_out"] > 0) for m in counted)
    assert all(m["state_rows"] > 0 for m in counted)
    streams.add(2)
    assert streams.run(spark) == wanted(3)
    assert ivjoin.spark.metrics(streams.query)[0]["restored"] > 0


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from ivjoin.spark import session
from spark.test_stream_multi_joins import Folder
s = session("local[2]", "to be killed", spark__ui__enabled="false", spark__sql__shuffle__partitions=2,
            spark__sql__session__timeZone="UTC", spark__driver__memory="1g")
Folder(Path({folder!r})).start(s).awaitTermination()
"""


@pytest.mark.spark
def test_killed_in_mid_batch_and_started_again(spark: Any, tmp_path: Path) -> None:
    """``kill -9`` of the whole driver, wherever it is: afterwards each row is there once."""
    streams, turns = Folder(tmp_path), 10
    for turn in range(turns):
        streams.add(turn)
    text = CHILD.format(tests=str(Path(__file__).parent.parent), folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", text], start_new_session=True, stderr=subprocess.DEVNULL)
    commits = tmp_path / "checkpoint" / "commits"

    def committed() -> int:
        return len(list(commits.glob("[0-9]*")))

    deadline = time.monotonic() + 400
    while committed() < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    done = committed()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 3 <= done < turns, "the query was to be killed while it ran"
    assert streams.run(spark) == wanted(turns)
    assert sum(wanted(turns).values()) > 500
