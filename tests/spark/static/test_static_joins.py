"""Joins of static frames: every join type against Spark's own join and DuckDB, sort keys, no key, types, names."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle import HOWS
from spark.every_type import VALUES, select_list
from spark.script import rows_of
from spark.second_opinion import joined
from spark.tiers import one_short, short

from ivjoin.errors import ColumnError, ConditionError, IvjoinError, OrderError, UnsupportedError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int32()), ("v", pa.int64())])


def table(seed: int, n: int = 300) -> pa.Table:
    rng = random.Random(seed)
    rows = {
        "k": [rng.choice(["a", "b", "ü", "", None]) for _ in range(n)],
        "x": [rng.choice([None, *range(-40, 40)]) for _ in range(n)],
        "v": list(range(n)),
    }
    return pa.table(rows, schema=SCHEMA)


@pytest.fixture(scope="module")
def frames(spark: Any) -> tuple[Any, Any]:
    return spark.createDataFrame(table(1)).cache(), spark.createDataFrame(table(2)).cache()


@pytest.mark.parametrize("from_files", [False, True])
def test_a_row_outside_of_its_bounds_ends_the_query(
    frames: tuple[Any, Any], spark: Any, tmp_path: Path, from_files: bool
) -> None:
    if from_files:
        for name, seed in (("l", 1), ("r", 2)):
            pq.write_table(table(seed), tmp_path / f"{name}.parquet")
        frames = tuple(spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "lr")
    question: dict[str, Any] = {"on": "k", "condition": "l.x BETWEEN r.x - 2 AND r.x + 1"}
    out = frames[0].band_join(frames[1], **question, right_bounds={"v": (0, 298)})
    with pytest.raises(Exception, match="LateRowError"):
        out.toArrow()
    out = frames[0].band_join(frames[1], **question, right_bounds={"v": (0, 299), "x": (-40, 39)})
    assert rows_of(out.toArrow()) == joined(
        table(1), table(2), "inner", "l.k = r.k AND l.x BETWEEN r.x - 2 AND r.x + 1", COLUMNS
    )


COLUMNS = "coalesce(l.k, r.k) AS k, l.x, l.v, r.x AS x_right, r.v AS v_right"


@pytest.mark.parametrize("how", one_short(HOWS, "left"))
def test_rows_that_match_nothing_are_dropped_before_the_shuffle(frames: tuple[Any, Any], how: str) -> None:
    """Unless the join emits them: rows with a NULL key, and rows that a conjunct on their side excludes."""
    condition = "l.x BETWEEN r.x - 2 AND r.x + 1 AND l.v % 3 = 0 AND r.v > 50"
    rows = rows_of(frames[0].band_join(frames[1], on="k", condition=condition, how=how, buckets=3).toArrow())
    assert rows == joined(table(1), table(2), how, f"l.k = r.k AND {condition}", COLUMNS)


def test_which_rows_a_way_drops() -> None:
    import numpy as np

    from ivjoin.conditions import scalar
    from ivjoin.expr import Scope
    from ivjoin.spark.rows.pack import hashed_matches

    schema = pa.schema([("k", pa.string()), ("x", pa.int64()), ("y", pa.int64())])
    scope = Scope(schema, pa.schema([]))
    way = hashed_matches([scalar("l.x / l.y > 1", scope)], [scalar("l.k", scope)], 4)
    assert way is not None
    rows = pa.record_batch([["a", None, "b", "c", None], [4, 4, 1, 1, 1], [2, 2, 2, 0, 0]], schema=schema)
    kept, buckets = way(rows, np.arange(5) + 4)
    assert kept.to_pylist() == [rows.to_pylist()[i] for i in (0, 3, 4)], "errors are left to the join"
    assert buckets.tolist() == [0, 3, 0]
    assert hashed_matches([], [], 4) is None


@pytest.mark.parametrize("how", one_short(HOWS, "full"))
def test_each_join_type_agrees_with_duckdb(frames: tuple[Any, Any], how: str) -> None:
    out = frames[0].band_join(frames[1], on="k", condition="l.x BETWEEN r.x - 2 AND r.x + 1", how=how)
    want = joined(table(1), table(2), how, "l.k = r.k AND l.x BETWEEN r.x - 2 AND r.x + 1", COLUMNS)
    assert rows_of(out.toArrow()) == want
    assert out.columns == (["k", "x", "v", "x_right", "v_right"] if "_" not in how else ["k", "x", "v"])


@pytest.mark.parametrize("condition, sql", [
    pytest.param("l.x + l.v % 5 >= r.x AND l.x < r.x", None, id="sorted by an expression of ours"),
    pytest.param("l.x = r.x", None, id="no band at all, the key is in the condition"),
    pytest.param("l.k <=> r.k AND l.x <= r.x AND l.x > r.x - 3L",
                 "l.k IS NOT DISTINCT FROM r.k AND l.x <= r.x AND l.x > r.x - 3", id="null-safe key"),
    pytest.param("l.x > r.x + 75", None, id="no key"),
])  # fmt: skip
def test_conditions_without_on(frames: tuple[Any, Any], condition: str, sql: str | None) -> None:
    out = frames[0].band_join(frames[1], condition=condition, how="full")
    columns = "l.k, l.x, l.v, r.k AS k_right, r.x AS x_right, r.v AS v_right"
    assert rows_of(out.toArrow()) == joined(table(1), table(2), "full", sql or condition, columns)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", HOWS)
def test_a_row_whose_sum_exceeds_bigint_is_also_sorted(spark: Any, how: str) -> None:
    """The rows are sorted by ``-r.x``, which has no value at the least bigint though ``l.x + r.x`` does."""
    least = -(2**63)
    values = {"k": [1, 1, 2, 3], "x": [0, 5, None, 7]}, {"k": [1, 1, 2, 3], "x": [least, -1, 4, 2**62]}
    left, right = (pa.table({**v, "v": [0, 1, 2, 3]}) for v in values)
    question = {"on": "k", "condition": "l.x + r.x <= 0", "how": how, "buckets": 2}
    out = spark.createDataFrame(left).band_join(spark.createDataFrame(right), **question)
    want = joined(left, right, how, "l.k = r.k AND l.x + r.x <= 0", COLUMNS)
    assert rows_of(out.toArrow()) == want
    lone = spark.createDataFrame(pa.table({"k": [9], "x": [2**62], "v": [2**62]}))
    out = lone.band_join(spark.createDataFrame(right), on="k", condition="l.x + l.v >= r.x", how=how)
    assert out.count() == {"left": 1, "right": 4, "full": 5, "left_anti": 1, "right_anti": 4}.get(how, 0)


def test_columns_aliases_and_frames_in_a_condition(frames: tuple[Any, Any]) -> None:
    from pyspark.sql import functions as F

    a, b = frames[0].alias("a"), frames[1].alias("b")
    want = joined(table(1), table(2), "inner", "l.k = r.k AND l.x BETWEEN r.x - 2 AND r.x", COLUMNS)
    left, right = frames
    for condition in (
        (left.x >= right.x - 2) & (left["x"] <= right["x"]),
        F.col("a.x").between(F.col("b.x") - 2, F.col("b.x")),
        F.expr("a.x BETWEEN b.x - 2 AND b.x") & ~F.col("a.k").isNull(),
        "a.x BETWEEN b.x - 2 AND b.x",
    ):
        assert rows_of(a.band_join(b, on="k", condition=condition).toArrow()) == want


def test_unsupported_conditions_are_refused_before_anything_runs(frames: tuple[Any, Any]) -> None:
    from pyspark.sql import functions as F

    left, right = frames
    with pytest.raises(UnsupportedError, match="rand"):
        left.band_join(right, on="k", condition="l.x > r.x + rand()", how="left")
    with pytest.raises(UnsupportedError, match="an element of an array or map"):
        left.band_join(right, on="k", condition=F.col("l.k")[0] == right.k, how="left")
    with pytest.raises(ColumnError, match="belongs to both sides"):
        left.band_join(left, on="k", condition=left.x < left.v)
    with pytest.raises(ColumnError, match="did you mean 'x'"):
        left.band_join(right, on="k", condition="l.X1 < r.x")
    for on in (left.k == right.k, [left.k == right.k], ["k", left.x == right.x]):
        with pytest.raises(ConditionError, match=r"on holds the Column .*belongs in condition="):
            left.band_join(right, on=on)
    with pytest.raises(ConditionError, match="condition is a list; .*with & between Columns"):
        left.band_join(right, on="k", condition=[left.x < right.x, left.v < right.v])
    with pytest.raises(OrderError, match=r"left_order is 'x DESC'; write Order\('x', descending=True\)"):
        left.band_join(right, on="k", condition="l.x < r.x", left_order="x DESC")
    with pytest.raises(OrderError, match=r"right_order is 'x asc'; write 'x'"):
        left.band_join(right, on="k", condition="l.x < r.x", right_order="x asc")
    with pytest.raises(OrderError, match="left_order is the Column .*expected a column's name"):
        left.band_join(right, on="k", condition="l.x < r.x", left_order=left.x)
    with pytest.raises(IvjoinError, match="expected a PySpark DataFrame"):
        left.band_join(table(2), on="k")
    with pytest.raises(IvjoinError, match="backend is 'flink'"):
        left.band_join(right, on="k", backend="flink")


def test_names_follow_the_sessions_case(spark: Any, frames: tuple[Any, Any]) -> None:
    left, right = frames[0].limit(50), frames[1].limit(50).toDF("K", "X", "w")
    out = left.band_join(right, on="K", condition="L.X <= r.x AND l.x > R.X - 3")
    assert out.columns == ["k", "x", "v", "x_right", "w"]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(ColumnError, match="'K' is not in left"):
            left.band_join(right, on="K")
        assert left.band_join(right, on=[("k", "K")], condition="l.x = r.X").columns == ["k", "x", "v", "K", "X", "w"]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_keys_of_different_types_meet(spark: Any) -> None:
    left = spark.sql("SELECT CAST(id AS INT) k, id v FROM range(100)")
    right = spark.sql("SELECT CAST(id AS DECIMAL(20,2)) k, CAST(id AS DOUBLE) w FROM range(50, 150)")
    out = left.band_join(right, on="k", condition="abs(l.v - r.w) < 1e0", buckets=7)
    assert sorted(r.v for r in out.collect()) == list(range(50, 100))


@short
def test_every_type_travels_exactly(spark: Any) -> None:
    frame = spark.range(30).selectExpr(*select_list())
    other = spark.range(30).selectExpr("id AS o", "id % 3 AS k", "id AS extra")
    out = frame.band_join(other, on="k", condition="l.o BETWEEN r.o - 0 AND r.o", how="left").select(*VALUES)
    assert out.schema.simpleString() == frame.schema.simpleString()
    assert rows_of(out.toArrow()) == rows_of(frame.toArrow())


def test_collated_strings_are_payload_only(spark: Any) -> None:
    left = spark.sql("SELECT id, CAST(id AS STRING) COLLATE UTF8_LCASE AS c FROM range(3)")
    assert left.band_join(left, on="id").count() == 3
    with pytest.raises(UnsupportedError, match="'c' of left has the collation UTF8_LCASE"):
        left.band_join(left, on="c")


def test_explain_says_how_rows_are_divided_and_what_prunes(spark: Any, frames: tuple[Any, Any]) -> None:
    from ivjoin.spark import explain

    text = explain(frames[0], frames[1], on="k", condition="l.x BETWEEN r.x - 2 AND r.x + 1", buckets=2)
    assert "static: rows shuffled by the keys\n" in text
    assert "band term" in text
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
    text = explain(stream, stream, condition="l.timestamp >= r.timestamp", buckets=4)
    assert "streaming: rows in one bucket, since there is no key that both sides share" in text
    text = explain(stream, stream, condition="l.value + 1 = r.value", buckets=4)
    assert "streaming: rows in one bucket, since Spark is not given expressions to hash by" in text
    assert "l.value + 1" in text.splitlines()[0]
    text = explain(stream, stream, on="value", condition="l.timestamp >= r.timestamp", buckets=4)
    assert "hashed to 4 buckets by 1 key;" in text
    assert "l.timestamp" in text


def test_an_empty_side(spark: Any, frames: tuple[Any, Any]) -> None:
    none = frames[1].where("false")
    assert frames[0].band_join(none, on="k", condition="l.x < r.x", how="left").count() == 300
    assert none.band_join(frames[0], on="k", condition="l.x < r.x", how="inner").count() == 0
    assert Counter(r.v for r in none.band_join(frames[0], on="k", how="right_anti").collect()) == Counter(range(300))


def test_an_observation_takes_the_counts(spark: Any, frames: tuple[Any, Any]) -> None:
    from pyspark.sql import Observation

    from ivjoin.spark import metrics

    question = {"on": "k", "condition": "l.x BETWEEN r.x - 2 AND r.x + 1", "how": "left"}
    plain = frames[0].band_join(frames[1], **question)
    seen = Observation("counted")
    counted = frames[0].band_join(frames[1], **question, name=seen)
    assert counted.schema == plain.schema
    rows = rows_of(counted.toArrow())
    assert rows == rows_of(plain.toArrow())
    [counts] = metrics(seen)
    assert counts["rows_out"] == sum(rows.values())
    assert (counts["left_rows_in"], counts["right_rows_in"]) == (frames[0].count(), frames[1].count())
    assert (counts["left_rows_retired"], counts["right_rows_retired"]) == (frames[0].count(), frames[1].count())
    assert counts["late_rows"] == 0
    assert 0 < counts["peak_state_rows"] < frames[0].count() + frames[1].count()
    assert counts["peak_state_bytes"] > 0
    stream = spark.readStream.format("rate").load()
    with pytest.raises(IvjoinError, match="an Observation is for static frames"):
        stream.band_join(stream, on="value", name=Observation())


@pytest.mark.parametrize("given, said", [
    ({"on": 3}, "on is 3, a int; expected a column name"), ({"on": ["k", 3]}, "on contains 3; expected a column name"),
    ({"on": [("k", "k", "k")]}, "on contains .*expected a column name or a pair"),
    ({"on": [("k", 3)]}, "on contains .*expected a column name or a pair"),
    ({"on": "k", "name": 3}, "name is a int; expected a pyspark.sql.Observation"),
])  # fmt: skip
def test_wrong_keys_and_names_are_reported(frames: tuple[Any, Any], given: dict[str, Any], said: str) -> None:
    with pytest.raises(IvjoinError, match=said):
        frames[0].band_join(frames[1], **given)
