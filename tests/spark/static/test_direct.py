"""Static frames that are Parquet files on this machine: the tasks of a join read them by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F
from spark.every_type import DDL, select_list
from spark.script import rows_of
from spark.second_opinion import joined
from spark.static import BAND, HOWS, KEYED, UNKEYED, run, table

from ivjoin.files.atomic import FileError
from ivjoin.spark.localfiles import LocalFiles, files_here
from ivjoin.spark.schema import arrow_schema

pytestmark = pytest.mark.spark

PLAIN = "k, o, big, tiny, flag, f, d, dec, small, s, raw, day, ts, local"


def written(folder: Path, rows: pa.Table, parts: int = 3, **options: Any) -> str:
    folder.mkdir()
    for part in range(parts):
        begin, end = part * rows.num_rows // parts, (part + 1) * rows.num_rows // parts
        pq.write_table(rows.slice(begin, end - begin), folder / f"{part}.parquet", **options)
    return str(folder)


def is_direct(frame: Any) -> bool:
    return "FileScan" not in frame._jdf.queryExecution().executedPlan().toString()


def here(frame: Any) -> Any:
    return files_here(frame, arrow_schema(frame.schema, "UTC"))


@pytest.mark.parametrize("hot", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("how", HOWS)
def test_each_join_type_agrees_with_duckdb(spark: Any, tmp_path: Path, how: str, hot: float) -> None:
    a, b = (table(seed, hot, n=1500) for seed in (1, 2))
    left, right = (spark.read.parquet(written(tmp_path / name, t)) for name, t in (("l", a), ("r", b)))
    ways: list[dict[str, Any]] = [{"buckets": 5}]
    if hot == 0.7:
        ways += [{}, {"buckets": 2}, {"routing": "hash", "buckets": 3}]
    for on, columns in ((None, UNKEYED), ("k", KEYED)):
        expected = joined(a, b, how, BAND if on is None else f"l.k = r.k AND {BAND}", columns)
        for options in ways:
            seen = Observation()
            found = left.band_join(right, on=on, condition=BAND, how=how, name=seen, **options)
            assert is_direct(found)
            rows, tasks = run(found)
            assert rows == expected, options
            assert tasks <= options.get("buckets", 1)
            counts = seen.get
            assert counts["rows_out"] == sum(rows.values())
            if options.get("buckets") in (2, 5) and how in ("inner", "left", "right", "full"):
                assert tasks > 1, options
    if hot != 0.7:
        return
    far = "l.x <= r.x - 1900"
    grid = left.band_join(right, condition=far, how=how, buckets=4, routing="grid")
    assert is_direct(grid)
    assert run(grid)[0] == joined(a, b, how, far, UNKEYED)


def test_other_schemes_and_conditions(spark: Any, tmp_path: Path) -> None:
    a, b = (table(seed, 0.5, n=1500) for seed in (3, 4))
    left, right = (spark.read.parquet(written(tmp_path / name, t)) for name, t in (("l", a), ("r", b)))
    for condition in ("abs(l.x - r.x) <= 3 AND l.v < r.v", "l.x + 1 = r.x OR l.x = r.x + 1", "l.x > r.x + 1990"):
        for how in ("inner", "full", "left_anti"):
            found = left.band_join(right, condition=condition, how=how, buckets=4)
            assert is_direct(found)
            assert run(found)[0] == joined(a, b, how, condition, UNKEYED), (condition, how)


def test_every_plain_type_is_read_as_spark_reads_it(spark: Any, tmp_path: Path) -> None:
    """Written by Spark, timestamps as INT96 and as numbers; with years 1 and 9999, nulls and an empty part."""
    frame = spark.range(50).selectExpr(*select_list()).selectExpr(*PLAIN.split(", ")).union(
        spark.sql(
            "SELECT 0L, 0L, -9223372036854775808L, -128Y, true, -0.0F, double('inf'), NULL, NULL, '', X'', "
            "DATE '9999-12-31', TIMESTAMP '0001-01-01 00:00:00.000001Z', TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"
        )
    )
    for kind in ("INT96", "TIMESTAMP_MICROS"):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        try:
            frame.repartition(3).write.parquet(str(tmp_path / kind))
        finally:
            spark.conf.unset("spark.sql.parquet.outputTimestampType")
        stored = spark.read.parquet(str(tmp_path / kind))
        files, schema = here(stored), arrow_schema(stored.schema, "UTC")
        assert files is not None
        assert files.rows == 51
        got = pa.Table.from_batches(files.batches(schema), schema)
        assert rows_of(got) == rows_of(stored.toArrow().cast(schema))
        meet = stored.band_join(stored.selectExpr("o", "k"), condition="l.o = r.o AND l.k <= r.k", buckets=2)
        assert is_direct(meet)
        native = stored.alias("l").join(
            stored.selectExpr("o AS o_right", "k AS k_right").alias("r"),
            F.expr("l.o = r.o_right AND l.k <= r.k_right"),
        )
        assert rows_of(meet.toArrow()) == rows_of(native.toArrow().cast(meet.toArrow().schema))


def test_what_is_more_than_columns_of_files_is_left_to_spark(spark: Any, tmp_path: Path) -> None:
    rows = table(1, n=300)
    path = written(tmp_path / "plain", rows)
    plain = spark.read.parquet(path)
    assert here(plain) is not None
    assert here(plain.select("x", "v")) is not None, "columns of them, in any order"
    spark.range(9).selectExpr("id AS k", "id % 3 AS p").write.partitionBy("p").parquet(str(tmp_path / "partitioned"))
    spark.range(9).selectExpr(*select_list()).select("o", "arr", "st").write.parquet(str(tmp_path / "nested"))
    plain.write.json(str(tmp_path / "json"))
    others = {
        "filtered": plain.where("x > 3"), "computed": plain.selectExpr("x + 1 AS x", "k"), "united": plain.union(plain),
        "limited": plain.limit(5), "renamed": plain.toDF("a", "b", "c"), "local": spark.createDataFrame(rows),
        "partitioned": spark.read.parquet(str(tmp_path / "partitioned")),
        "nested": spark.read.parquet(str(tmp_path / "nested")), "json": spark.read.json(str(tmp_path / "json")),
        "other type": spark.read.schema("k string, x decimal(20,0), v long").parquet(path),
        "lacking": spark.read.schema("k string, x long, w long").parquet(path),
        "options": spark.read.option("datetimeRebaseMode", "LEGACY").parquet(path),
        "metadata": plain.select("*", "_metadata.file_name"),
    }  # fmt: skip
    assert {name: here(frame) for name, frame in others.items()} == dict.fromkeys(others)
    for name, value in (
        ("spark.sql.files.ignoreCorruptFiles", "true"), ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96RebaseModeInRead", "EXCEPTION"),
    ):  # fmt: skip
        before = spark.conf.get(name)
        spark.conf.set(name, value)
        try:
            assert here(plain) is None, name
        finally:
            spark.conf.set(name, before)
    cached = plain.cache()
    try:
        assert here(cached) is None, "what is kept may be older than the files"
    finally:
        cached.unpersist(blocking=True)
    assert here(plain) is not None


@pytest.mark.parametrize(
    ("version", "key"),
    [
        (b"3.2.0", b"org.apache.spark.legacyDateTime"), (b"3.2.0", b"org.apache.spark.legacyINT96"),
        (b"2.4.8", None), (b"3.0.3", None),
    ],
)  # fmt: skip
def test_files_of_old_writers_are_left_to_spark(
    spark: Any, tmp_path: Path, version: bytes, key: bytes | None
) -> None:
    """Their days before 1582 are of another calendar."""
    rows = pa.table({"k": [1, 2], "d": pa.array([-700_000, 3], pa.date32())})
    said = {b"org.apache.spark.version": version} | ({} if key is None else {key: b""})
    plain = rows.replace_schema_metadata({b"org.apache.spark.version": b"3.2.0"})
    assert here(spark.read.parquet(written(tmp_path / "new", rows))) is not None
    assert here(spark.read.parquet(written(tmp_path / "plain", plain))) is not None
    old = spark.read.parquet(written(tmp_path / "old", rows.replace_schema_metadata(said)))
    assert here(old) is None
    found = old.band_join(old.select("k"), condition="l.k = r.k AND l.k <= r.k").select("k", "d")
    assert rows_of(found.toArrow()) == rows_of(old.toArrow())


@pytest.mark.parametrize("how", ["inner", "full", "right_anti"])
def test_a_file_that_spark_reads_twice_is_read_twice(spark: Any, tmp_path: Path, how: str) -> None:
    rows = table(1, n=200)
    path = written(tmp_path / "l", rows, 2)
    right = spark.read.parquet(path)
    for paths, of_files in (((path, path), (0, 0, 1, 1)), ((path, f"{path}/1.parquet"), (0, 1, 1))):
        left = spark.read.parquet(*paths)
        twice = pa.concat_tables(pq.read_table(f"{path}/{i}.parquet") for i in of_files)
        assert left.count() == twice.num_rows
        found = left.band_join(right, condition=BAND, how=how, buckets=2)
        assert is_direct(found)
        assert run(found)[0] == joined(twice, rows, how, BAND, UNKEYED), paths


def test_files_that_spark_passes_over_are_not_read(spark: Any, tmp_path: Path) -> None:
    """Footers of all files in one, hidden files; also where they are named."""
    rows = table(1, n=200)
    path = written(tmp_path / "l", rows, 2)
    footers: list[Any] = []
    pq.write_table(rows, tmp_path / "l" / "2.parquet", metadata_collector=footers)
    footers[0].set_file_path("2.parquet")
    pq.write_metadata(rows.schema, tmp_path / "l" / "_metadata", footers)
    pq.write_table(rows, tmp_path / "l" / "_3.parquet")
    pq.write_table(rows, tmp_path / "l" / ".4.parquet")
    read = spark.read.schema("k string, x long, v long")
    frames = [spark.read.parquet(path), *(read.parquet(f"{path}/{name}") for name in ("_3.parquet", ".4.parquet"))]
    for frame, count in zip(frames, (400, 0, 0), strict=True):
        assert frame.count() == count
        files = here(frame)
        assert files is not None
        assert files.rows == count
        found = frame.band_join(frames[0], on="v", condition="l.x = r.x")
        assert is_direct(found)
        assert found.count() == 2 * frame.where("x IS NOT NULL").count()


def test_frames_without_columns_keep_their_rows(spark: Any, tmp_path: Path) -> None:
    rows = table(1, n=40)
    frame = spark.read.parquet(written(tmp_path / "l", rows))
    few = "r.v < 3"
    for how, count in (("inner", 120), ("left", 120), ("full", 157)):
        assert frame.select().band_join(frame, condition=few, how=how).count() == count, how
    assert frame.band_join(frame.select(), condition="l.v < 3", how="right").count() == 120


def test_differences_of_32_bits_are_left_to_spark(spark: Any, tmp_path: Path) -> None:
    """DuckDB writes some that take 33 bits, which pyarrow does not read."""
    far = [(-1) ** i * ((1 << 31) - 1 - i) for i in range(300)]
    rows = pa.table({"x": pa.array(far, pa.int32()), "v": range(300)})
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.register("rows", rows)
        db.sql(f"COPY (FROM rows) TO '{tmp_path / 'd.parquet'}' (FORMAT parquet, PARQUET_VERSION v2)")
    frame = spark.read.parquet(str(tmp_path / "d.parquet"))
    assert "DELTA_BINARY_PACKED" in pq.read_metadata(tmp_path / "d.parquet").row_group(0).column(0).encodings
    assert here(frame) is None
    assert here(frame.select("v")) is not None
    found = frame.band_join(frame.select("v"), on="v")
    assert rows_of(found.select("x", "v").toArrow()) == rows_of(rows)


def test_types_that_pyarrow_and_spark_call_otherwise(spark: Any, tmp_path: Path) -> None:
    n = pa.array([1, 2, 3])
    others = {
        "unsigned": n.cast(pa.uint32()), "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
        "milliseconds": n.cast(pa.timestamp("ms", "UTC")), "large text": pa.array(["a", "b", "c"], pa.large_string()),
        "decimal 256": n.cast(pa.decimal256(38, 2)),
    }  # fmt: skip
    for name, column in others.items():
        frame = spark.read.parquet(written(tmp_path / name, pa.table({"k": n, "c": column}), 1))
        found = frame.band_join(frame.selectExpr("k"), condition="l.k = r.k AND l.k <= r.k")
        native = spark.sql("SELECT l.k, l.c, r.k AS k_right FROM {f} l JOIN {f} r ON l.k = r.k", f=frame)
        assert rows_of(found.toArrow()) == rows_of(native.toArrow()), name


def test_what_a_task_would_hold_is_measured_in_memory(spark: Any, tmp_path: Path) -> None:
    """One long text that all rows refer to takes next to nothing in a file."""
    rows = pa.table({"k": np.arange(3000), "s": ["ä" * 30_000] * 3000})
    frame = spark.read.parquet(written(tmp_path / "wide", rows, 1))
    assert sum(path.stat().st_size for path in (tmp_path / "wide").iterdir()) < 1 << 20
    assert here(frame) is None
    found = here(frame.select("k"))
    assert found is not None
    assert found.rows == 3000
    assert here(spark.read.parquet(written(tmp_path / "none", rows.slice(0, 0), 2))).rows == 0


@pytest.mark.parametrize("parts", [1, 2])
def test_short_rows_before_long_ones_do_not_hide_them(spark: Any, tmp_path: Path, parts: int) -> None:
    rng = np.random.default_rng(1)
    long = [rng.bytes(50_000) for _ in range(100)]
    rows = pa.table({"k": np.arange(18_000), "s": [b""] * 9000 + long * 90})
    (tmp_path / "l").mkdir()
    for part in range(parts):
        own = rows.slice(part * 9000, 9000 if parts == 2 else None)
        pq.write_table(own, tmp_path / "l" / f"{part}.parquet", use_dictionary=False, row_group_size=9000)
    assert here(spark.read.parquet(str(tmp_path / "l"))) is None


def test_names_that_are_the_other_sides_and_odd_ones(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    odd = pa.table({"a.b": rng.integers(0, 50, 200), "K": rng.integers(0, 3, 200), "ä `q`": np.arange(200)})
    other = odd.rename_columns(["a.b", "k", "v"])
    left, right = (spark.read.parquet(written(tmp_path / name, t)) for name, t in (("l", odd), ("r", other)))
    found = left.band_join(right, on="k", condition="l.`a.b` BETWEEN r.`a.b` - 1 AND r.`a.b`", buckets=2)
    assert is_direct(found)
    expected = joined(
        odd, other, "inner", 'l."K" = r.k AND l."a.b" BETWEEN r."a.b" - 1 AND r."a.b"',
        'l."a.b", l."K", l."ä `q`", r."a.b" AS x, r.v',
    )  # fmt: skip
    assert rows_of(found.toArrow()) == expected


def test_a_limit_of_memory_and_many_tasks_are_sparks(spark: Any, tmp_path: Path) -> None:
    rows = table(1, n=400)
    left = spark.read.parquet(written(tmp_path / "l", rows))
    assert is_direct(left.band_join(left, on="k", condition=BAND))
    for options in ({"memory_limit": "64MB"}, {"buckets": 9}):
        assert not is_direct(left.band_join(left, on="k", condition=BAND, **options)), options


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("on", [None, "k"])
def test_aggregates_and_picks_are_those_of_rows(spark: Any, tmp_path: Path, on: str | None, how: str) -> None:
    """As the join of the same rows gives them that are no files."""
    a, b = (table(seed, 0.6, n=700) for seed in (6, 7))
    left, right = (spark.read.parquet(written(tmp_path / name, t)) for name, t in (("l", a), ("r", b)))
    rows = spark.createDataFrame(a), spark.createDataFrame(b)
    for options in (
        {"aggregate": {"n": ("*", "count"), "most": ("v", "max"), "sum": ("x", "sum")}},
        {"pick": "last", "pick_by": ["x", "v"]}, {"pick": "first", "pick_by": ["v"]},
    ):  # fmt: skip
        found = left.band_join(right, on=on, condition=BAND, how=how, buckets=3, **options)
        assert is_direct(found), options
        assert rows_of(found.toArrow()) == rows_of(
            rows[0].band_join(rows[1], on=on, condition=BAND, how=how, **options).toArrow()
        ), options
    near = left.where("x IS NOT NULL").toArrow(), right.where("x IS NOT NULL").toArrow()
    frames = [spark.read.parquet(written(tmp_path / f"near {i}", t)) for i, t in enumerate(near)]
    found = frames[0].asof_join(frames[1], on="x", by=on, direction="nearest", buckets=2, how=how)
    assert is_direct(found)
    others = [spark.createDataFrame(t) for t in near]
    want = others[0].asof_join(others[1], on="x", by=on, direction="nearest", how=how)
    # of right rows that are as near, either may be taken
    keep = ["k", "x", "v", "abs(x - x_right) AS distance"]
    assert rows_of(found.selectExpr(keep).toArrow()) == rows_of(want.selectExpr(keep).toArrow())


def test_explain_says_who_reads(spark: Any, tmp_path: Path) -> None:
    from ivjoin.spark import explain

    rows = table(1, n=3000)
    left = spark.read.parquet(written(tmp_path / "l", rows))
    text = explain(left, left, condition=BAND, buckets=2)
    assert "each of 2 tasks reads the files of both frames (3,000 and 3,000 rows) by itself" in text
    assert "2 workers" in text
    text = explain(left, left, on="k", condition=BAND)
    assert "one task reads the files of both frames (3,000 and 3,000 rows) by itself, since there are few rows" in text
    assert "; sorted by l.x and r.x" in text
    text = explain(left, left, condition="l.v <> r.v", routing="hash", buckets=2)
    assert "by itself, since routing is 'hash', and there is no key that both sides share; in any order" in text


def test_files_that_have_gone_are_named(spark: Any, tmp_path: Path) -> None:
    left = spark.read.parquet(written(tmp_path / "l", table(1, n=300)))
    found = left.band_join(left, on="k", condition=BAND)
    for path in (tmp_path / "l").iterdir():
        path.unlink()
    with pytest.raises(Exception, match=r"\d\.parquet"):
        found.toArrow()


@pytest.mark.parametrize("rows", [
    pytest.param(pa.table({"k": ["1", "2"], "x": [1.5, 2.0], "v": [1, 2]}), id="another type"),
    pytest.param(pa.table({"k": ["1", "2"], "v": [1, 2]}), id="a column less"),
    pytest.param(table(1, n=30).take(pa.array(range(30)[::-1])), id="the same rows in another order"),
])  # fmt: skip
def test_a_file_that_changed_is_named(spark: Any, tmp_path: Path, rows: pa.Table) -> None:
    """Tasks that saw two versions of it would lose rows and double others."""
    left = spark.read.parquet(written(tmp_path / "l", table(1, n=30), 1))
    found = left.band_join(left, on="k", condition=BAND)
    pq.write_table(rows, tmp_path / "l" / "0.parquet")
    with pytest.raises(Exception, match=r"the file .*0\.parquet.* has changed since the join was made"):
        found.toArrow()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    pq.write_table(table(1, n=300), path)
    path.write_bytes(path.read_bytes()[:500])
    seen = path.stat()
    files = LocalFiles((str(path),), ("k", "x", "v"), 300, ((seen.st_size, seen.st_mtime_ns),))
    with pytest.raises(FileError, match=r"cannot read '.*cut\.parquet': "):
        list(files.batches(table(1).schema))


def test_columns_that_differ_by_case_are_left_to_spark(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2], "x": [1, 2], "X": [3, 4]})
    assert here(spark.read.schema("k long, x long").parquet(written(tmp_path / "l", rows, 1))) is None


def test_int96_is_sampled_as_it_is_read(spark: Any, tmp_path: Path) -> None:
    """Of years that nanoseconds cannot hold, too."""
    ts = "TIMESTAMP '9999-12-31 00:00:00Z' - make_interval(0, 0, 0, 0, 0, 0, id) AS ts"
    left = spark.range(200).selectExpr(ts, "id")
    left.write.parquet(str(tmp_path / "l"))
    left = spark.read.parquet(str(tmp_path / "l"))
    found = left.band_join(left, condition="l.ts BETWEEN r.ts AND r.ts + INTERVAL 2 SECONDS", buckets=2)
    assert is_direct(found)
    assert run(found)[0].total() == 200 + 199 + 198


def test_ddl_names_the_plain_types() -> None:
    assert all(f"{name} " in DDL for name in PLAIN.split(", "))
