"""``write_stream`` on Spark: every join type and format, restarts, kills, concurrent readers, and later queries."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from oracle import HOWS
from places import ROOT
from spark.backends import BACKENDS, store_for
from spark.decisions import BAND, ROWS
from spark.killed import kill_once, started
from spark.recovery import NUMBERED, band, expected, rows
from spark.script import Script, StreamFailed, rows_of, worker_error
from spark.second_opinion import joined as opinion
from spark.tiers import short

pytestmark = pytest.mark.spark

FORMATS: list[dict[str, Any]] = [
    {}, {"format": "ipc"}, {"format": "delta"}, {"partition_by": "g"}, {"compression": "zstd", "statistics": False},
    {"file_rows": 5}, {"format": "delta", "partition_by": ["g"]}, {"format": "ipc", "partition_by": ["g"]},
]  # fmt: skip


def written(path: Path, given: dict[str, Any]) -> pa.Table:
    """All that a sink holds, as its readers find it."""
    from ivjoin.spark import published_files

    if given.get("format") == "delta":
        deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
        return pa.table(deltalake.DeltaTable(path).to_pyarrow_dataset().to_table())
    form = "ipc" if given.get("format") == "ipc" else "parquet"
    return ds.dataset(
        published_files(path), format=form, partitioning="hive" if "partition_by" in given else None,
        partition_base_dir=str(path),
    ).to_table()


def run(query: Any) -> None:
    try:
        assert query.awaitTermination(300)
    except Exception as e:
        raise StreamFailed(worker_error(str(e))) from None


@pytest.mark.parametrize("how, given", [
    pytest.param(h, f, id=f"{h} {f}", marks=[short] * (h == "left")) for h, f in zip(HOWS, FORMATS, strict=True)
])  # fmt: skip
def test_every_join_type_and_format(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, given: dict[str, Any]
) -> None:
    from ivjoin.spark import metrics, write_stream
    from ivjoin.spark.sink import arguments

    if HOWS.index(how) % 2:
        monkeypatch.setattr(arguments, "_INLINE_BYTES", 0)  # the workers write, however little it is
    backend = BACKENDS[HOWS.index(how) in (1, 4)]
    marked = ROWS.append(pa.field("g", pa.string()))
    columns = "coalesce(l.k, r.k) AS k, l.t, l.v, l.g, r.t AS t_right, r.v AS v_right, r.g AS g_right"

    def join(a: Any, b: Any) -> Any:
        orders = {"left_order": "t", "right_order": "t"}
        return a.band_join(b, on="k", condition=BAND, how=how, buckets=2, backend=backend, **orders)

    script = Script(spark, tmp_path, join, marked, marked)
    sides = [
        [(None if i % 7 == 0 else i % 3, i // 2, i, "ab/ä"[i % 4]) for i in range(40)],
        [(i % 4, i, i, None if i % 5 == 0 else "x") for i in range(25)],
    ]
    ends = [[(-1, 10_000, -1, "end")], [(-2, 10_000, -2, "end")]]
    script.add(left=sides[0] + ends[0], right=sides[1] + ends[1])
    with store_for(spark, backend):
        out = join(script.source("left"), script.source("right"))
        query = write_stream(out, tmp_path / "out", tmp_path / "checkpoint", trigger="availableNow", **given)
        run(query)
    tables = [script._table(side, sides[i] + ends[i]) for i, side in enumerate(("left", "right"))]
    want = opinion(*tables, how, f"l.k = r.k AND {BAND}", columns)
    for _ in ends:  # the last rows of each side wait
        want -= Counter({row: n for row, n in want.items() if {10_000, "end"} <= set(row)})
    got = written(tmp_path / "out", given)
    assert rows_of(got.select(out.columns)) == want
    assert metrics(query)[-1]["rows_out"] == sum(want.values())
    if given.get("format", "parquet") == "parquet":
        seen = spark.read.parquet(str(tmp_path / "out"))
        assert rows_of(seen.select(out.columns).toArrow()) == want
        if "partition_by" not in given:
            assert seen.schema == out.schema


def numbered(spark: Any, folder: Path, batches: int) -> tuple[Script, list[Any], Counter[Any]]:
    """Micro-batches of 20 rows a side, and what the left join of all of them has to give, in all and by micro-batch."""
    script = Script(spark, folder, band, NUMBERED, NUMBERED)
    left = [r for b in range(batches) for r in rows(b)]
    right = [r for r in left if r[0] != 4]
    sums, before = [], Counter[Any]()
    for b in range(batches):
        script.add(left=rows(b), right=[r for r in rows(b) if r[0] != 4])
        n = 20 * (b + 1)
        now = expected(left[:n], [r for r in right if r[1] < n], max(t for _, t in right if t < n))
        sums.append(now)
        before = now
    return script, sums, before


def test_a_reader_sees_whole_micro_batches_and_each_once_though_one_is_done_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query fails after it has published, before Spark notes that; meanwhile a plain reader reads what there is."""
    from ivjoin.spark import write_stream
    from ivjoin.spark.sink import arguments
    from ivjoin.spark.sink.publishing import Folder

    monkeypatch.setattr(arguments, "_INLINE_BYTES", 0)
    script, sums, everything = numbered(spark, tmp_path, 5)
    out = tmp_path / "out"
    seen, done = [], threading.Event()

    def look_on() -> None:
        while not done.is_set():
            if any(out.glob("*.parquet")):
                seen.append(rows_of(ds.dataset(str(out), format="parquet").to_table()))
            time.sleep(0.005)

    publish = Folder.publish

    def failing(self: Any, query: str, batch: int, parts: Any) -> None:
        publish(self, query, batch, parts)
        if batch == 2:
            raise OSError("the disk is gone")

    reader = threading.Thread(target=look_on)
    reader.start()
    try:
        with monkeypatch.context() as broken:
            broken.setattr(Folder, "publish", failing)
            with pytest.raises(StreamFailed, match="the disk is gone"):
                run(write_stream(script.join(script.source("left"), script.source("right")), out, tmp_path / "c",
                                 trigger={"availableNow": True}))  # fmt: skip
        query = write_stream(
            script.join(script.source("left"), script.source("right")), out, tmp_path / "c", trigger="availableNow",
            query_name="again",
        )
        run(query)
        assert query.name == "again"
    finally:
        done.set()
        reader.join()
    assert rows_of(ds.dataset(str(out), format="parquet").to_table()) == everything
    assert [p["batchId"] for p in query.recentProgress if p["numInputRows"]] == [2, 3, 4]
    assert len(seen) > 3
    assert all(look in sums for look in seen)
    assert len(list(out.glob("*.parquet"))) == 5


QUERY = """
from ivjoin.spark import write_stream
from ivjoin.spark.sink import arguments
from spark.recovery import NUMBERED, band
arguments._INLINE_BYTES = 0
script = Script(s, folder, band, NUMBERED, NUMBERED)
joined = band(script.source("left"), script.source("right"))
write_stream(joined, folder / "out", folder / "c", partition_by="k").awaitTermination()
"""


@pytest.mark.soak
def test_the_driver_killed_while_it_runs(spark: Any, tmp_path: Path) -> None:
    from ivjoin.spark import write_stream

    script, _, everything = numbered(spark, tmp_path, 5)
    kill_once((tmp_path / "out/_spark_metadata/1").exists, started(tmp_path, QUERY))
    given = {"partition_by": "k"}
    begun = sum(rows_of(written(tmp_path / "out", given)).values())
    assert 0 < begun < sum(everything.values())
    joined = script.join(script.source("left"), script.source("right"))
    run(write_stream(joined, tmp_path / "out", tmp_path / "c", trigger="availableNow", **given))
    assert rows_of(written(tmp_path / "out", given).select(["k", "t", "t_right"])) == everything


def test_queries_that_continue_after_the_join(spark: Any, tmp_path: Path) -> None:
    """Columns travel with the join; for a filter or a computed column rows go through Spark. None is forgotten."""
    from pyspark.sql import functions as F

    from ivjoin.spark import explain, write_stream

    script, _, everything = numbered(spark, tmp_path, 1)
    joined = script.join(script.source("left"), script.source("right"))
    ways = {
        "columns": joined.select("t_right", F.col("k").alias("key")).alias("x").drop("none"),
        "filter": joined.where("k = 1").withColumn("d", F.col("t") - F.col("t_right")),
    }
    lines = {name: explain(frame).splitlines()[-1] for name, frame in ways.items()}
    assert "as Arrow, in the workers that join" in lines["columns"]
    assert "through Spark before they are written, since a computed column follows" in lines["filter"]
    assert "since a filter follows" in explain(joined.where("k = 1"))
    for name, frame in ways.items():
        run(write_stream(frame, tmp_path / name, tmp_path / f"c{name}", trigger="availableNow"))
    got = written(tmp_path / "columns", {})
    assert got.schema.names == ["t_right", "key"]
    assert rows_of(got) == Counter((u, k) for k, _, u in everything.elements())
    want = Counter((k, t, u, t - u) for k, t, u in everything.elements() if k == 1)
    assert rows_of(written(tmp_path / "filter", {})) == want
    assert want


def test_a_query_has_no_more_state_partitions_than_buckets(spark: Any, tmp_path: Path) -> None:
    from ivjoin.spark import write_stream

    script, _, everything = numbered(spark, tmp_path, 1)
    name, before = "spark.sql.shuffle.partitions", spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set(name, "30")
    try:
        left, right = script.source("left"), script.source("right")
        run(write_stream(band(left, right, buckets=None), tmp_path / "out", tmp_path / "c", trigger="availableNow"))
        assert spark.conf.get(name) == "30"
    finally:
        spark.conf.set(name, before)
    assert f'"{name}":"16"' in (tmp_path / "c" / "offsets" / "0").read_text()
    assert rows_of(written(tmp_path / "out", {}).select(["k", "t", "t_right"])) == everything


def test_columns_of_any_name_go_through_spark(spark: Any, tmp_path: Path) -> None:
    """A dot is no field and a backtick no quote, where a filter follows a join, nor of a join of many inputs."""
    from ivjoin.spark import multi_join, write_stream

    script, _, everything = numbered(spark, tmp_path, 1)
    left, right = script.source("left"), script.source("right")
    joined = script.join(left, right).where("k = 1").select("k", "t", "t_right").toDF("a.k", "t`s", "t s")
    run(write_stream(joined, tmp_path / "pairs", tmp_path / "c", trigger="availableNow"))
    got = written(tmp_path / "pairs", {})
    assert got.schema.names == ["a.k", "t`s", "t s"]
    assert rows_of(got) == Counter(row for row in everything.elements() if row[0] == 1) != Counter()
    dotted = {"a": left.withColumnRenamed("t", "t.s"), "b": right.withColumnRenamed("t", "t`s")}
    many = multi_join(dotted, "a.k = b.k AND a.`t.s` = b.`t``s`", columns=["a_k", "a_t.s", "b_t`s"])
    run(write_stream(many, tmp_path / "many", tmp_path / "c2", trigger="availableNow"))
    many_rows = written(tmp_path / "many", {})
    assert many_rows.schema.names == ["a_k", "a_t.s", "b_t`s"]
    want = Counter(row for row in everything.elements() if None not in row and row[1] == row[2])
    assert rows_of(many_rows) == want != Counter()


def test_mistakes_are_named_before_the_query_starts(spark: Any, tmp_path: Path) -> None:
    from ivjoin.errors import IvjoinError
    from ivjoin.spark import explain, write_stream

    script = Script(spark, tmp_path, band, NUMBERED, NUMBERED)
    joined = script.join(script.source("left"), script.source("right"))
    where = (tmp_path / "out", tmp_path / "c")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"format": "orc"}, "format is 'orc'; expected one of 'parquet', 'delta', 'ipc'"),
        ({"format": "ipc", "compression": "snappy"}, "compression is 'snappy'; of format='ipc' expected one of 'none'"),
        ({"partition_by": "z"}, "partition_by names 'z', which is no column of the rows: k, t, t_right"),
        ({"partition_by": ["k", "t", "t_right"]}, "one left over"),
        ({"statistics": ["z"]}, "statistics names 'z'"),
        ({"row_group_size": 0}, "row_group_size is 0; expected a whole number from 1 on"),
        ({"file_rows": True}, "file_rows is True"),
        ({"trigger": "sometimes"}, "trigger is 'sometimes'; expected 'availableNow'"),
        ({"trigger": {"continuous": "1 second"}}, "continuous processing cannot join"),
        ({"checkpoint_location": None}, "checkpoint_location is not given"),
    ]
    for given, said in wrong:
        with pytest.raises(IvjoinError, match=said):
            write_stream(joined, **{"path": where[0], "checkpoint_location": where[1], **given})
    with pytest.raises(IvjoinError, match="path is 's3://b/x'.*mounted"):
        write_stream(joined, "s3://b/x", where[1])
    with pytest.raises(IvjoinError, match="joined is a static frame.*joined.write"):
        write_stream(spark.range(3), *where)
    with pytest.raises(IvjoinError, match="does not come from band_join"):
        explain(spark.range(3))
    assert not (tmp_path / "c").exists()


def test_the_documented_chain_is_built(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    import ivjoin.spark

    page = (ROOT / "docs/guides/spark-order-and-watermarks.md").read_text()
    section = page[page.index("## After a join") :]
    names: dict[str, Any] = {"F": F, "ivjoin": ivjoin}
    for name, ddl in (("clicks", "ts timestamp"), ("views", "ts timestamp"), ("orders", "at timestamp")):
        (tmp_path / name).mkdir()
        names[name] = spark.readStream.schema(f"user long, {ddl}").parquet(str(tmp_path / name))
    with store_for(spark, BACKENDS[1]):
        for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            exec(code, names)
    assert names["trips"].columns == ["user", "ts", "ts_right", "at"]
    assert names["hourly"].isStreaming


def test_the_documented_examples(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's code in its order, its folders below another; Kafka's part with rows that have Kafka's columns."""
    page = (ROOT / "docs/guides/spark-sink.md").read_text()
    for folder, row in (("clicks", "12:00:00' AS ts, 'home' AS page"), ("views", "11:30:00' AS ts, 'shoes' AS ad")):
        spark.sql(f"SELECT 1L AS user, timestamp'2024-01-01 {row}").write.parquet(f"{tmp_path}/{folder}")
    read = spark.readStream
    names: dict[str, Any] = {
        "spark": spark, "clicks": read.schema("user long, ts timestamp, page string").parquet(f"{tmp_path}/clicks"),
        "views": read.schema("user long, ts timestamp, ad string").parquet(f"{tmp_path}/views"),
    }
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(re.sub(r'"(matches|backfill|late|[a-z-]*checkpoint)", ', rf'"{tmp_path}/\1", ', code), names)
    said = capsys.readouterr().out
    for line in re.findall(r"^    (write_stream: .*)$", page, re.MULTILINE):
        assert line in said
    for folder in ("matches", "backfill"):
        assert ds.dataset(tmp_path / folder).to_table().select(["user", "page", "ad"]).to_pylist() == [
            {"user": 1, "page": "home", "ad": "shoes"}
        ]
    for _ in range(300):  # the listener hears of it later
        said += capsys.readouterr().out
        if "ended" in said:
            break
        time.sleep(0.1)
    spark.streams.removeListener(names["watch"])
    assert "\n0 1 0 " in said
    assert "ended well" in said
    line = b'{"user": 7, "ts": "2024-01-01T00:00:00Z", "page": "x"}'
    raw = spark.createDataFrame([(None, line)], "key binary, value binary")
    out = names["packed"](names["opened"](raw)).collect()
    assert [(r.key, r.value) for r in out] == [("7", '{"user":7,"ts":"2024-01-01T00:00:00.000Z","page":"x"}')]
