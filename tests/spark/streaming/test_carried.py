"""The order of a joined stream's rows: never broken in the model's output, and later joins prune by it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from oracle import HOWS
from spark.backends import BACKENDS, store_for
from spark.decisions import SLACK, drawn, first_decided, kept_and_late, spec_for
from spark.script import Script, rows_of

from ivjoin.errors import ColumnError, OrderError
from ivjoin.frontier.order import Order
from ivjoin.plan.question import join_spec
from ivjoin.spark.api.origin import output_slacks

# of BAND, three wide: l.t falls by no more than its own slack, 4, or 3 + 0; r.t by no more than 3 + 4
LEFT, RIGHT = max(SLACK, 3), 3 + SLACK
KNOWN = {
    "inner": {1: LEFT, 3: RIGHT}, "left": {3: RIGHT}, "right": {1: LEFT}, "full": {}, "left_semi": {1: LEFT},
    "left_anti": {}, "right_semi": {1: RIGHT}, "right_anti": {},
}  # fmt: skip


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", HOWS)
def test_no_row_comes_later_than_its_column_says(how: str) -> None:
    slacks = output_slacks(spec_for(how, 64))
    assert slacks == KNOWN[how]
    furthest = dict.fromkeys(slacks, 0)
    for seed in range(100):
        left, right = drawn(seed + 7000), drawn(seed + 9000)
        right = [[(k, None if t is None else t - (seed % 5) * 4, v) for k, t, v in rows] for rows in right]
        most: dict[int, int] = {}
        for batch in first_decided(*kept_and_late(left, right)[0], how):
            for i in slacks:
                times = [row[i] for row in batch if row[i] is not None]
                if times:
                    furthest[i] = max(furthest[i], most.get(i, min(times)) - min(times))
                    most[i] = max([most.get(i, min(times)), *times])
    assert all(furthest[i] <= slacks[i] for i in slacks)
    if how == "inner":
        assert furthest[1] == SLACK, "no row came as late as it may"


TIMES = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("x", pa.float64())])


@pytest.mark.parametrize("condition, orders, changed, known", [
    ("l.t BETWEEN r.t - INTERVAL 9 SECONDS AND r.t", ("t", "t"), {}, dict.fromkeys((1, 4), timedelta(seconds=9))),
    ("abs(l.d - r.d) < 3", ("d", "d"), {}, {2: timedelta(days=4), 5: timedelta(days=4)}),
    ("l.t >= r.t", ("t", "t"), {}, {}), ("l.t = r.t", ("t", "d"), {}, {}),
    ("l.t BETWEEN r.t AND r.t", ("t", None), {}, {}), ("l.x BETWEEN r.x - 1 AND r.x", ("x", "x"), {}, {}),
    ("l.t BETWEEN r.t AND r.t", ("t", "t"), {"on_late": "join"}, {}),
    ("l.t BETWEEN r.t AND r.t", (Order("t", descending=True), "t"), {}, {}),
])  # fmt: skip
def test_output_watermarks_under_other_conditions(
    condition: str, orders: tuple[Any, Any], changed: dict[str, Any], known: dict[int, Any]
) -> None:
    given = {"on_late": "drop"} | changed
    spec = join_spec(TIMES, TIMES, on="k", condition=condition, left_order=orders[0], right_order=orders[1], **given)
    assert output_slacks(spec) == known


SIDE = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
BAND = "l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts"
CHAIN = "l.ts_right BETWEEN r.at - INTERVAL 5 SECONDS AND r.at + INTERVAL 5 SECONDS"
STEP = 20_000_000


def steps(batch: int) -> list[tuple[int, int, int]]:
    start = batch * STEP
    return [(i % 2, start + i * 2_000_000, 100 * batch + i) for i in range(10)]


@pytest.mark.spark
def test_two_joins_in_a_query(spark: Any, tmp_path: Path) -> None:
    """The second knows what the first does to its rows, so its state stays at the window; a filter between them too."""
    from ivjoin.spark import explain, metrics

    def join(a: Any, b: Any) -> Any:
        named = {"left_order": "ts", "right_order": "ts", "backend": BACKENDS[1], "buckets": 2}
        pairs = a.band_join(b, on="k", condition=BAND, **named).where("v >= 0").withColumnRenamed("v", "first")
        named["right_order"] = "at"
        del named["left_order"]
        out = pairs.band_join(b.toDF("k", "at", "third"), on="k", condition=CHAIN, how="left", **named)
        assert "l.ts_right of the left side" in explain(out)
        return out.select("k", "first", "v_right", "third")

    script = Script(spark, tmp_path, join, SIDE, SIDE)
    for b in range(3):
        script.add(left=steps(b), right=steps(b))
    with store_for(spark, BACKENDS[1]):
        got = script.run()
    everything = [r for b in range(3) for r in steps(b)]
    rows = script._table("left", everything)  # noqa: F841  DuckDB finds it by name
    seconds = "INTERVAL 10 SECONDS"
    want = rows_of(duckdb.sql(
        "SELECT l.k, l.v AS f, r.v AS s, t.v AS e FROM rows l "
        f"JOIN rows r ON l.k = r.k AND l.ts BETWEEN r.ts - {seconds} AND r.ts "
        "JOIN rows t ON l.k = t.k AND r.ts BETWEEN t.ts - INTERVAL 5 SECONDS AND t.ts + INTERVAL 5 SECONDS"
    ).arrow().read_all())  # fmt: skip
    assert got == want
    second = [m for m in metrics(script.query) if m["join"] == "ivjoin#2"]
    assert sum(m["late_rows"] for m in second) == 0
    assert sum(int(m["left_rows_retired"]) for m in second) > 25
    assert max(int(m["state_rows"]) for m in second[1:]) < 80


@pytest.mark.spark
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_behind_a_join(spark: Any, tmp_path: Path, backend: str) -> None:
    from pyspark.sql import functions as F

    from ivjoin.spark import with_output_watermark

    def join(a: Any, b: Any) -> Any:
        late = Order("ts", slack=timedelta(seconds=3))
        joined = a.band_join(b, on="k", condition=BAND, left_order="ts", right_order=late, backend=backend, buckets=2)
        marked = with_output_watermark(joined.where("v >= 0"), "ts")
        assert marked.schema["ts"].metadata["spark.watermarkDelayMs"] == 13_001
        windows = marked.groupBy(F.window("ts", "20 seconds")).count()
        return windows.selectExpr("unix_seconds(window.start)", "count")

    script = Script(spark, tmp_path, join, SIDE, SIDE)
    for b in range(3):
        script.add(left=steps(b), right=steps(b))
    with store_for(spark, backend):
        got = script.run()
    # A left row has three partners, 0, 4 and 8 seconds later; the last are 58 s in, so windows up to 44 s are over.
    assert got == Counter({(0, 30): 1, (20, 30): 1})


@pytest.mark.spark
def test_conditions_without_an_output_watermark(spark: Any, tmp_path: Path) -> None:
    from ivjoin.spark import with_output_watermark

    script = Script(spark, tmp_path, lambda a, b: a, SIDE, SIDE)
    a, b = script.source("left"), script.source("right")
    joined = a.band_join(b, on="k", condition=BAND, how="left", left_order="ts", right_order="ts")
    assert with_output_watermark(joined, "ts_right").isStreaming
    for frame, column in ((joined, "ts"), (joined, "v"), (a, "ts"), (joined.dropDuplicates(), "ts_right")):
        with pytest.raises(OrderError, match=f"the order of column '{column}' in the joined rows is not known"):
            with_output_watermark(frame, column)
    with pytest.raises(ColumnError, match="column 'tz' is not in the joined rows: k, ts, v"):
        with_output_watermark(joined, "tz")


@pytest.mark.spark
def test_a_watermark_of_a_column_of_any_name(spark: Any, tmp_path: Path) -> None:
    """A dot in a name is no field of a struct, and a backtick no quote."""
    from ivjoin.spark import with_output_watermark

    for name in ("t.s", "t`s"):
        quoted = "`" + name.replace("`", "``") + "`"
        (tmp_path / "in").mkdir(exist_ok=True)
        stream = spark.readStream.schema(f"k long, {quoted} timestamp").parquet(str(tmp_path / "in"))
        joined = stream.band_join(
            stream, on="k", condition=f"l.{quoted} BETWEEN r.{quoted} - INTERVAL 9 SECONDS AND r.{quoted}",
            left_order=name, right_order=name,
        )
        marked = with_output_watermark(joined, name)
        assert marked.schema[name].metadata["spark.watermarkDelayMs"] == 9_001
