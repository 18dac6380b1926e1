"""Rows routed to cells of slices: values to the ends of their types, and ranges between columns."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS
from spark.script import rows_of
from spark.second_opinion import joined

pytestmark = pytest.mark.spark

I64 = [-(2**63), -(2**63) + 1, -(2**62), -(2**53) - 1, -2, -1, 0, 1, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1]
F64 = [-math.inf, -1.7e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.0, 1.1, 2.0**53, math.inf, math.nan]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(d.year, d.month, d.day, 11, 59, 59, 999_999) for d in DAYS]
EDGES = "l.a BETWEEN r.a AND r.b"


def drawn(t: pa.DataType, values: list[Any], rng: random.Random, n: int = 60) -> pa.Table:
    some: list[Any] = [*values, None]
    columns = {name: pa.array([rng.choice(some) for _ in range(n)], t) for name in "kab"}
    return pa.table({**columns, "id": pa.array(range(n), pa.int64())})


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", HOWS)
def test_values_at_the_ends_of_their_types_are_joined_as_by_one_task(spark: Any, how: str) -> None:
    for t, values in ((pa.int64(), I64), (pa.float64(), F64), (pa.timestamp("us"), TIMES)):
        rng = random.Random(f"{t} {how}")
        tables = [drawn(t, values, rng, 90) for _ in "lr"]
        left, right = (spark.createDataFrame(table) for table in tables)
        on = rng.choice([None, "k"])
        spread = left.band_join(right, on=on, condition=EDGES, how=how, buckets=3, routing="slices")
        one = left.band_join(right, on=on, condition=EDGES, how=how, routing="hash")
        assert counted(spread) == counted(one)


def counted(frame: Any) -> Counter[Any]:
    """Rows, NaN equal to itself and -0.0 as it is."""
    return Counter({tuple(map(repr, row)): n for row, n in rows_of(frame.toArrow()).items()})


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", HOWS)
def test_ranges_between_columns_and_several_bands(spark: Any, how: str) -> None:
    rng = random.Random(how)
    n = 400
    a, b = (
        pa.table({
            "k": pa.array([rng.choice("aaaaab") for _ in range(n)]),
            "x": pa.array([rng.choice([None, *range(300)]) for _ in range(n)], pa.int64()),
            "y": pa.array([rng.randrange(-20, 320) for _ in range(n)], pa.int64()), "v": list(range(n)),
        })
        for _ in "lr"
    )  # fmt: skip
    condition = "l.x >= r.x AND l.x <= r.y AND l.x <= r.x + 9 OR l.x = r.y AND l.x BETWEEN r.x AND r.x + 4"
    left, right = spark.createDataFrame(a), spark.createDataFrame(b)
    out = left.band_join(right, on="k", condition=condition, how=how, buckets=3, routing="slices")
    columns = "coalesce(l.k, r.k) AS k, l.x, l.y, l.v, r.x AS x_right, r.y AS y_right, r.v AS v_right"
    assert rows_of(out.toArrow()) == joined(a, b, how, f"l.k = r.k AND ({condition})", columns)
