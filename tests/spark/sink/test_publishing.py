"""Publishing without Spark: a process killed with -9 at every step of it, and the micro-batch done again."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.errors import IvjoinError, UnsupportedError
from ivjoin.spark import published_files
from ivjoin.spark.sink import parts as parts_module
from ivjoin.spark.sink.deltatable import DeltaFolder, delta_schema
from ivjoin.spark.sink.layout import Layout, delta_stats, hive_folders, partition_of
from ivjoin.spark.sink.parts import Part
from ivjoin.spark.sink.publishing import Folder
from ivjoin.spark.sink.sinklog import SinkLog

SCHEMA = pa.schema([("batch", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
QUERY = "11111111-2222"
KEYS = ["a", "b/c", None, "x=y %", "\u00e4"]
LAYOUTS: dict[str, dict[str, Any]] = {
    "parquet": {}, "few rows": {"inline_bytes": 1 << 20}, "ipc": {"format": "ipc", "compression": "lz4"},
    "partitions": {"partition_by": ("k",)}, "small files": {"file_rows": 3, "inline_bytes": 300},
    "ipc partitions": {"format": "ipc", "partition_by": ("k",)},
}  # fmt: skip


def layout(folder: Path, **changed: Any) -> Layout:
    given: dict[str, Any] = {"format": "parquet", "schema": SCHEMA, "inline_bytes": 0}
    given |= changed
    staging = folder if given["format"] == "delta" else folder / "_staging" / "checkpoint"
    return Layout(str(folder), str(staging), **given)


def batch_rows(batch: int, turn: int) -> pa.RecordBatch:
    n = [batch * 100 + turn * 10 + i for i in range(10 if turn else 4)]
    return pa.RecordBatch.from_pydict({"batch": [batch] * len(n), "k": [KEYS[i % 5] for i in n], "v": n}, SCHEMA)


def parts(given: Layout, batch: int) -> list[Part]:
    """What three turns bring; the third has no rows."""
    out = []
    for turn in range(2):
        rows = batch_rows(batch, turn)
        pieces = iter([rows.slice(0, 0), rows.slice(0, 3), rows.slice(3)])
        out.append(parts_module.written(given, pieces, str(turn)))
    assert parts_module.written(given, iter([]), "2") is None
    return [p for p in out if p is not None]


def whole(batch: int) -> Counter[Any]:
    rows = [r for turn in range(2) for r in batch_rows(batch, turn).to_pylist()]
    return Counter((r["batch"], r["k"], r["v"]) for r in rows)


def read(given: Layout, files: list[str]) -> Counter[Any]:
    if not files:
        return Counter()
    found = ds.dataset(
        files, schema=SCHEMA, format="ipc" if given.format == "ipc" else "parquet",
        partition_base_dir=given.folder, partitioning=ds.HivePartitioning(pa.schema([("k", pa.string())])),
    )
    return Counter((r["batch"], r["k"], r["v"]) for r in found.to_table().to_pylist())


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Do the work in a process of its own that is killed at its n-th call to the file system; whether it was."""
    pid = os.fork()
    if pid == 0:
        seen = 0

        def count(event: str, _: Any) -> None:
            nonlocal seen
            if event.startswith(("os.", "shutil.")) or event == "open":
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_killed_at_every_step_and_done_again(tmp_path: Path, name: str) -> None:
    steps = 0
    # with partitions there are more files than ways to fail
    for step in range(1, 200, 6 if "partitions" in name else 1):
        given = layout(tmp_path / str(step), **LAYOUTS[name])
        folder = Folder(given, compact_interval=2)
        folder.check()
        folder.publish(QUERY, 0, parts(given, 0))
        staged = parts(given, 1)
        killed = killed_at(step, lambda f=folder, p=staged: f.publish(QUERY, 1, p))  # type: ignore[misc]
        # Readers see the micro-batch or nothing of it, also while nobody does it again.
        assert read(given, published_files(given.folder)) in (whole(0), whole(0) + whole(1)), step
        if not given.logged:
            assert len(list(Path(given.folder).glob(f"*{given.suffix}"))) in (1, 2)
        again = Folder(given, compact_interval=2)
        again.check()
        again.publish(QUERY, 1, parts(given, 1))
        again.publish(QUERY, 2, parts(given, 2))
        assert read(given, published_files(given.folder)) == whole(0) + whole(1) + whole(2), step
        assert not Path(given.folder, "_staging").exists(), step
        everything = [str(p) for p in Path(given.folder).rglob(f"*{given.suffix}")]
        assert sorted(everything) == sorted(published_files(given.folder)), step
        steps += killed
        if not killed:
            break
    assert steps >= 4
    assert not killed


@pytest.mark.parametrize("name", ["parquet", "partitions"])
def test_a_micro_batch_done_again_changes_nothing(tmp_path: Path, name: str) -> None:
    given = layout(tmp_path, **LAYOUTS[name])
    for _ in range(3):
        folder = Folder(given)
        folder.check()
        folder.publish(QUERY, 0, parts(given, 0))
        folder.publish(QUERY, 0, parts(given, 0))
    assert read(given, published_files(tmp_path)) == whole(0)
    assert not (tmp_path / "_staging").exists()


def test_micro_batches_without_rows_leave_no_gap_in_the_log(tmp_path: Path) -> None:
    given = layout(tmp_path, partition_by=("k",))
    folder = Folder(given, compact_interval=4)
    folder.check()
    for batch in range(5, 11):  # the query had another sink before
        folder.publish(QUERY, batch, parts(given, batch) if batch % 2 else [])
    names = sorted(p.name for p in (tmp_path / "_spark_metadata").iterdir() if p.name[0] != ".")
    assert names == sorted(["3.compact", "4", "5", "6", "7.compact", "8", "9", "10"])
    assert read(given, published_files(tmp_path)) == whole(5) + whole(7) + whole(9)


def test_two_queries_in_a_folder(tmp_path: Path) -> None:
    """A file a micro-batch: they may share it. With a log each query needs its own."""
    given = layout(tmp_path / "one")
    for query in ("aaaa-1", "bbbb-2"):
        Folder(given).check()
        Folder(given).publish(query, 0, parts(given, 0))
    assert read(given, published_files(given.folder)) == whole(0) + whole(0)
    given = layout(tmp_path / "two", partition_by=("k",))
    Folder(given).check()
    Folder(given).publish("aaaa-1", 0, parts(given, 0))
    with pytest.raises(IvjoinError, match="another query.*each query and checkpoint has a folder"):
        Folder(given).publish("bbbb-2", 0, parts(given, 0))
    with pytest.raises(IvjoinError, match="those between were written elsewhere"):
        Folder(given).publish("aaaa-1", 4, parts(given, 4))


@pytest.mark.parametrize("batches", [1, 3])
def test_a_log_without_rows_is_a_querys_own(tmp_path: Path, batches: int) -> None:
    """Another query's first micro-batch is not taken for one of those without rows that the log has."""
    given = layout(tmp_path, partition_by=("k",))
    for batch in range(batches):
        Folder(given).publish("aaaa-1", batch, [])
    with pytest.raises(IvjoinError, match="another query.*each query and checkpoint has a folder"):
        Folder(given).publish("bbbb-2", 0, parts(given, 0))
    Folder(given).publish("aaaa-1", batches - 1, parts(given, batches - 1))  # done again: it had none
    Folder(given).publish("aaaa-1", batches, parts(given, batches))
    assert read(given, published_files(tmp_path)) == whole(batches)


def test_a_log_of_spark_s_own_sink(tmp_path: Path) -> None:
    """A query that wrote with it goes on from its last micro-batch; any other one would miss rows."""
    given = layout(tmp_path, partition_by=("k",))
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for batch in range(3):
        file = tmp_path / f"part-0000{batch}-7d5c-c000.snappy.parquet"
        pq.write_table(pa.table({"batch": [batch], "v": [batch]}), file)
        (log / str(batch)).write_text(f'v1\n{{"path":"{file.as_uri()}"}}')
    for batch in (0, 1):
        with pytest.raises(IvjoinError, match="another query"):
            Folder(given).publish(QUERY, batch, parts(given, batch))
    Folder(given).publish(QUERY, 2, parts(given, 2))
    assert len(published_files(tmp_path)) == 3
    Folder(given).publish(QUERY, 3, parts(given, 3))
    assert read(given, published_files(tmp_path)[3:]) == whole(3)


def test_folders_whose_readers_would_miss_files_are_refused(tmp_path: Path) -> None:
    one = layout(tmp_path / "one")
    Folder(one).publish(QUERY, 0, parts(one, 0))
    with pytest.raises(IvjoinError, match="no log names"):
        Folder(layout(tmp_path / "one", partition_by=("k",))).check()
    two = layout(tmp_path / "two", partition_by=("k",))
    Folder(two).publish(QUERY, 0, parts(two, 0))
    with pytest.raises(IvjoinError, match="log of a file sink"):
        Folder(layout(tmp_path / "two")).check()
    for other in (layout(tmp_path / "one", format="ipc"), layout(tmp_path / "two", format="ipc", partition_by=("k",))):
        with pytest.raises(IvjoinError, match="has files of another format than 'ipc'"):
            Folder(other).check()
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    with pytest.raises(IvjoinError, match="has files of another format than 'parquet'"):
        Folder(layout(tmp_path / "table")).check()
    (tmp_path / "file").write_text("")
    with pytest.raises(IvjoinError, match="which is a file"):
        Folder(layout(tmp_path / "file")).check()
    with pytest.raises(IvjoinError, match="expected a folder"):
        published_files(tmp_path / "none")
    (tmp_path / "two" / "_spark_metadata" / "0").write_text("v2\n")
    with pytest.raises(IvjoinError, match="version 'v2'"):
        published_files(tmp_path / "two")
    assert SinkLog.stands_in(tmp_path / "two")


def test_options_of_the_user_reach_the_files(tmp_path: Path) -> None:
    given = layout(tmp_path, compression="zstd", row_group_size=4, statistics=("v",))
    Folder(given).publish(QUERY, 0, parts(given, 0))
    (file,) = published_files(tmp_path)
    footer = pq.read_metadata(file)
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [4, 4, 4, 2]
    group = footer.row_group(0)
    assert {group.column(i).compression for i in range(3)} == {"ZSTD"}
    assert [group.column(i).is_stats_set for i in range(3)] == [False, False, True]


# -- Delta -----------------------------------------------------------------------------------------------------------


def delta_rows(folder: Path) -> tuple[Counter[Any], int]:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    table = deltalake.DeltaTable(str(folder))
    rows = pa.table(table.to_pyarrow_dataset().to_table()).to_pylist()
    return Counter((r["batch"], r["k"], r["v"]) for r in rows), table.version()


@pytest.mark.one_in(7)
@pytest.mark.parametrize("changed", [{}, {"inline_bytes": 1 << 20}, {"partition_by": ("k",)}], ids=str)
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_a_delta_commit_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], when: str
) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    given = layout(tmp_path, format="delta", **changed)
    DeltaFolder(given).check()
    DeltaFolder(given).publish(QUERY, 0, parts(given, 0))
    commit = deltalake.DeltaTable.create_write_transaction

    def failing(*given: Any, **named: Any) -> None:
        if when == "after the commit":
            commit(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(deltalake.DeltaTable, "create_write_transaction", failing)
        with pytest.raises(KeyboardInterrupt):
            DeltaFolder(given).publish(QUERY, 1, parts(given, 1))
    seen, _ = delta_rows(tmp_path)
    assert seen == whole(0) + (whole(1) if when == "after the commit" else Counter())
    again = DeltaFolder(given)
    again.check()
    for _ in range(2):
        again.publish(QUERY, 1, parts(given, 1))
    again.publish(QUERY, 2, [])
    again.publish("another query", 3, parts(given, 3))
    assert delta_rows(tmp_path) == (whole(0) + whole(1) + whole(3), 3)


def test_a_delta_table_of_other_columns_or_partitions_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    DeltaFolder(layout(tmp_path, format="delta", partition_by=("k",))).check()
    with pytest.raises(IvjoinError, match="has the columns batch.*the rows have v"):
        DeltaFolder(layout(tmp_path, format="delta", schema=pa.schema([("v", pa.int64())]))).check()
    with pytest.raises(IvjoinError, match="is partitioned by"):
        DeltaFolder(layout(tmp_path, format="delta")).check()


def stats_cases() -> Iterator[Any]:
    yield pytest.param(pa.array([3, None, -(2**62)]), (-(2**62), 3, 1), id="integers")
    yield pytest.param(pa.array([1.0, float("nan")]), (None, None, 0), id="floats may hold NaN")
    yield pytest.param(pa.array(["b", "a"]), ("a", "b", 0), id="text")
    yield pytest.param(pa.array(["a" * 100]), (None, None, 0), id="long text")
    yield pytest.param(pa.array([None, None], pa.int64()), (None, None, 2), id="nulls alone")
    yield pytest.param(pa.array([0, 19_000], pa.date32()), ("1970-01-01", "2022-01-08", 0), id="dates")
    instant = pa.array([1], pa.timestamp("us", "UTC"))
    yield pytest.param(instant, ("1970-01-01T00:00:00.000001Z",) * 2 + (0,), id="instants")
    yield pytest.param(pa.array([True, False]), (None, None, 0), id="bools")
    yield pytest.param(pa.array([[1], None]), (None, None, None), id="lists")


@pytest.mark.parametrize("values, want", [*stats_cases()])
def test_delta_statistics(tmp_path: Path, values: pa.Array, want: tuple[Any, ...]) -> None:
    import json

    pq.write_table(pa.table({"c": values}), tmp_path / "a.parquet", row_group_size=1)
    said = json.loads(delta_stats(pq.read_metadata(tmp_path / "a.parquet")))
    assert said["numRecords"] == len(values)
    assert tuple(said[kind].get("c") for kind in ("minValues", "maxValues", "nullCount")) == want


def test_partitions_of_a_path() -> None:
    assert partition_of("a%20b=x%2Fy/k=__HIVE_DEFAULT_PARTITION__/f") == {"a b": "x/y", "k": None}
    assert partition_of("f") == {}
    assert hive_folders("k=%C3%A4%2Fb%20c%25/n=1/f") == "k=\u00e4%2Fb c%25/n=1"


def test_times_within_a_delta_table_s_columns(tmp_path: Path) -> None:
    """Delta has times in UTC alone; those within structs, lists and maps are the same moments there."""
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    here = pa.timestamp("us", "America/New_York")
    held = pa.struct([("x", here), ("all", pa.list_(here)), ("by", pa.map_(pa.string(), pa.struct([("t", here)])))])
    rows = pa.RecordBatch.from_pydict({"s": [{"x": 1, "all": [2, None], "by": {"a": {"t": 3}}}, None]},
                                      pa.schema([("s", held)]))  # fmt: skip
    given = layout(tmp_path, format="delta", schema=delta_schema(rows.schema))
    folder = DeltaFolder(given)
    folder.check()
    part = parts_module.written(given, iter([rows]), "0")
    assert part is not None
    folder.publish(QUERY, 0, [part])
    got = deltalake.DeltaTable(tmp_path).to_pyarrow_table()["s"].to_pylist()
    assert [g and {**g, "by": dict(g["by"])} for g in got] == [
        g and {**g, "by": dict(g["by"])} for g in rows.column(0).to_pylist()
    ]
    strange = layout(tmp_path / "x", format="delta", schema=pa.schema([("m", pa.list_(pa.month_day_nano_interval()))]))
    with pytest.raises(IvjoinError, match="Delta cannot hold these columns"):
        DeltaFolder(strange).check()


@pytest.mark.parametrize("form", ["parquet", "ipc"])
def test_other_files_in_the_folder_are_not_micro_batches(tmp_path: Path, form: str) -> None:
    (tmp_path / "README.txt").write_text("what this is")
    given = layout(tmp_path, format=form)
    Folder(given).check()
    Folder(given).publish(QUERY, 0, parts(given, 0))
    assert read(given, published_files(tmp_path)) == whole(0)


@pytest.mark.parametrize("form", ["parquet", "ipc", "delta"])
def test_text_that_no_folder_s_name_can_say_is_refused(tmp_path: Path, form: str) -> None:
    given = layout(tmp_path, format=form, partition_by=("k",))
    for text, said in (("\0a", "holds the character NUL"), ("\u6f22" * 40, "360 bytes")):
        rows = pa.RecordBatch.from_pydict({"batch": [1], "k": [text], "v": [1]}, SCHEMA)
        with pytest.raises(UnsupportedError, match=f"partition_by names 'k'.*{said}"):
            parts_module.written(given, iter([rows]), "0")
    rows = pa.RecordBatch.from_pydict({"batch": [1], "k": ["\u6f22" * 25 + "a b"], "v": [1]}, SCHEMA)
    assert parts_module.written(given, iter([rows]), "0") is not None


@pytest.mark.parametrize("name", ["a%41b", "a%2fb", "a\\b", "a\nb"])
def test_a_folder_that_delta_takes_for_another_is_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    with pytest.raises(UnsupportedError, match=r"format=\"delta\" into .* another folder's name"):
        DeltaFolder(layout(tmp_path / name, format="delta")).check()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a#b", "a?b", "a b%", "\u00e4%zz", "[a]*:;"])
def test_other_names_of_folders_are_delta_s(tmp_path: Path, name: str) -> None:
    delta = pytest.importorskip("deltalake", reason="deltalake is not installed")
    given = layout(tmp_path / name, format="delta")
    for batch in (0, 1):
        folder = DeltaFolder(given)
        folder.check()
        folder.publish(QUERY, batch, parts(given, batch))
    assert len(delta.DeltaTable(given.folder).file_uris()) == 4
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_delta_table_that_cannot_be_made_is_not_laid_to_its_columns(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    (tmp_path / "_delta_log").touch()
    with pytest.raises(IvjoinError, match="the Delta table .* cannot be made: ") as said:
        DeltaFolder(layout(tmp_path, format="delta")).check()
    assert "columns" not in str(said.value)


@pytest.mark.parametrize("given, want", [
    ("/out/a#b?c%41", "/out/a#b?c%41"), ("file:///out/a#b", "/out/a#b"), ("file:/out/a?b=c#d", "/out/a?b=c#d"),
    ("file:///out/a%20b", "/out/a b"),
])  # fmt: skip
def test_a_folder_s_name_is_taken_whole(given: str, want: str) -> None:
    from ivjoin.spark.sink.arguments import _local

    assert _local(given) == want


@pytest.mark.parametrize("given", ["", None, 3, b"out", Path])
def test_objects_that_are_not_paths_are_refused(given: Any) -> None:
    """Empty text would be the folder in which the process happens to be."""
    from ivjoin.spark.sink.arguments import _local, checkpoint_of

    with pytest.raises(IvjoinError, match="path is .*; expected a folder's path"):
        _local(given)
    if given is not None:
        with pytest.raises(IvjoinError, match="checkpoint_location is .*; expected a folder's path"):
            checkpoint_of(None, given, None)


def test_metrics_of_other_objects_are_refused() -> None:
    from ivjoin.spark import metrics

    for given in (3, None, pa.table({"a": [1]})):
        with pytest.raises(IvjoinError, match="query is a .*; expected a StreamingQuery or its progress"):
            metrics(given)
