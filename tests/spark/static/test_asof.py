"""As-of joins of frames, static and streaming, against DuckDB's ASOF and a nested loop."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from spark.backends import BACKENDS, store_for
from spark.script import Script
from spark.tiers import one_short

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin import Pick
from ivjoin.errors import ConditionError, IvjoinError, OrderError, UnsupportedError

pytestmark = pytest.mark.spark

START = datetime(2024, 5, 1, tzinfo=UTC)
TRADES = pa.schema([("sym", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("q", pa.int64())])
QUOTES = pa.schema([("sym", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("bid", pa.int64())])


def rows(seed: int, n: int, start: float, span: float) -> list[tuple[Any, ...]]:
    rng = random.Random(seed)
    return [
        (
            rng.choice(["A", "B", "C", None]), START + timedelta(seconds=round(start + rng.random() * span, 1)),
            seed * 1000 + i,
        )
        for i in range(n)
    ]


def table(given: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*given, strict=True), schema, strict=True)], schema=schema)


def wanted(left: pa.Table, right: pa.Table, direction: str, tolerance: float | None) -> dict[int, set[Any]]:
    """For each trade, the quotes that are all valid answers."""
    out = {}
    for t in left.to_pylist():
        near = []
        for r in right.to_pylist():
            away = (r["ts"] - t["ts"]).total_seconds()
            there = {"backward": away <= 0, "forward": away >= 0, "nearest": True}[direction]
            close = tolerance is None or abs(away) <= tolerance
            if t["sym"] is not None and t["sym"] == r["sym"] and there and close:
                near.append(((abs(away), away), r["bid"]))
        best = min((a for a, _ in near), default=None)
        out[t["q"]] = {b for a, b in near if a == best} or {None}
    return out


@pytest.mark.parametrize("direction", one_short(["backward", "forward", "nearest"], "backward"))
def test_static_frames(spark: Any, direction: str) -> None:
    left, right = table(rows(1, 120, 0, 60), TRADES), table(rows(2, 120, 0, 60), QUOTES)
    a, b = spark.createDataFrame(left), spark.createDataFrame(right)
    got = a.asof_join(b, on="ts", by="sym", direction=direction, tolerance="5 s").toArrow()
    assert got.column_names == ["sym", "ts", "q", "ts_right", "bid"]
    want = wanted(left, right, direction, 5)
    found = {r["q"]: r["bid"] for r in got.to_pylist()}
    assert got.num_rows == len(found) == 120
    assert all(found[q] in best for q, best in want.items())
    if direction == "backward":
        asked = (
            "SELECT q, bid FROM l ASOF LEFT JOIN r ON l.sym = r.sym AND l.ts >= r.ts "
            "WHERE r.ts >= l.ts - INTERVAL 5 SECOND"
        )
        con = duckdb.connect()
        con.register("l", left)
        con.register("r", right)
        assert all(bid in want[q] for q, bid in con.sql(asked).fetchall())


def test_a_pick_of_static_frames(spark: Any) -> None:
    left, right = table(rows(3, 60, 0, 30), TRADES), table(rows(4, 60, 0, 30), QUOTES)
    a, b = spark.createDataFrame(left), spark.createDataFrame(right)
    got = a.band_join(
        b, on="sym", condition="r.ts <= l.ts AND (l.q + r.bid) % 3 <> 0", pick=Pick(["ts", "bid"], "last")
    ).toArrow()
    best: dict[int, Any] = {}
    for t in left.to_pylist():
        fit = [
            (r["ts"], r["bid"]) for r in right.to_pylist()
            if t["sym"] is not None and r["sym"] == t["sym"] and r["ts"] <= t["ts"] and (t["q"] + r["bid"]) % 3
        ]
        if fit:
            best[t["q"]] = max(fit)[1]
    assert {r["q"]: r["bid"] for r in got.to_pylist()} == best and got.num_rows == len(best)
    with pytest.raises(UnsupportedError, match="one task"):
        a.band_join(b, on="sym", pick=Pick("ts", "last"), routing="grid")
    with pytest.raises(ConditionError, match="how is 'right'"):
        a.asof_join(b, on="ts", by="sym", how="right")


@pytest.mark.parametrize("direction, backend", [
    ("backward", BACKENDS[1]), ("nearest", BACKENDS[0]), pytest.param("nearest", BACKENDS[1], marks=pytest.mark.soak),
])  # fmt: skip
def test_streams_that_stop_and_start(spark: Any, tmp_path: Path, backend: str, direction: str) -> None:
    def join(a: Any, b: Any) -> Any:
        a, b = a.withWatermark("ts", "5 seconds"), b.withWatermark("ts", "5 seconds")
        return a.asof_join(b, on="ts", by="sym", direction=direction, backend=backend, buckets=2)

    with store_for(spark, backend):
        script = Script(spark, tmp_path, join, TRADES, QUOTES)
        lefts: list[tuple[Any, ...]] = []
        rights: list[tuple[Any, ...]] = []
        for i in range(3):
            a, b = rows(10 + i, 25, i * 20, 20), rows(20 + i, 25, i * 20, 20)
            lefts += a
            rights += b
            script.add(left=a, right=b)
            if i == 0:
                script.run()
        far = START + timedelta(seconds=5000)
        script.add(left=[("A", far, -1)], right=[("A", far, -2)])
        script.run()
        got = script.seen
    want = wanted(table(lefts, TRADES), table([*rights, ("A", far, -2)], QUOTES), direction, None)
    found = {row[2]: row[4] for row in got.elements()}
    assert sum(got.values()) == len(found)
    assert {q for q in found if q >= 0} == want.keys()
    assert all(found[q] in best for q, best in want.items())


def test_text_to_pick_by(spark: Any, tmp_path: Path) -> None:
    def join(a: Any, b: Any) -> Any:
        if a.isStreaming:
            a, b = a.withWatermark("ts", "5 seconds"), b.withWatermark("ts", "5 seconds")
        b = b.selectExpr("*", "cast(bid % 7 AS string) AS word")
        band = "r.ts BETWEEN l.ts - INTERVAL 9 SECONDS AND l.ts"
        return a.band_join(b, on="sym", condition=band, how="left", pick=Pick(["word", "bid"], "last"))

    with store_for(spark, BACKENDS[0]):
        script = Script(spark, tmp_path, join, TRADES, QUOTES)
        lefts: list[tuple[Any, ...]] = []
        rights: list[tuple[Any, ...]] = []
        for i in range(3):
            a, b = rows(30 + i, 25, i * 20, 20), rows(40 + i, 25, i * 20, 20)
            lefts += a
            rights += b
            script.add(left=a, right=b)
            if i == 1:
                script.run()
        far = START + timedelta(seconds=5000)
        script.add(left=[("Z", far, -1)], right=[("Z", far, -2)])
        script.run()
        streamed = {row[2]: row[5] for row in script.seen.elements() if row[2] >= 0}
    static = join(spark.createDataFrame(table(lefts, TRADES)), spark.createDataFrame(table(rights, QUOTES))).toArrow()
    want = {}
    for sym, ts, q in lefts:
        fit = [
            (str(bid % 7), bid) for other, at, bid in rights
            if sym is not None and other == sym and ts is not None and at is not None
            and timedelta(0) <= ts - at <= timedelta(seconds=9)
        ]
        want[q] = max(fit, default=(None, None))[0]
    assert {r["q"]: r["word"] for r in static.to_pylist()} == want
    assert streamed == want and len(want) == 75


def test_a_stream_needs_an_order(spark: Any, tmp_path: Path) -> None:
    script = Script(spark, tmp_path, lambda a, b: a, TRADES, QUOTES)
    a, b = script.source("left"), script.source("right")
    with pytest.raises(OrderError, match="withWatermark"):
        a.asof_join(b, on="ts", by="sym")
    with pytest.raises(IvjoinError, match="TS"):
        a.asof_join(b, on="TSX", right_order="ts")
    assert a.asof_join(b, on="TS", by="SYM", right_order="ts").columns[:3] == ["sym", "ts", "q"]
