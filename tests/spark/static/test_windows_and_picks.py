"""``window_join`` and ``Pick`` on static Spark frames, as on tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import Pick

pytestmark = pytest.mark.spark


def side(n: int, step: int) -> pa.Table:
    return pa.table({
        "k": [("a", "b")[i % 2] for i in range(n)], "x": pa.array([i * step for i in range(n)], pa.int32()),
        "q": [i * 7 % 11 for i in range(n)],
    })  # fmt: skip


def rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def test_aggregates_of_a_window(spark: Any) -> None:
    left, right = side(40, 3).select(["k", "x"]), side(90, 2)
    options: dict[str, Any] = {
        "on": "k", "condition": "r.x BETWEEN l.x - 9 AND l.x + 3",
        "aggregate": {"n": "count(*)", "share": "sum(r.q) / count(*)", "gap": "l.x - max(r.x)", "s": "stddev(r.q)"},
    }
    out = spark.createDataFrame(left).window_join(spark.createDataFrame(right), **options)
    assert out.columns == ["k", "x", "n", "share", "gap", "s"]
    assert rows(out.toArrow()) == rows(ivjoin.window_join(left, right, **options).to_arrow())
    with pytest.raises(ivjoin.UnsupportedError, match="all values"):
        spark.createDataFrame(left).window_join(spark.createDataFrame(right), on="k", aggregate={"m": "median(r.q)"})


def test_the_first_rows_by_a_distance(spark: Any) -> None:
    left, right = side(40, 3).select(["k", "x"]), side(90, 2)
    options: dict[str, Any] = {
        "on": "k", "condition": "abs(l.x - r.x) <= 9", "pick": Pick("abs(l.x - r.x)", k=2, ties="all"), "how": "left",
    }
    out = spark.createDataFrame(left).band_join(spark.createDataFrame(right), **options)
    assert rows(out.toArrow()) == rows(ivjoin.band_join(left, right, **options).to_arrow())
