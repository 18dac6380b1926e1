"""Session settings that decide how Spark reads and evaluates SQL: followed, or refused before the query starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.script import Script, StreamFailed

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.conditions import condition
from ivjoin.errors import IvjoinError
from ivjoin.expr import Scope
from ivjoin.spark import AnsiWarning, explain
from ivjoin.spark.conditions.dialect import ansi_note, backquoted

ANSI = "spark.sql.ansi.enabled"
QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
NUMBERS = pa.schema([("k", pa.int64()), ("a", pa.int32())])


@contextmanager
def set_to(spark: Any, **settings: str) -> Iterator[None]:
    """``ansi=`` and ``quotes=``, put back afterwards."""
    names = {"ansi": ANSI, "quotes": QUOTES}
    before = {name: spark.conf.get(names[name]) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(names[name], value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(names[name], value)


# -- ANSI ------------------------------------------------------------------------------------------------------------

TYPES = pa.schema([
    ("b", pa.int8()), ("i", pa.int32()), ("a", pa.int64()), ("d", pa.float64()), ("x", pa.decimal128(9, 2)),
    ("w", pa.decimal128(38, 2)), ("s", pa.string()), ("t", pa.timestamp("us", "UTC")), ("day", pa.date32()),
])  # fmt: skip


@pytest.mark.parametrize("text", [
    "l.a BETWEEN r.i AND r.a", "l.t BETWEEN r.t - INTERVAL 10 SECONDS AND r.t", "l.i + 1L < r.a", "l.a % 7 = r.a % 7",
    "CAST(l.b AS INT) + r.b < 3", "CAST(l.b AS INT) * r.b = 9", "abs(CAST(l.b AS SMALLINT)) < 3", "l.a / 2 > 1",
    "l.x - r.x < 3", "l.d - r.d < 3", "l.d < r.x", "l.a = r.x", "l.day <= r.day + INTERVAL 1 MONTH", "l.s LIKE 'a%'",
    "unix_seconds(l.t) <= unix_seconds(r.t) + 60", "l.d / 2.0 > r.d", "l.a DIV 2 = r.a", "l.day > '2020-01-01'",
    "CAST(l.i AS STRING) = r.s", "CAST(l.i AS DECIMAL(10, 0)) = r.x", "floor(l.d) = r.a",
])  # fmt: skip
def test_conditions_that_no_value_makes_raise_need_no_declaration(text: str) -> None:
    assert ansi_note(condition(text, Scope(TYPES, TYPES))) is None


@pytest.mark.parametrize("text, part", [
    ("l.a BETWEEN r.a - 3 AND r.a", "r.a - 3"), ("l.b + r.b < 3", "l.b + r.b"), ("-l.i < r.i", "-l.i"),
    ("abs(l.i) < 3", "abs(l.i)"), ("l.a * 2 < r.a", "l.a * 2"), ("l.a / r.a > 1", "l.a"), ("l.d / 0.0 > 1", "l.d"),
    ("l.a % r.i = 1", "l.a"), ("l.a DIV -1 = r.a", "l.a div -1"), ("l.w - r.w < 3", "l.w - r.w"), ("l.s = r.i", "l.s"),
    ("CAST(l.s AS DATE) < r.day", "l.s"), ("CAST(l.i AS TINYINT) < 3", "l.i"), ("CAST(l.d AS INT) < 3", "l.d"),
    ("CAST(l.i AS DECIMAL(9, 0)) = r.x", "l.i"), ("CAST(l.x AS TINYINT) = r.b", "l.x"), ("round(l.i, -1) = 10", "l.i"),
    ("l.i * 70000 > r.i OR l.a = r.a", "l.i * 70000"), ("CAST(l.b AS INT) * 20000000 < 3", "20000000"),
])  # fmt: skip
def test_conditions_that_some_value_makes_raise_are_named(text: str, part: str) -> None:
    note = ansi_note(condition(text, Scope(TYPES, TYPES)))
    assert note is not None
    assert part in note.split(" can raise ")[0]


@pytest.mark.spark
def test_without_ansi_a_condition_that_can_raise_is_told_at_plan_time(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    frame = spark.sql("SELECT id AS k, CAST(id AS INT) AS a FROM range(3)")
    asked: dict[str, Any] = {"on": "k", "condition": "l.a + 1 > r.a"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert frame.band_join(frame, **asked).count() == 3
    with set_to(spark, ansi="false"):
        with pytest.warns(AnsiWarning, match=r"l\.a \+ 1 can raise .*Set spark\.sql\.ansi\.enabled to true") as told:
            assert frame.band_join(frame, **asked).count() == 3
        assert told[0].filename == __file__
        other = frame.alias("o")
        with pytest.warns(AnsiWarning, match=r"l\.a \+ 1 can raise"):
            frame.alias("f").band_join(other, on="k", condition=F.col("f.a") + 1 > F.col("o.a"))
        with pytest.warns(AnsiWarning, match=r"can raise"):  # a key of text is cast to the number it is compared with
            frame.band_join(frame.selectExpr("CAST(k AS STRING) AS k"), on="k")
        assert "beware: spark.sql.ansi.enabled is false" in explain(frame, frame, **asked)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame.band_join(frame, on="k", condition="l.a >= r.a")
            assert "beware" not in explain(frame, frame, on="k", condition="l.a >= r.a")
    assert "beware" not in explain(frame, frame, **asked)


@pytest.mark.spark
def test_without_ansi_the_stream_still_follows_it(spark: Any, tmp_path: Path) -> None:
    top = (1 << 31) - 1
    script = Script(spark, tmp_path, lambda a, b: a.band_join(b, on="k", condition="l.a + 1 < r.a"), NUMBERS, NUMBERS)
    script.add(left=[(1, top)], right=[(1, 0)])
    said = f"integer overflow in l.a \\+ 1.* at l.a = {top}"
    with set_to(spark, ansi="false"), pytest.warns(AnsiWarning), pytest.raises(StreamFailed, match=said):
        script.run()


# -- quotes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, want", [
    ('"l"."a" < r.a', "`l`.`a` < r.a"), ("l.s = '\"x\"'", "l.s = '\"x\"'"), ("`\"` = 1", "`\"` = 1"),
    ('"a""b" = 1', '`a"b` = 1'), ('"a`b" = 1', "`a``b` = 1"), ('l.s = r"x" -- "y"', 'l.s = r"x" -- "y"'),
    ('/* "z" */ "z"', '/* "z" */ `z`'), ("'it''s \"x\"' = \"y\"", "'it''s \"x\"' = `y`"), ('l.a < "', 'l.a < "'),
])  # fmt: skip
def test_names_in_double_quotes(text: str, want: str) -> None:
    assert backquoted(text) == want


@pytest.mark.spark
@pytest.mark.parametrize("ansi, quotes", [("true", "true"), ("true", "false"), ("false", "true")])
def test_double_quotes_are_read_as_the_session_reads_them(spark: Any, ansi: str, quotes: str) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    left = spark.sql("SELECT id AS k, concat('r', id) AS a, 'x' AS `two words` FROM range(5)")
    right = spark.sql("SELECT id AS k, concat('r', id % 2) AS b FROM range(5)")
    texts = [
        'l.k = r.k AND "l"."a" = "r"."b"', "l.k = r.k AND a = \"r1\"", 'l.k = r.k AND "two words" = \'x\'',
        '(l.k = r.k) AND levenshtein(l.a, "b") < 2',
    ]
    names = 0
    with set_to(spark, ansi=ansi, quotes=quotes):
        for text in texts:
            try:
                native = left.alias("l").join(right.alias("r"), F.expr(text)).select("l.k", "r.b")
                want = Counter(map(tuple, native.collect()))
            except PySparkException:
                with pytest.raises((IvjoinError, PySparkException)):
                    left.band_join(right, condition=text)
                continue
            for given in (text, F.expr(text)):
                got = left.band_join(right, condition=given).selectExpr("k", "b")
                assert Counter(map(tuple, got.collect())) == want, text
                names += len(want)
    assert names > 0


@pytest.mark.spark
def test_orders_and_bounds_are_read_so_too(spark: Any) -> None:
    frame = spark.sql("SELECT id AS k, id AS `my time` FROM range(50)")
    asked: dict[str, Any] = {"on": "k", "condition": 'l."my time" <= "r"."my time"'}
    declared: dict[str, Any] = {"left_order": '"my time" + 1', "right_bounds": {'"my time"': (0, 50)}}
    with set_to(spark, quotes="true"):
        assert frame.band_join(frame, **asked, **declared).count() == 50
        assert "l.`my time` + 1" in explain(frame, frame, **asked, **declared)
    with pytest.raises(IvjoinError):
        frame.band_join(frame, **asked, how="left")


# -- time zone -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("zone", [3, "Mars/Olympus"])
def test_an_unknown_time_zone_is_named(spark: Any, zone: Any) -> None:
    from ivjoin.spark import multi_join

    frame = spark.sql("SELECT timestamp_seconds(id) AS ts FROM range(9)")
    with pytest.raises(IvjoinError, match="time ?zone.*expected a name such as"):
        frame.band_join(frame, on="ts", timezone=zone)
    with pytest.raises(IvjoinError, match="time ?zone.*expected a name such as"):
        multi_join({"a": frame, "b": frame}, "a.ts = b.ts", timezone=zone)


@pytest.mark.spark
def test_keys_of_local_times_meet_in_the_zone_of_the_join(spark: Any) -> None:
    """Spark would hash them in the session's."""
    local = spark.sql("SELECT timestamp_ntz'2024-01-01 09:00:00' + make_dt_interval(0, id) AS k, id AS t FROM range(9)")
    days = spark.sql("SELECT DATE'2024-01-01' + CAST(id AS INT) AS k FROM range(9)")
    hours = spark.sql("SELECT timestamp'2024-01-01 00:00:00Z' + make_dt_interval(0, id) AS k, id AS t FROM range(9)")
    nights = spark.sql("SELECT timestamp'2023-12-31 15:00:00Z' + make_dt_interval(CAST(id AS INT)) AS k FROM range(9)")
    band = "l.t BETWEEN r.t - 1 AND r.t + 1"
    assert local.band_join(hours, on="k", condition=band, timezone="Asia/Tokyo").count() == 9
    assert days.band_join(nights, on="k", timezone="Asia/Tokyo", routing="hash").count() == 9
    assert days.band_join(nights, on="k").count() == 0


def test_a_local_session_writes_checkpoints_without_processes_of_the_system(spark: Any) -> None:
    """The setting is a class that this Spark has, and what a session says by itself stands."""
    from ivjoin.spark.runtime.environment import CHECKPOINT_FILES, _write_checkpoints_directly

    name = spark.conf.get(CHECKPOINT_FILES)
    assert name.endswith(".FileSystemBasedCheckpointFileManager")
    assert spark.sparkContext._jvm.java.lang.Class.forName(name).getName() == name
    try:
        spark.conf.set(CHECKPOINT_FILES, "another")
        _write_checkpoints_directly(spark)
        assert spark.conf.get(CHECKPOINT_FILES) == "another"
        spark.conf.unset(CHECKPOINT_FILES)
        _write_checkpoints_directly(spark)
        assert spark.conf.get(CHECKPOINT_FILES) == name
    finally:
        spark.conf.set(CHECKPOINT_FILES, name)


@pytest.mark.spark
def test_a_session_keeps_to_the_file_of_defaults(tmp_path: Path) -> None:
    """In a process of its own: settings of a file, and a None, each in place of what would be set here."""
    (tmp_path / "spark-defaults.conf").write_text("""
# for all
spark.driver.memory 700m
spark.sql.execution.arrow.maxBytesPerBatch=4m
 spark.sql.shuffle.partitions : 3
spark.driver.extraJavaOptions -Dgiven.a=b \\
    -Dgiven.c=d
spark.executorEnv.ARROW_ENABLE_UNSAFE_MEMORY_ACCESS false
spark.driver.host no.such.host
""")
    asked = """
import json
from ivjoin.spark import session
from ivjoin.spark.runtime.environment import _defaults
assert _defaults()["spark.driver.extraJavaOptions"] == "-Dgiven.a=b -Dgiven.c=d"
spark = session("local[1]", spark__ui__enabled=False)
conf = dict(spark.sparkContext.getConf().getAll())
conf["bytes"] = spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
conf["java"] = spark._jvm.System.getProperty("given.c")
print(json.dumps(conf))
spark.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", asked], env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    conf = json.loads(done.stdout.splitlines()[-1])
    assert conf["bytes"] == "4m"
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf["spark.executorEnv.ARROW_ENABLE_UNSAFE_MEMORY_ACCESS"] == "false"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert conf["java"] == "d"


@pytest.mark.spark
def test_a_local_session_has_few_partitions() -> None:
    asked = """
from ivjoin.spark import session
spark = session("local[1]", spark__ui__enabled=False)
assert spark.conf.get("spark.sql.shuffle.partitions") == "16"
spark.stop()
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
