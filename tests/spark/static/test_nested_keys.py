"""Structs and arrays as keys of static frames, as in Spark's own join; what that does not support is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ivjoin.errors import UnsupportedError

pytestmark = pytest.mark.spark

# Null fields, empty and null arrays, arrays that hold null, NaN and both zeros, text and binary, a struct in an array.
ROWS = """VALUES
    (1, named_struct('a', 1L, 'x', 0.0D), array(1, NULL), array(named_struct('s', 'ä'))),
    (2, named_struct('a', 1L, 'x', -0.0D), array(), array(named_struct('s', NULL))),
    (3, named_struct('a', NULL, 'x', double('NaN')), array(1), array()),
    (4, named_struct('a', NULL, 'x', NULL), NULL, array(NULL)),
    (5, NULL, array(1, NULL), NULL),
    (6, named_struct('a', 9007199254740993L, 'x', 1.5D), array(2, 1), array(named_struct('s', '')))"""
NAMES = "AS t(v, st, xs, ss)"


@pytest.fixture(scope="module")
def frames(spark: Any) -> tuple[Any, Any]:
    left = spark.sql(f"SELECT v, st, xs, ss FROM {ROWS} {NAMES}")
    right = spark.sql(f"SELECT v + 10 AS v, st, xs, ss FROM {ROWS} {NAMES} WHERE v <> 6 UNION ALL "
                      "SELECT 20, named_struct('a', 1L, 'x', 1.5D), array(1), array(named_struct('s', 'ä'))")
    return left.cache(), right.cache()


def rows(frame: Any) -> Counter[Any]:
    return Counter(tuple(r) for r in frame.collect())


@pytest.mark.parametrize("key, equal", [("st", "="), ("xs", "<=>"), ("ss", "=")])
def test_as_sparks_own_join(frames: tuple[Any, Any], key: str, equal: str) -> None:
    left, right = frames
    test = f"l.{key} {equal} r.{key} AND l.v + 10 >= r.v - 9"
    out = left.band_join(right, condition=test, how="full", buckets=1)
    own = left.alias("l").join(right.alias("r"), _expr(test), "full")
    assert rows(out.select("v", "v_right")) == rows(own.select("l.v", "r.v"))


def test_by_on(frames: tuple[Any, Any]) -> None:
    left, right = (f.select("v", "st") for f in frames)
    out = left.band_join(right, on="st", how="left", buckets=1)
    own = left.alias("l").join(right.alias("r"), _expr("l.st = r.st"), "left")
    assert rows(out.select("v", "v_right")) == rows(own.select("l.v", "r.v"))
    assert out.schema["st"].dataType == left.schema["st"].dataType


@pytest.mark.parametrize("value, match", [
    ("map('a', 1)", "map"), ("INTERVAL '1-2' YEAR TO MONTH", "interval year to month.*cast it to another type"),
])  # fmt: skip
def test_refusals_give_the_reason(spark: Any, value: str, match: str) -> None:
    frame = spark.sql(f"SELECT {value} AS m, 1 AS v")
    for question in ({"on": "m"}, {"condition": "l.m = r.m", "how": "left"}):
        with pytest.raises(UnsupportedError, match=match):
            frame.band_join(frame.select("m", "v"), **question)


def _expr(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)
