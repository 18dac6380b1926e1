"""Options and inputs that a function on Spark cannot take are refused by name, before a query starts."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

import ivjoin.spark
from ivjoin import OptionError
from ivjoin.errors import UnsupportedError

FRAME: Any = None  # is not looked at


@pytest.mark.parametrize(("name", "wrong", "says"), [
    ("band_join", "left_ordr", "did you mean 'left_order'"), ("band_join", "threads", "it has allow_unbounded, "),
    ("asof_join", "tolerence", "did you mean 'tolerance'"), ("explain", "bucket", "did you mean 'buckets'"),
    ("multi_join", "skew", "did you mean 'skewed'"),
    ("write_stream", "chekpoint", "did you mean 'checkpoint_location'"),
])  # fmt: skip
def test_an_unknown_option_is_reported_with_the_function_it_was_given_to(name: str, wrong: str, says: str) -> None:
    with pytest.raises(OptionError, match=rf"^{name}\(\) has no option '{wrong}'; {says}"):
        getattr(ivjoin.spark, name)(FRAME, FRAME, **{wrong: 2})


@pytest.mark.spark
def test_a_second_state_in_a_query_names_the_backend_that_can_have_it(spark: Any) -> None:
    from pyspark.sql import functions as F

    stream = spark.readStream.format("rate").load().selectExpr("value AS k", "timestamp AS ts")
    stream = stream.withWatermark("ts", "1 second")
    band = "l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts"
    once = stream.band_join(stream, on="k", condition=band).select("k", "ts").where("k > 0")
    counted = stream.groupBy(F.window("ts", "5 seconds"), "k").count().selectExpr("k", "window.end AS ts")
    for frame, what in ((once, "another band_join"), (counted, "an aggregation")):
        with pytest.raises(UnsupportedError, match=f'the left input has {what}.*use backend="transformWithState"'):
            frame.band_join(stream, on="k", condition=band, left_order="ts")
    with pytest.raises(UnsupportedError, match="the right input has another band_join"):
        stream.band_join(once, on="k", condition=band)


@pytest.mark.spark
def test_types_that_spark_does_not_compare_are_refused(spark: Any) -> None:
    inside = "named_struct('v', parse_json('1')) AS x"
    for text, kind in (("parse_json('1') AS x", "variant"), (inside, "struct<v:variant>")):
        frame = spark.sql(f"SELECT 1 AS k, {text}")
        for given in ({"on": "x"}, {"condition": "l.x = r.x"}):
            with pytest.raises(UnsupportedError, match=f"reads column 'x' of left, which is {kind}.*variant_get"):
                frame.band_join(frame, **given)
        assert frame.band_join(frame, on="k").count() == 1  # as a payload


@pytest.mark.spark
def test_geometry_is_refused(spark: Any) -> None:
    from pyspark.errors import PySparkException

    try:
        frame = spark.sql("SELECT 1 AS k, st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') AS x")
        _ = frame.schema
    except PySparkException:
        pytest.skip("this Spark has no GEOMETRY")
    with pytest.raises(UnsupportedError, match="column 'x' is geometry.*convert it to binary"):
        frame.band_join(frame, on="k")
