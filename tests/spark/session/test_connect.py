"""The Connect class: static and streaming joins in a client of its own, where grpcio is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

# A process holds either classic or Connect sessions, so this one is its own.
CLIENT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
folder = sys.argv[1]
from pyspark.sql import SparkSession, functions as F
spark = (
    SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false").getOrCreate()
)
import ivjoin.spark

left = spark.range(100).selectExpr("id % 5 AS k", "id AS t")
right = spark.range(100).selectExpr("id % 5 AS k", "id + 1 AS t")
assert type(left).__module__.startswith("pyspark.sql.connect"), type(left)
want = sorted((i % 5, i, i + 5 * j + 1) for i in range(100) for j in range(-2, 1) if 0 <= i + 5 * j < 100
              and -9 <= 5 * j + 1 <= 9)
band = "l.t BETWEEN r.t - 9 AND r.t + 9"
a, b = left.alias("a"), right.alias("b")
conditions = [
    band,
    (left.t >= right.t - 9) & (left["t"] <= right["t"] + 9),
    F.col("a.t").between(F.col("b.t") - F.lit(9), F.expr("b.t + 9")),
    "a.t BETWEEN b.t - 9 AND b.t + 9",
]
for condition in conditions:
    out = a.band_join(b, on="k", condition=condition)
    got = sorted(tuple(r) for r in out.collect() if r[2] - r[1] <= 1)
    assert got == [w for w in want if w[2] - w[1] <= 1], (condition, got[:5], want[:5])
mod = "pmod(l.t, size(array(r.t, r.t))) = 0"
for even in (mod, (F.pmod(left.t, F.size(F.array(right.t, right.t))) == 0)):
    given = f"{band} AND {even}" if isinstance(even, str) else (left.t >= right.t - 9) & (left.t <= right.t + 9) & even
    got = sorted(tuple(r) for r in left.band_join(right, on="k", condition=given).collect() if r[2] - r[1] <= 1)
    assert got == [w for w in want if w[2] - w[1] <= 1 and w[1] % 2 == 0], (given, got[:5])
try:
    left.band_join(right, on="k", condition=mod, how="left")
except ivjoin.UnsupportedError as e:
    assert "not supported in a condition" in str(e) and "Only an inner join" in str(e), e
else:
    raise AssertionError("a left join took a conjunct that it cannot evaluate")
print(ivjoin.spark.explain(left, right, on="k", condition=band).splitlines()[0])

from ivjoin.spark.api.resolving import resolved
rate = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
static = spark.range(3).withColumnRenamed("id", "value")
for frame, n in ((rate, 1), (rate.where("value > 1").alias("x"), 1), (rate.join(static, "value"), 1),
                 (rate.withColumn("w", F.window("timestamp", "10 seconds")), 1), (rate.union(rate), 0),
                 (rate.union(rate).withWatermark("timestamp", "1 second"), 1)):
    call = resolved(frame, rate, on="value")
    assert len(call.spec.orders[0]) == n and len(call.notes) == 1 - n, (frame, call.spec.orders, call.notes)

left.coalesce(1).write.parquet(folder + "/left")
right.coalesce(1).write.parquet(folder + "/right")
streams = [spark.readStream.schema("k long, t long").parquet(f"{folder}/{s}") for s in ("left", "right")]
out = streams[0].band_join(streams[1], on="k", condition=band, left_order="t", right_order="t")
query = (
    out.writeStream.format("parquet").option("path", folder + "/out").option("checkpointLocation", folder + "/cp")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
assert spark.read.parquet(folder + "/out").count() == a.band_join(b, on="k", condition=band).count()
counts = ivjoin.spark.metrics(query)
assert counts[-1]["left_rows_in"] == 100, counts
for name, frame, given in (("plain", out, {}), ("log", out.where("k < 3"), {"partition_by": "k"})):
    query = ivjoin.spark.write_stream(frame, f"{folder}/{name}", f"{folder}/c{name}", trigger="availableNow", **given)
    query.awaitTermination()
    wanted = spark.read.parquet(folder + "/out").where("k < 3 OR NOT " + str(bool(given)).lower())
    assert spark.read.parquet(f"{folder}/{name}").count() == wanted.count() > 0, name
    assert ivjoin.spark.metrics(query)[-1]["left_rows_in"] == 100
print("connect is well")
"""


@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("grpc", "grpc_status", "zstandard")),
    reason="Spark Connect needs grpcio (pip install 'pyspark[connect]')",
)
def test_a_connect_client(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, str(tmp_path)], capture_output=True, text=True, timeout=400, check=False
    )
    assert "connect is well" in done.stdout, done.stdout[-2000:] + done.stderr[-6000:]
