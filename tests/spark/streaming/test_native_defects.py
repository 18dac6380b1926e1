"""Joins that Spark 4.3's own stream-stream join gets wrong: docs/guides/spark-from-native.md lists them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.script import Script
from spark.second_opinion import joined

pytestmark = pytest.mark.spark

START = datetime(2024, 5, 1, tzinfo=UTC)
TS = pa.timestamp("us", "UTC")
SPANS = pa.schema([("k", pa.int64()), ("t0", TS), ("t1", TS)])
POINTS = pa.schema([("k", pa.int64()), ("t", TS)])
EVENTS = pa.schema([("k", pa.int64()), ("ts", TS), ("v", pa.int64())])
FAR = 100_000


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def tables(script_rows: list[list[tuple[Any, ...]]], schema: pa.Schema) -> pa.Table:
    flat = [r for batch in script_rows for r in batch]
    columns = zip(zip(*flat, strict=True), schema, strict=True)
    return pa.table([pa.array(c, f.type) for c, f in columns], schema=schema)


def run(
    spark: Any, folder: Path, join: Any, left: list[list[Any]], right: list[list[Any]], schemas: tuple[Any, Any]
) -> Script:
    script = Script(spark, folder, join, *schemas)
    script.add_all(left, right)
    script.run()
    return script


def test_containment_with_the_watermark_on_the_start(spark: Any, tmp_path: Path) -> None:
    left = [[(1, at(0), at(500)), (2, at(5), at(6))], [(1, at(100), at(110))], [(1, at(200), at(201))]]
    right = [[(2, at(5.5)), (1, at(50))], [(1, at(105))], [(1, at(300)), (2, at(300))]]

    def join(a: Any, b: Any) -> Any:
        a, b = a.withWatermark("t0", "0 seconds"), b.withWatermark("t", "0 seconds")
        return a.band_join(b, on="k", condition="l.t0 <= r.t AND r.t <= l.t1")

    script = run(spark, tmp_path, join, left, right, (SPANS, POINTS))
    sql = "l.k = r.k AND l.t0 <= r.t AND r.t <= l.t1"
    assert script.seen == joined(tables(left, SPANS), tables(right, POINTS), "inner", sql, "l.k, l.t0, l.t1, r.t")
    assert sum(script.seen.values()) == 5
    assert script.counts()[-1]["left_rows_retired"] > 0


def test_a_conjunct_on_one_side_of_a_left_join(spark: Any, tmp_path: Path) -> None:
    left = [[(1, at(0), 1), (1, at(1), 9)], [(2, at(50), 3)], [(3, at(FAR), 0)]]
    right = [[(1, at(2), 0)], [(7, at(51), 0)], [(4, at(FAR), 0)]]

    def join(a: Any, b: Any) -> Any:
        a, b = a.withWatermark("ts", "0 seconds"), b.withWatermark("ts", "0 seconds")
        band = "l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts AND l.v > 5"
        return a.band_join(b, on="k", condition=band, how="left")

    script = run(spark, tmp_path, join, left, right, (EVENTS, EVENTS))
    # with l.v <= 5 the condition can never hold, so such a row is decided at once; (3, FAR, 0) too
    assert {(k, v, m) for k, _, v, _, m in script.seen} == {(1, 1, None), (1, 9, 0), (2, 3, None), (3, 0, None)}


def test_a_left_join_with_a_watermark_on_the_right_alone(spark: Any, tmp_path: Path) -> None:
    left = [[(1, at(0), 1), (2, at(1), 2)], [(3, at(50), 3)], [(5, at(FAR), 4)]]
    right = [[(1, at(2), 0)], [(7, at(51), 0)], [(4, at(FAR), 0)]]

    def join(a: Any, b: Any) -> Any:
        band = "l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts"
        return a.band_join(b.withWatermark("ts", "1 second"), on="k", condition=band, how="left")

    script = run(spark, tmp_path, join, left, right, (EVENTS, EVENTS))
    assert {(k, v, m) for k, _, v, _, m in script.seen} == {(1, 1, 0), (2, 2, None), (3, 3, None)}


def test_a_full_join_with_a_bound_on_one_end(spark: Any, tmp_path: Path) -> None:
    left = [[(1, at(0), 1)], [(2, at(50), 2)], [(3, at(FAR), 3)]]
    right = [[(1, at(2), 10), (5, at(3), 11)], [(6, at(51), 12)], [(4, at(FAR), 13)]]

    def join(a: Any, b: Any) -> Any:
        return a.band_join(b, on="k", condition="l.ts <= r.ts", how="full", left_order="ts", right_order="ts",
                           allow_unbounded=True)  # fmt: skip

    script = run(spark, tmp_path, join, left, right, (EVENTS, EVENTS))
    # a left row waits for ever: every later right row could be its partner. A right row does not.
    assert {(k, v, m) for k, _, v, _, m in script.seen} == {(1, 1, 10), (5, None, 11), (6, None, 12)}


def test_rows_without_a_time_are_decided_at_once(spark: Any, tmp_path: Path) -> None:
    left, right = [[(1, None, 1), (1, at(0), 2)]], [[(1, at(0), 0), (1, None, 5)]]

    def join(a: Any, b: Any) -> Any:
        a, b = a.withWatermark("ts", "0 seconds"), b.withWatermark("ts", "0 seconds")
        return a.band_join(b, on="k", condition="l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts", how="full")

    script = run(spark, tmp_path, join, left, right, (EVENTS, EVENTS))
    assert {(v, m) for _, _, v, _, m in script.seen} == {(1, None), (2, 0), (None, 5)}
    assert script.counts()[-1]["state_rows"] == 2


def native(how: str) -> Any:
    """Spark's own join for the same question, its columns named as here."""
    from pyspark.sql import functions as F

    def join(a: Any, b: Any) -> Any:
        a, b = a.withWatermark("ts", "0 seconds").alias("l"), b.withWatermark("ts", "0 seconds").alias("r")
        band = F.expr("l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts")
        return a.join(b, band, how).selectExpr("l.k", "r.k AS k_right", "l.v", "r.v AS v_right")

    return join


def ours(how: str) -> Any:
    def join(a: Any, b: Any) -> Any:
        a, b = a.withWatermark("ts", "0 seconds"), b.withWatermark("ts", "0 seconds")
        band = "l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts"
        return a.band_join(b, condition=band, how=how).select("k", "k_right", "v", "v_right")

    return join


NATIVE = pytest.param(native, marks=pytest.mark.soak)  # it tests Spark, not this package


@pytest.mark.parametrize("join", [NATIVE, ours])
def test_null_keys_of_a_full_join(spark: Any, tmp_path: Path, join: Any) -> None:
    """Spark's own full join lets them match one another; its inner and left joins do not, nor do ours."""
    left = [[(None, at(0), 1), (1, at(0), 2)], [(9, at(100), 3)], [(9, at(300), 5)]]
    right = [[(None, at(1), 10), (1, at(1), 11)], [(8, at(100), 12)], [(8, at(300), 14)]]
    seen = run(spark, tmp_path, join("full"), left, right, (EVENTS, EVENTS)).seen
    matched = {(None, None, 1, 10)} if join is native else {(None, None, 1, None), (None, None, None, 10)}
    assert {row for row in seen if row[2] in (1, 2) or row[3] in (10, 11)} == {(1, 1, 2, 11), *matched}


@pytest.mark.parametrize("join", [NATIVE, ours])
def test_an_idle_side_holds_back_the_other_sides_partners_alone(spark: Any, tmp_path: Path, join: Any) -> None:
    """Left rows go by how far the right side is: that the left one is idle matters to Spark's one watermark only."""
    left: list[list[Any]] = [[(1, at(0), 1)], [], []]
    right = [[(2, at(0), 10)], [(2, at(100), 11)], [(2, at(300), 13)]]
    seen = run(spark, tmp_path, join("left"), left, right, (EVENTS, EVENTS)).seen
    assert set(seen) == (set() if join is native else {(1, None, 1, None)})
