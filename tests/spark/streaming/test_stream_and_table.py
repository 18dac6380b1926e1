"""A stream joined with a static frame, as Spark joins them, and as-of: in each micro-batch, without state."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import functions as F
from spark.script import Script

from ivjoin.errors import UnsupportedError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
BAND = "l.t BETWEEN r.t - 3 AND r.t"
ROWS = [[(None if i % 11 == 0 else i % 4, 7 * i % 40) for i in range(12 * f, 12 * f + 12)] for f in range(2)]
TABLE = [(k, t, k * 100 + t) for k in range(3) for t in range(0, 40, 4)]


def joins(rows: Any, table: Any) -> dict[str, Any]:
    """Joins with a table; the stream is the left frame, and once the right one."""
    out = {how: rows.band_join(table, on="k", condition=BAND, how=how, buckets=2) for how in ("left", "left_anti")}
    out["no key"] = rows.band_join(table, condition=f"{BAND} AND l.k + 0 = r.k", how="left_semi")
    out["asof"] = rows.asof_join(table, on="t", by="k", how="left")
    mirrored = "r.t BETWEEN l.t - 3 AND l.t"
    out["right"] = table.band_join(rows, on="k", condition=mirrored, how="right", suffix="_stream")
    alike = "soundex(CAST(l.k AS STRING)) = soundex(CAST(r.k AS STRING))"
    out["left to Spark"] = rows.band_join(table, on="k", condition=f"{BAND} AND {alike}")
    return out


def named(frames: dict[str, Any]) -> Any:
    """One frame of the rows of all, as text."""
    parts = [f.select(F.lit(name).alias("join"), F.to_json(F.struct("*")).alias("row")) for name, f in frames.items()]
    out = parts[0]
    for part in parts[1:]:
        out = out.union(part)
    return out


def test_each_micro_batch_meets_the_whole_table(spark: Any, tmp_path: Path) -> None:
    table = spark.createDataFrame(TABLE, "k long, t long, v long")
    script = Script(spark, tmp_path, lambda a, _: named(joins(a, table)), SCHEMA, SCHEMA)
    for file in ROWS:
        script.add(left=file)
    found = script.run()
    rows = spark.createDataFrame([row for file in ROWS for row in file], "k long, t long")
    want = Counter(map(tuple, named(joins(rows, table)).collect()))  # of two static frames
    assert found == want
    assert {name for name, _ in want} == {"left", "left_anti", "no key", "asof", "right", "left to Spark"}
    native = rows.alias("l").join(table.alias("r"), F.expr(f"l.k = r.k AND {BAND}"), "left")
    assert native.count() == sum(n for (name, _), n in want.items() if name == "left")


@pytest.mark.parametrize("how", ["right", "full", "right_semi", "right_anti"])
def test_rows_of_the_table_alone_are_refused(spark: Any, tmp_path: Path, how: str) -> None:
    stream = Script(spark, tmp_path, lambda a, _: a, SCHEMA, SCHEMA).source("left")
    table = spark.createDataFrame(TABLE, "k long, t long, v long")
    with pytest.raises(UnsupportedError, match=f"how is '{how}', but the right frame is static .*'inner', 'left'"):
        stream.band_join(table, on="k", condition=BAND, how=how)
    if how == "full":
        with pytest.raises(UnsupportedError, match="each left row has one result, .*the stream as the left frame"):
            table.asof_join(stream, on="t", by="k")
