"""CHAR columns are compared as Spark compares them: the shorter operand is padded."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ivjoin.conditions import condition
from ivjoin.errors import UnsupportedError
from ivjoin.expr import Scope
from ivjoin.spark.conditions.padding import char_widths, padded, refuse_pairs


def frame_type(kind: str) -> StructType:
    return StructType([
        StructField("o", LongType()), StructField("x", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": kind}),
    ])  # fmt: skip


SCHEMA = pa.schema([("o", pa.int64()), ("x", pa.string())])


@pytest.mark.parametrize("text, want", [
    ("l.x = r.x", "rpad(l.x, 5, ' ') = r.x"), ("NOT r.x <=> l.x", "NOT r.x <=> rpad(l.x, 5, ' ')"),
    ("l.x = 'a'", "l.x = 'a  '"), ("l.x < 'abcd'", "rpad(l.x, 4, ' ') < 'abcd'"), ("l.x = 'abc'", "l.x = 'abc'"),
    ("r.x IN ('a', 'abcde', 'ab')", "r.x IN ('a    ', 'abcde', 'ab   ')"), ("l.o = r.o", "l.o = r.o"),
    ("l.x IN ('a', NULL)", "l.x IN ('a  ', NULL)"), ("upper(l.x) = 'A'", "upper(l.x) = 'A'"),
])  # fmt: skip
def test_the_shorter_operand_is_padded(text: str, want: str) -> None:
    widths = char_widths((frame_type("char(3)"), frame_type("char(5)")), (SCHEMA, SCHEMA))
    assert widths == {("left", "x"): 3, ("right", "x"): 5}
    scope = Scope(SCHEMA, SCHEMA)
    assert padded(condition(text, scope), widths) is condition(want, scope)


def test_varchar_and_text_are_not_padded() -> None:
    widths = char_widths((frame_type("varchar(3)"), frame_type("char(5)")), (SCHEMA, SCHEMA))
    node = condition("l.x = r.x", Scope(SCHEMA, SCHEMA))
    assert padded(node, widths) is node
    refuse_pairs([("x", "x")], widths)


def test_keys_of_two_widths_are_refused_by_name() -> None:
    widths = char_widths((frame_type("char(3)"), frame_type("char(5)")), (SCHEMA, SCHEMA))
    with pytest.raises(UnsupportedError, match=r"'x', which is char\(3\), with 'x', which is char\(5\)"):
        refuse_pairs([("x", "x")], widths)


@pytest.mark.spark
def test_tables_with_char_columns_agree_with_spark(spark: Any) -> None:
    for name, width in (("char3", 3), ("char5", 5)):
        spark.sql(f"CREATE TABLE {name} (o BIGINT, x CHAR({width})) USING parquet")
        spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    left, right = spark.table("char3"), spark.table("char5")
    for text, how in (("l.x = r.x", "inner"), ("l.o = r.o AND l.x = 'a'", "inner"), ("l.x = r.x", "left_anti")):
        ours = left.band_join(right, condition=text, how=how)
        native = left.alias("l").join(right.alias("r"), F.expr(text), how)
        assert Counter(map(tuple, ours.collect())) == Counter(map(tuple, native.collect())), (text, how)
        assert native.count()
    with pytest.raises(UnsupportedError, match=r"char\(3\)"):
        left.band_join(right, on="x")
