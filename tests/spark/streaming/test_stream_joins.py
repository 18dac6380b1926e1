"""Streaming joins against DuckDB: join types, orders that are not time, no key, splits, late rows, idle buckets."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.backends import BACKENDS, store_for
from spark.script import Script
from spark.second_opinion import joined
from spark.tiers import one_short, short

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin import Order
from ivjoin.errors import IvjoinError, OrderError
from ivjoin.spark.api.resolving import resolved

pytestmark = pytest.mark.spark

START = datetime(2024, 5, 1, tzinfo=UTC)
TIMED = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
NUMBERS = pa.schema([("k", pa.string()), ("x", pa.float64()), ("v", pa.int64())])
BAND = "l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts + INTERVAL 5 SECONDS"
SQL = BAND.replace("SECONDS", "SECOND") + " AND l.k = r.k"
FAR = 10_000.0  # seconds after the start: a row there lets everything before it be decided


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def timed_rows(seed: int, batches: int, size: int) -> list[list[tuple[Any, ...]]]:
    """Batches that rise in time with a few null keys and null times."""
    rng = random.Random(seed)
    out = []
    for b in range(batches):
        rows = [
            (
                rng.choice([1, 2, 3, 4, 5, 6, None]),
                None if rng.random() < 0.03 else at(b * 20 + rng.random() * 20),
                seed * 1000 + b * size + i,
            )
            for i in range(size)
        ]
        out.append(sorted(rows, key=lambda r: r[1] or START))
    return out


def table(rows: list[list[tuple[Any, ...]]], schema: pa.Schema) -> pa.Table:
    flat = [r for batch in rows for r in batch]
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*flat, strict=True), schema, strict=True)], schema=schema)


COLUMNS = "coalesce(l.k, r.k) AS k, l.ts, l.v, r.ts AS ts_right, r.v AS v_right"


@pytest.mark.parametrize("how", one_short(["full", "left_anti"], "full"))
def test_timed_streams_agree_with_duckdb(spark: Any, tmp_path: Path, how: str) -> None:
    left, right = timed_rows(1, 3, 40), timed_rows(2, 3, 40)
    condition = BAND + " AND (l.v + r.v) % 3 <> 0"

    def join(a: Any, b: Any) -> Any:
        return a.withWatermark("ts", "0 seconds").band_join(b, on="k", condition=condition, how=how, right_order="ts")

    script = Script(spark, tmp_path, join, TIMED, TIMED)
    script.add_all(left, right)
    script.add(left=[(-1, at(FAR), -1)], right=[(-2, at(FAR), -2)])
    got = script.run()
    assert got == joined(table(left, TIMED), table(right, TIMED), how, f"{SQL} AND (l.v + r.v) % 3 <> 0", COLUMNS)
    counts = script.counts()
    assert counts[-1]["state_rows"] <= 2  # the far rows alone
    assert sum(c["left_rows_retired"] for c in counts) >= 120 - 2
    assert sum(c["late_rows"] for c in counts) == 0


def test_numeric_band_without_keys_watermark_or_time(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(5)
    left = [[("a", b * 50 + rng.random() * 50, b * 100 + i) for i in range(60)] for b in range(3)]
    right = [[("b", b * 50 + rng.random() * 50, b * 100 + i) for i in range(60)] for b in range(3)]

    def join(a: Any, b: Any) -> Any:
        return a.band_join(
            b, condition="l.x BETWEEN r.x - 5 AND r.x + 5", how="full", left_order=Order("x", slack=50),
            right_order=Order("x", slack=50.0),
        )

    script = Script(spark, tmp_path, join, NUMBERS, NUMBERS)
    script.add_all(left, right)
    script.add(left=[("z", 1e6, -1)], right=[("z", 2e6, -2)])
    got = script.run()
    want = joined(
        table(left, NUMBERS), table(right, NUMBERS), "full", "l.x BETWEEN r.x - 5 AND r.x + 5",
        "l.k, l.x, l.v, r.k AS k_right, r.x AS x_right, r.v AS v_right",
    )
    # the far right row is out of reach of all future left rows but one side's frontier alone decides it
    assert got - want == Counter() or all(row[5] == -2 or row[2] == -1 for row in (got - want))
    assert want - got == Counter()
    assert max(c["state_rows"] for c in script.counts()) < 280  # of 360: about the slack and the window


def test_splits_into_micro_batches_change_nothing(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(11)
    left, right = timed_rows(3, 1, 80)[0], timed_rows(4, 1, 80)[0]

    def join(a: Any, b: Any) -> Any:
        return a.band_join(b, on="k", condition=BAND, how="full", left_order="ts", right_order="ts", buckets=3)

    def cut(rows: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        places = sorted(rng.sample(range(1, len(rows)), 2))
        # a null time anywhere is never late; others keep their order across files, but not within one
        parts = [rows[a:b] for a, b in zip([0, *places], [*places, len(rows)], strict=True)]
        return [rng.sample(p, len(p)) for p in parts]

    script = Script(spark, tmp_path, join, TIMED, TIMED)
    for part in cut(left):
        script.add(left=part)
    for part in cut(right):
        script.add(right=part)
    script.add(left=[(-1, at(FAR), -1)], right=[(-2, at(FAR), -2)])
    assert script.run() == joined(table([left], TIMED), table([right], TIMED), "full", SQL, COLUMNS)


@short
def test_late_rows_are_dropped_and_counted_against_earlier_batches(spark: Any, tmp_path: Path) -> None:
    def join(a: Any, b: Any) -> Any:
        return a.withWatermark("ts", "10 seconds").band_join(
            b, on="k", condition=BAND, how="left", right_order="ts", buckets=4, on_late="drop"
        )

    script = Script(spark, tmp_path, join, TIMED, TIMED)
    script.add(left=[(1, at(100), 1), (1, at(0), 2)], right=[(1, at(0), 10)])  # 0 s is not late: same micro-batch
    # the row with v = 3 is late, the one with 4 is on the edge
    script.add(left=[(2, at(89.9), 3), (3, at(90), 4), (4, None, 5)], right=[(9, at(99), 11)])
    script.add(left=[(7, at(500), 6)], right=[(7, at(300), 12)])
    got = script.run()
    assert sum(c["late_rows"] for c in script.counts()) == 1
    assert {row[2] for row in got} == {1, 2, 4, 5}  # 6 is not decided yet
    assert {row[4] for row in got if row[2] == 2} == {10}
    assert {row[4] for row in got if row[2] in (1, 4, 5)} == {None}


def test_idle_buckets_prune_and_emit_in_the_batch_that_decides(spark: Any, tmp_path: Path) -> None:
    def join(a: Any, b: Any) -> Any:
        return a.band_join(b, on="k", condition=BAND, how="left", left_order="ts", right_order="ts", buckets=100)

    script = Script(spark, tmp_path, join, TIMED, TIMED)
    script.add(left=[(k, at(k / 100), k) for k in range(300)], right=[(0, at(0), 0)])
    first = script.run()
    assert set(first) == {(0, int(at(0).timestamp() * 1e6), 0, int(at(0).timestamp() * 1e6), 0)}
    assert script.counts()[-1]["state_rows"] >= 300
    script.add(right=[(0, at(FAR), 1)])  # one key of one bucket
    second = script.run()
    assert {row[2] for row in second} == set(range(1, 300))
    assert script.counts()[-1]["state_rows"] == 2  # both right rows: the left side has come to 2.99 s only


def test_frames_without_order_hold_everything_and_lose_nothing(spark: Any, tmp_path: Path) -> None:
    left, right = timed_rows(6, 2, 30), timed_rows(7, 2, 30)
    script = Script(spark, tmp_path, lambda a, b: a.band_join(b, on="k", condition=BAND), TIMED, TIMED)
    script.add_all(left[::-1], right)
    assert script.run() == joined(table(left, TIMED), table(right, TIMED), "inner", SQL, COLUMNS)


def test_aliases_of_streams_in_columns_and_text(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    left, right = timed_rows(8, 1, 60), timed_rows(9, 1, 60)
    made: list[Any] = []

    def join(a: Any, b: Any) -> Any:
        clicks = a.withWatermark("ts", "0 seconds").alias("clicks")
        views = b.withWatermark("ts", "0 seconds").alias("v")
        early, late = F.expr("INTERVAL 10 SECONDS"), F.expr("INTERVAL 5 SECONDS")
        conditions = (
            (F.col("clicks.ts") >= F.col("v.ts") - early) & (F.col("clicks.ts") <= F.col("v.ts") + late),
            F.col("clicks.ts").between(views.ts - early, views["ts"] + late),
            (clicks.ts >= b.ts - early) & (a.ts <= views.ts + late),
            BAND.replace("l.", "CLICKS.").replace("r.", "v."),
        )
        made.extend(clicks.band_join(views, on="k", condition=c, how="left") for c in conditions)
        return made[-4:][which]

    want = joined(table(left, TIMED), table(right, TIMED), "left", SQL, COLUMNS)
    for which in (0, 2):
        script = Script(spark, tmp_path / str(which), join, TIMED, TIMED)
        script.add(left=[*left[0], (-1, at(FAR), -1)], right=[*right[0], (-2, at(FAR), -2)])
        assert script.run() == want
        assert script.counts()[-1]["left_rows_retired"] > 0
    assert len({frame.schema.simpleString() for frame in made}) == 1


@pytest.mark.parametrize("left_order, right_order", [
    ("x + 5", "2 * x"), ("ts + INTERVAL 1 DAY", "ts - INTERVAL 1 HOUR"),
])  # fmt: skip
def test_orders_of_moved_columns(spark: Any, tmp_path: Path, left_order: str, right_order: str) -> None:
    """Buckets without rows of their own follow the column itself: all but the last rows are emitted."""
    rng = random.Random(8)
    moved = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])

    def row(k: int, x: int, v: int) -> tuple[Any, ...]:
        return k, x, START + timedelta(seconds=x), v

    def drawn(side: int) -> list[list[tuple[Any, ...]]]:
        return [[row(i % 5, b * 20 + rng.randrange(20), side + b * 100 + i) for i in range(30)] for b in range(2)]

    left, right = drawn(0), drawn(10_000)
    by_x = "x" in left_order
    band = BAND if not by_x else "l.x BETWEEN r.x - 3 AND r.x + 2"

    def join(a: Any, b: Any) -> Any:
        slack = (20, 40) if by_x else (timedelta(seconds=20),) * 2
        orders = {
            f"{side}_order": Order(text, slack=s)
            for side, text, s in zip(("left", "right"), (left_order, right_order), slack, strict=True)
        }
        return a.band_join(b, on="k", condition=band, how="full", buckets=3, **orders)

    script = Script(spark, tmp_path, join, moved, moved)
    script.add_all(left, right)
    script.add(left=[row(-1, 5000, -1)], right=[row(-2, 5000, -2)])
    got = script.run()
    names = "coalesce(l.k, r.k) AS k, l.x, l.ts, l.v, r.x AS x_right, r.ts AS ts_right, r.v AS v_right"
    condition = f"l.k = r.k AND {band.replace('SECONDS', 'SECOND')}"
    assert got == joined(table(left, moved), table(right, moved), "full", condition, names)
    assert script.counts()[-1]["state_rows"] == 2


def test_a_descending_order_of_numbers(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(21)
    falling = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("v", pa.int64())])

    def drawn(side: int) -> list[list[tuple[Any, ...]]]:
        return [[(i % 3, 1000 - b * 20 - rng.randrange(20), side + b * 100 + i) for i in range(30)] for b in range(3)]

    left, right = drawn(0), drawn(10_000)

    def join(a: Any, b: Any) -> Any:
        down = Order("x", descending=True)
        return a.band_join(b, on="k", condition="l.x - r.x BETWEEN -3 AND 2", how="full", left_order=down,
                           right_order=down, buckets=2)  # fmt: skip

    script = Script(spark, tmp_path, join, falling, falling)
    script.add_all(left, right)
    script.add(left=[(-1, -5000, -1)], right=[(-2, -5000, -2)])
    got = script.run()
    names = "coalesce(l.k, r.k) AS k, l.x, l.v, r.x AS x_right, r.v AS v_right"
    condition = "l.k = r.k AND l.x - r.x BETWEEN -3 AND 2"
    assert got == joined(table(left, falling), table(right, falling), "full", condition, names)
    counts = script.counts()
    assert counts[-1]["state_rows"] == 2
    assert max(c["state_rows"] for c in counts) < 60  # of 180: about one micro-batch


def test_windows_of_an_event_time_are_carried_along(spark: Any, tmp_path: Path) -> None:
    """Spark marks a window with the delay of its event time; ``ts`` alone is the order."""
    from pyspark.sql import functions as F

    from ivjoin.spark import explain

    frames: list[Any] = []

    def join(a: Any, b: Any) -> Any:
        a = a.withWatermark("ts", "10 seconds").withColumn("w", F.window("ts", "20 seconds"))
        b = b.withWatermark("ts", "0 seconds").withColumn("s", F.session_window("ts", "20 seconds"))
        frames.extend((a, b))
        return a.band_join(b, on="k", condition=BAND, how="left", on_late="drop").selectExpr(
            "k", "ts", "v", "ts_right", "v_right", "unix_seconds(w.end) - unix_seconds(w.start)", "s.end > s.start"
        )

    left, right = timed_rows(31, 2, 30), timed_rows(32, 2, 30)
    script = Script(spark, tmp_path, join, TIMED, TIMED)
    for a, b in zip(left, right, strict=True):
        script.add(left=[r for r in a if r[1]], right=[r for r in b if r[1]])  # a window over NULL drops the row
    script.add(left=[(-1, at(FAR), -1), (-1, at(FAR - 5), -5)], right=[(-2, at(2 * FAR), -2)])
    script.add(left=[(-3, at(FAR - 9), -3), (-4, at(FAR - 11), -4)], right=[(-2, at(2 * FAR), -6)])
    got = script.run()
    # the delay is still the slack of ts: 9 seconds behind are on time, 11 are late
    assert sum(c["late_rows"] for c in script.counts()) == 1
    assert {row[2] for row in got if row[2] < 0} == {-1, -5, -3}
    assert {row[5] for row in got} == {20}
    assert {row[6] for row in got} == {True, None}
    tables = [table([[r for r in rows if r[1]] for rows in side], TIMED) for side in (left, right)]
    assert Counter({r[:5]: n for r, n in got.items() if r[2] >= 0}) == joined(*tables, "left", SQL, COLUMNS)
    without = [f.drop("ts") for f in frames]
    assert "l.w" not in explain(*without, on="k", condition="l.v < r.v")
    with pytest.raises(OrderError, match="struct.* cannot be an order"):
        without[0].band_join(without[1], on="k", left_order="w")


@pytest.mark.parametrize("order", ["ts", "l.ts", "`ts`", "TS", "L.Ts"])
def test_an_order_takes_the_delay_however_it_is_spelt(spark: Any, tmp_path: Path, order: str) -> None:
    script = Script(spark, tmp_path, lambda a, b: a, TIMED, TIMED)
    a, b = script.source("left").withWatermark("ts", "10 seconds"), script.source("right")
    [declared] = resolved(a, b, on="k", condition=BAND, left_order=order).spec.orders[0]
    assert declared.slack == timedelta(seconds=10)


def test_a_watermark_is_no_order_where_rows_come_otherwise(spark: Any, tmp_path: Path) -> None:
    """A union, a join of streams and the end of a window carry the delay on, and may come later than it says."""
    from pyspark.sql import functions as F

    from ivjoin.spark import WatermarkWarning

    script = Script(spark, tmp_path, lambda a, b: a, TIMED, TIMED)
    a, b = (script.source(side).withWatermark("ts", "5 seconds") for side in ("left", "right"))
    other = b.toDF("k2", "ts2", "v2").alias("o")

    def orders(frame: Any) -> list[tuple[str, Any]]:
        return [(str(o.expr), o.slack) for o in resolved(frame, b, on="k", condition="l.v < r.v").spec.orders[0]]

    five = timedelta(seconds=5)
    windowed = a.withColumn("w", F.window("ts", "10 seconds"))
    ended = windowed.withColumn("ended", F.window_time("w"))
    joined = a.join(other, F.expr("k = k2 AND ts BETWEEN ts2 - INTERVAL 9 SECONDS AND ts2"))
    static = spark.range(9).withColumnRenamed("id", "v")
    counted = a.groupBy("k", F.window("ts", "10 seconds")).agg(F.max("v").alias("v"))
    for frame, want in (
        (a.alias("x").where("v > 1").dropDuplicates(["v"]), [("l.ts", five)]),
        (a.withColumnRenamed("ts", "at").join(static, "v"), [("l.at", five)]),
        (a.union(b), []), (a.unionByName(b).select("k", "v", F.col("ts").alias("at")), []), (joined, []),
        (a.union(b).withWatermark("ts", "5 seconds"), [("l.ts", five)]),
        (ended, [("l.ts", five)]), (ended.drop("ts"), []),
        (counted.withColumn("ended", F.window_time("window")), [("l.ended", five)]),
    ):  # fmt: skip
        assert orders(frame) == want, frame
    with pytest.warns(WatermarkWarning, match="of left's column 'ts' is not read as an order") as told:
        a.union(b).band_join(b, on="k", condition="l.v < r.v")
    assert told[0].filename == __file__
    [own] = resolved(a.union(b), b, on="k", left_order="ts").spec.orders[0]
    assert own.slack == five


def test_the_lagging_stream_of_a_union_loses_no_row(spark: Any, tmp_path: Path) -> None:
    from ivjoin.spark import WatermarkWarning

    def join(a: Any, b: Any) -> Any:
        a = a.withWatermark("ts", "0 seconds")
        fast, slow = a.where("v < 100"), a.where("v >= 100")  # each rises by itself
        with pytest.warns(WatermarkWarning, match="a union or a join of streams"):
            return fast.union(slow).band_join(b, on="k", condition=BAND)

    script = Script(spark, tmp_path, join, TIMED, TIMED)
    for i in range(3):
        late = [(1, at(i), 100 + i)]
        script.add(left=[(1, at(1000 + i), i), *late], right=[(1, at(i), i), (1, at(1000 + i), i)])
    got = script.run()
    assert {row[2] for row in got} == {0, 1, 2, 100, 101, 102}
    assert sum(c["late_rows"] for c in script.counts()) == 0


@pytest.mark.parametrize("backend", [BACKENDS[0], pytest.param(BACKENDS[1], marks=pytest.mark.soak)])
def test_a_watermark_may_be_set_again_behind_the_join(spark: Any, tmp_path: Path, backend: str) -> None:
    """In addition to those of the inputs; with ``transformWithState`` the inputs have orders instead."""
    from pyspark.sql import functions as F

    def join(a: Any, b: Any) -> Any:
        if backend == BACKENDS[0]:
            a, b = a.withWatermark("ts", "0 seconds"), b.withWatermark("ts", "0 seconds")
        joined = a.band_join(b, on="k", condition=BAND, how="left", left_order="ts", right_order="ts", backend=backend)
        windows = joined.withWatermark("ts", "15 seconds").groupBy(F.window("ts", "50 seconds")).count()
        return windows.selectExpr("unix_seconds(window.start) - 1714521600", "count")

    script = Script(spark, tmp_path, join, TIMED, TIMED)
    for second in (0, 100, 200):
        script.add(left=[(1, at(second), second), (2, at(second + 20), second)], right=[(1, at(second + 40), second)])
    with store_for(spark, backend):
        assert script.run() == Counter({(0, 2): 1, (100, 2): 1})


def test_a_wrong_column_names_the_side_before_anything_runs(spark: Any, tmp_path: Path) -> None:
    script = Script(spark, tmp_path, lambda a, b: a, TIMED, TIMED)
    a, b = script.source("left"), script.source("right")
    with pytest.raises(IvjoinError, match="'tx' is not in left: left has k, ts, v"):
        a.band_join(b, on="k", condition="l.tx < r.ts", how="left")
    with pytest.raises(IvjoinError, match="'time'"):
        a.band_join(b, on="k", condition="l.ts < r.ts", left_order="time")
    with pytest.raises(OrderError, match="a value of type string cannot be an order"):
        a.select("ts", "v", a.k.cast("string").alias("k")).band_join(b, condition="l.ts < r.ts", left_order="k")
    with pytest.raises(IvjoinError, match="how is 'leftish'"):
        a.band_join(b, on="k", condition="l.ts < r.ts", how="leftish")
