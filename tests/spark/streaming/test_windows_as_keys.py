"""Windows over an event time as keys: rows are evicted and unmatched rows emitted, as Spark's own join does."""

from __future__ import annotations

import warnings
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import functions as F
from spark.backends import BACKENDS, store_for
from spark.script import Script

from ivjoin.spark import WatermarkWarning
from ivjoin.spark.api.resolving import resolved

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("v", pa.int64()), ("at", pa.int64())])


def windowed(frame: Any, kind: Any) -> Any:
    timed = frame.select("v", F.timestamp_seconds("at").alias("ts")).withWatermark("ts", "10 seconds")
    return timed.select("v", kind("ts").alias("w"))


KINDS: dict[str, tuple[Any, timedelta]] = {
    "tumbling": (lambda t: F.window(t, "10 seconds"), timedelta(seconds=20)),
    "sliding": (lambda t: F.window(t, "10 seconds", "5 seconds"), timedelta(seconds=20)),
    "session": (lambda t: F.session_window(t, "5 seconds"), timedelta(seconds=15)),
}


def test_windows_are_evicted_as_spark_evicts_them(spark: Any, tmp_path: Path) -> None:
    """The values of Spark's own suite: unmatched 1 and 2 are emitted once no row of their window can arrive."""

    def join(a: Any, b: Any) -> Any:
        return windowed(a, KINDS["tumbling"][0]).band_join(
            windowed(b, KINDS["tumbling"][0]), on=["v", "w"], how="left", buckets=2
        ).select("v", F.unix_seconds("w.end"))  # fmt: skip

    script = Script(spark, tmp_path, join, SCHEMA, SCHEMA)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WatermarkWarning)
        script.add(left=[(v, v) for v in range(1, 6)], right=[(v, v) for v in range(3, 8)])
        assert script.run() == Counter({(3, 10): 1, (4, 10): 1, (5, 10): 1})
        script.add(left=[(21, 21)], right=[(20, 21)])
        assert script.run() == Counter({(1, 10): 1, (2, 10): 1})
    assert script.counts()[-1]["state_rows"] == 2  # 20 and 21; Spark stores these two as well
    named = script.query.lastProgress["observedMetrics"]
    (row,) = [dict(r.asDict() if hasattr(r, "asDict") else r) for n, r in named.items() if n.startswith("ivjoin")]
    assert [row[name] for name in ("rows_in", "rows_out", "late_rows", "evicted_rows")] == [2, 2, 0, 10]
    assert row["state_rows"] == 2
    assert row["state_bytes"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_slack_of_a_window_is_its_length_and_the_delay(spark: Any, kind: str) -> None:
    make, slack = KINDS[kind]
    side = windowed(spark.readStream.format("rate").load().selectExpr("value AS v", "value AS at"), make)
    renamed = side.where("v > 0").withColumnRenamed("w", "x").select("x", "v")
    spec = resolved(side, renamed, on=["v", ("w", "x")]).spec
    assert [[o.slack for o in orders] for orders in spec.orders] == [[slack - timedelta(microseconds=1)]] * 2
    grouped = side.groupBy("v", "w").count() if kind != "session" else renamed
    if kind != "session":
        spec = resolved(grouped, renamed, on=["v", ("w", "x")]).spec
        assert spec.orders[0][0].slack == timedelta(0)
    call = resolved(side.union(side), renamed, on=["v", ("w", "x")])
    assert not call.spec.orders[0]
    assert any(isinstance(note, WatermarkWarning) and "is a window over" in str(note) for note in call.notes)


def test_groups_of_windows_are_joined(spark: Any, tmp_path: Path) -> None:
    def join(a: Any, b: Any) -> Any:
        groups = [
            s.select("v", F.timestamp_seconds("at").alias("ts")).withWatermark("ts", "10 seconds")
            .groupBy(F.window("ts", "5 seconds")).agg(F.sum("v").alias(name)) for s, name in ((a, "x"), (b, "y"))
        ]  # fmt: skip
        joined = groups[0].band_join(groups[1], on="window", how="left", backend=BACKENDS[1], buckets=2)
        return joined.select(F.unix_seconds("window.end"), "x", "y")

    script = Script(spark, tmp_path, join, SCHEMA, SCHEMA)
    with store_for(spark, BACKENDS[1]):
        for left, right in (([(1, 1), (2, 7)], [(10, 2), (20, 17)]), ([(3, 40)], [(30, 41)]), ([(4, 80)], [(40, 80)])):
            script.add(left=left, right=right)
        assert script.run(600) == Counter({(5, 1, 10): 1, (10, 2, None): 1, (45, 3, 30): 1})
