"""Aggregates of each row's partners on Spark: static frames against DuckDB, streams with a restart between batches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from spark.script import Script, rows_of
from spark.tiers import one_short

from ivjoin.errors import ConditionError, UnsupportedError

pytestmark = pytest.mark.spark

ASKED = {
    "n": ("*", "count"), "total": ("q", "sum"), "mean": ("P", "mean"), "top": ("p", "max"), "first": ("w", "first"),
    "d": ("d", "sum"), "twice": ("r.q * 2", "max"),
}  # fmt: skip
SQL = (
    "count(r.q) n, CAST(sum(r.q) AS BIGINT) total, avg(r.p) mean, max(r.p) top, first(r.w ORDER BY r.x) first, "
    "sum(r.d) d, max(r.q * 2) twice"
)


def side(n: int, step: int) -> pa.Table:
    return pa.table({
        "k": [("a", "b", None)[i % 3] for i in range(n)], "x": pa.array([i * step for i in range(n)], pa.int32()),
        "q": [i * 7 % 11 for i in range(n)], "p": [math.nan if i % 31 == 5 else i / 4 for i in range(n)],
        "w": [f"w{i}" for i in range(n)],
        "d": pa.array([i * 3 for i in range(n)]).cast(pa.decimal128(21, 0)).cast(pa.decimal128(23, 2)),
    })  # fmt: skip


@pytest.mark.parametrize("how", one_short(["inner", "left"], "left"))
def test_static_frames(spark: Any, how: str) -> None:
    left, right = side(150, 3).select(["k", "x"]), side(300, 2)
    out = spark.createDataFrame(left).window_join(
        spark.createDataFrame(right), on="k", condition="l.x BETWEEN r.x - 20 AND r.x + 9", how=how, aggregate=ASKED,
    )
    assert out.columns == ["k", "x", *ASKED]
    assert out.schema["top"].dataType.simpleString() == "double"
    with duckdb.connect() as db:
        db.register("lt", left)
        db.register("rt", right)
        join = f"FROM lt l {how} JOIN rt r ON l.k = r.k AND l.x BETWEEN r.x - 20 AND r.x + 9 GROUP BY ALL"
        want = db.sql(f"SELECT l.k, l.x, {SQL} {join}").to_arrow_table()
    got = out.toArrow().select(want.schema.names)
    assert rows_of(got.drop_columns(["d"])) == rows_of(want.drop_columns(["d"]))
    assert sorted(map(str, got["d"].to_pylist())) == sorted(map(str, want["d"].to_pylist()))


def test_what_is_refused(spark: Any) -> None:
    left, right = spark.createDataFrame(side(3, 1)), spark.createDataFrame(side(3, 1))
    with pytest.raises(ConditionError, match="expected 'left' or 'inner'"):
        left.window_join(right, on="k", how="full", aggregate={"n": ("*", "count")})
    with pytest.raises(UnsupportedError):
        left.window_join(right, on="k", condition="soundex(l.w) = r.w", how="inner", aggregate={"n": ("*", "count")})


S = pa.schema({"k": pa.string(), "t": pa.int64()})
RIGHT = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})


@pytest.mark.parametrize("backend", ["applyInPandasWithState"])
def test_streams_go_on_after_a_restart(spark: Any, tmp_path: Path, backend: str) -> None:
    def join(left: Any, right: Any) -> Any:
        return left.window_join(
            right, on="k", condition="abs(l.t - r.t) <= 5", how="left", left_order="t", right_order="t", buckets=2,
            aggregate={"n": ("*", "count"), "s": ("v", "sum"), "z": ("v", "last")}, backend=backend,
        )

    script = Script(spark, tmp_path, join, S, RIGHT)
    script.add(left=[("a", 1), ("b", 2), ("c", 3)], right=[("a", 0, 1), ("a", 4, 2)])
    assert script.run() == {}
    script.add(right=[("b", 8, 4), ("a", 6, 8), ("a", 30, 16)])
    assert script.run() == {("a", 1, 3, 11, 8): 1, ("b", 2, 0, None, None): 1, ("c", 3, 0, None, None): 1}
    script.add(left=[("a", 28)], right=[("b", 90, 1)])
    assert script.run() == {("a", 28, 1, 16, 16): 1}
