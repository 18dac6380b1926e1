"""Joins of static frames that keys alone do not divide: no key, one key, a hot key, computed keys, on several tasks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import HOWS
from pyspark.sql import functions as F
from spark.second_opinion import joined
from spark.static import BAND, KEYED, UNKEYED, N, run, table
from spark.tiers import one_short

from ivjoin.errors import IvjoinError, UnsupportedError

pytestmark = pytest.mark.spark


def pair(spark: Any, **options: Any) -> tuple[pa.Table, pa.Table, Any, Any]:
    left, right = table(1, **options), table(2, **options)
    return left, right, spark.createDataFrame(left), spark.createDataFrame(right)


@pytest.mark.parametrize("how", one_short(HOWS, "left"))
def test_a_hot_key(spark: Any, how: str) -> None:
    a, b, left, right = pair(spark, hot=0.8)
    rows, tasks = run(left.band_join(right, on="k", condition=BAND, how=how, buckets=3))
    assert rows == joined(a, b, how, f"l.k = r.k AND {BAND}", KEYED)
    assert tasks == 3


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", HOWS)
def test_no_key(spark: Any, how: str) -> None:
    a, b, left, right = pair(spark)
    rows, tasks = run(left.band_join(right, condition=BAND, how=how))
    assert rows == joined(a, b, how, BAND, UNKEYED)
    assert tasks == 2, "as many as the session has"


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("how", ["inner", "left", "full", "right_anti"])
@pytest.mark.parametrize("condition, options", [
    pytest.param("l.x > r.x + 1900", {}, id="one end"),
    pytest.param("l.v % 100 = r.v % 100 AND l.x > r.x", {}, id="computed key"),
    pytest.param("l.x + 0 BETWEEN r.x - 2 AND r.x + 1", {"routing": "grid"}, id="grid"),
])  # fmt: skip
def test_other_conditions_without_a_key(spark: Any, condition: str, options: dict[str, Any], how: str) -> None:
    a, b, left, right = pair(spark, n=300)
    rows, tasks = run(left.band_join(right, condition=condition, how=how, buckets=4, **options))
    assert rows == joined(a, b, how, condition, UNKEYED)
    assert tasks > 1


def test_one_key_and_no_band(spark: Any) -> None:
    a, b, left, right = pair(spark, keys=1, n=120)
    for how in ("inner", "full"):
        rows, tasks = run(left.band_join(right, on="k", condition="l.x <> r.x", how=how, buckets=4))
        assert rows == joined(a, b, how, "l.k = r.k AND l.x <> r.x", KEYED)
        assert tasks > 1


def test_even_keys_are_hashed_by_spark(spark: Any) -> None:
    from ivjoin.spark import explain

    a, b, left, right = pair(spark)
    text = explain(left, right, on="k", condition=BAND, buckets=2)
    assert "static: rows shuffled by the keys" in text
    assert "Spark's own join is often faster" in text
    rows, _ = run(left.band_join(right, on="k", condition=BAND, buckets=2))
    assert rows == joined(a, b, "inner", f"l.k = r.k AND {BAND}", KEYED)


def jobs_of(spark: Any, act: Any) -> int:
    """How many jobs Spark has run for it."""
    context, group = spark.sparkContext, f"jobs of {id(act)}"
    context.setJobGroup(group, group)
    try:
        act()
        return len(context.statusTracker().getJobIdsForGroup(group))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", HOWS)
def test_small_frames_with_keys_are_joined_by_one_task_without_a_sample(spark: Any, how: str) -> None:
    a, b, left, right = pair(spark, hot=0.5)
    found = []
    assert jobs_of(spark, lambda: found.append(left.band_join(right, on="k", condition=BAND, how=how))) == 0
    rows, tasks = run(found[0])
    assert rows == joined(a, b, how, f"l.k = r.k AND {BAND}", KEYED)
    assert tasks == 1
    assert "Exchange" not in found[0]._jdf.queryExecution().executedPlan().toString()


def test_small_frames_of_unknown_size_are_sampled(spark: Any) -> None:
    """What makes rows, or calls Python, may give more of them than Spark thinks, and each may take long."""
    from ivjoin.spark.spread.sampling import sound_bytes

    _, _, left, _ = pair(spark)
    assert sound_bytes(left.where("x > 3").select("k", "x")) is not None
    assert sound_bytes(left.select("k", F.explode(F.sequence(F.lit(1), F.lit(3))).alias("x"))) is None
    assert sound_bytes(left.mapInArrow(lambda batches: batches, left.schema)) is None
    assert sound_bytes(left.join(left.select("k"), "k")) is None


@pytest.mark.parametrize("n", [40_000, 300])
def test_samples_are_rows_of_their_frames(spark: Any, n: int) -> None:
    from ivjoin.plan.question import join_spec
    from ivjoin.spark.api.schema import arrow_schema
    from ivjoin.spark.spread.sampling import samples

    a = pa.table({"x": np.arange(n), "t": [f"{i:07}" for i in range(n)]})
    left, right = spark.createDataFrame(a), spark.range(n // 3).selectExpr("id + 5 AS y")
    schemas = [arrow_schema(f.schema, "UTC") for f in (left, right)]
    spec = join_spec(*schemas, condition="l.x = r.y AND l.t > '0'")
    (some, rows), (others, other_rows) = samples((left, right), spec)
    assert (rows, other_rows) == (pytest.approx(n, rel=0.05), pytest.approx(n // 3, rel=0.05))
    assert some.num_rows == min(n, 8192)
    assert [int(t) for t in some.column("t").to_pylist()] == some.column("x").to_pylist()
    assert len(set(some.column("x").to_pylist())) == some.num_rows
    assert max(some.column("x").to_pylist()) > n * 0.9  # and not the first rows of each partition alone
    assert set(others.column("y").to_pylist()) <= set(range(5, 5 + n // 3))


@pytest.mark.parametrize("keys", [60_000, 600])
def test_explain_says_which_join_is_likely_faster(spark: Any, keys: int) -> None:
    from ivjoin.spark import explain

    frame = spark.range(60_000).selectExpr(f"id % {keys} AS k", "id AS x")
    text = explain(frame, frame, on="k", condition=BAND, buckets=2)
    found = re.search(r"with about ([0-9.]+) right rows, so (.*) is likely faster", text)
    assert found is not None
    assert float(found[1]) == pytest.approx(60_000 / keys, rel=0.2)
    assert found[2] == ("Spark's own join" if keys == 60_000 else "band_join")


def test_columns_of_every_kind_travel_with_their_rows(spark: Any) -> None:
    frame = spark.range(400).selectExpr(
        "id AS x", "0 AS k", "map(id, 'm') AS m", "named_struct('a', array(id), 'b', CAST(id AS STRING)) AS s",
        "CAST(id AS DECIMAL(30, 4)) AS d",
    )
    out = frame.band_join(frame.select("k", "x"), on="k", condition="l.x = r.x + 1", how="left", buckets=3)
    assert out.where("m[x] = 'm' AND s.a[0] = x AND s.b = CAST(x AS STRING) AND d = x").count() == 400
    assert out.where("x_right IS NULL").count() == 1


def test_counts_are_those_of_the_join(spark: Any) -> None:
    from pyspark.sql import Observation

    from ivjoin.spark import metrics

    _, _, left, right = pair(spark, hot=0.8)
    seen = Observation()
    rows = left.band_join(right, on="k", condition=BAND, how="full", buckets=3, name=seen).count()
    (counts,) = metrics(seen)
    assert counts["rows_out"] == rows
    assert counts["left_rows_in"] >= N


def test_what_is_said_of_the_plan(spark: Any) -> None:
    from ivjoin.spark import explain

    _, _, left, right = pair(spark, hot=0.8)
    text = explain(left, right, on="k", condition=BAND, buckets=3)
    assert text.startswith("static: rows routed to 3 tasks\n  inner join on 3 workers")
    assert "slices" in text
    assert "Spark's own join" not in text
    text = explain(left, right, on="k", condition=BAND)
    assert text.startswith("static: rows in one task, since both frames are small\n")
    text = explain(left, right, condition=BAND, routing="hash")
    assert text.startswith("static: rows in one task, since routing is 'hash', and there is no key")
    assert "since there is one task" in explain(left, right, condition=BAND, buckets=1)
    assert "since the right frame has no rows" in explain(left, right.limit(0), condition=BAND)
    assert left.band_join(right.limit(0), condition=BAND, how="left").count() == N


def test_options_that_mean_nothing(spark: Any) -> None:
    _, _, left, right = pair(spark)
    with pytest.raises(IvjoinError, match="routing is 'grids'; expected 'auto', 'hash', 'slices' or 'grid'"):
        left.band_join(right, condition=BAND, routing="grids")
    with pytest.raises(UnsupportedError, match=r"hot_keys is \['a'\]; expected None"):
        left.band_join(right, on="k", hot_keys=["a"])
    with pytest.raises(UnsupportedError, match="routing_dir is '/tmp/x'; expected None"):
        left.band_join(right, on="k", routing_dir="/tmp/x")
