"""Consumers that take a join's whole output (frames, files, loops), and that the output exists once."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import ivjoin

LEFT = pa.table({"k": ["x", "y", "x"], "a": [1, 2, 3]})
RIGHT = pa.table({"k": ["x", "x", "z"], "w": [1.5, 2.5, 3.5]})
WANT = [("x", 1, 1.5), ("x", 1, 2.5), ("x", 3, 1.5), ("x", 3, 2.5)]


def stream(**options: Any) -> ivjoin.JoinStream:
    return ivjoin.band_join(LEFT, RIGHT, on="k", **options)


def same(table: pa.Table) -> None:
    assert table.schema.names == ["k", "a", "w"]
    assert sorted(tuple(r.values()) for r in table.to_pylist()) == WANT


def test_frames() -> None:
    import duckdb
    import polars as pl

    same(stream().to_arrow())
    frame = stream().to_polars()
    assert isinstance(frame, pl.DataFrame)
    same(frame.to_arrow())
    same(pl.DataFrame(stream()).to_arrow())
    same(pa.Table.from_pandas(stream().to_pandas()))
    db = duckdb.connect()
    assert sorted(stream().to_duckdb(db).filter("a = 3").fetchall()) == WANT[2:]
    assert stream().to_duckdb().aggregate("count(*)").fetchall() == [(4,)]


def test_files(tmp_path: Path) -> None:
    assert stream().write_parquet(tmp_path / "o.parquet") == 4
    same(pq.read_table(tmp_path / "o.parquet"))
    assert stream().write_csv(str(tmp_path / "o.csv")) == 4
    same(csv.read_csv(tmp_path / "o.csv"))
    assert stream().write_ipc(tmp_path / "o.arrow") == 4
    same(pa.ipc.open_file(tmp_path / "o.arrow").read_all())
    assert stream().write_ipc(tmp_path / "o.arrows") == 4
    same(pa.ipc.open_stream((tmp_path / "o.arrows").read_bytes()).read_all())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.arrow", "o.arrows", "o.csv", "o.parquet"]


def test_a_folder_of_partitions(tmp_path: Path) -> None:
    assert stream().write_parquet(tmp_path / "parts", partition_by=["a"]) == 4
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {"a=1", "a=3"}
    same(ds.dataset(tmp_path / "parts", partitioning="hive").to_table().select(["k", "a", "w"]))
    with pytest.raises(ivjoin.IvjoinError, match="not empty"):
        stream().write_parquet(tmp_path / "parts", partition_by=["a"])
    with pytest.raises(ivjoin.ColumnError, match="'nope'"):
        stream().write_parquet(tmp_path / "other", partition_by=["nope"])
    for names in (["k", "a", "w"], ["a", "a"]):  # of which no row, or no column, would be left
        with pytest.raises(ivjoin.ColumnError, match="each once, and not all"):
            stream().write_parquet(tmp_path / "other", partition_by=names)
    assert not (tmp_path / "other").exists()


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    def failing() -> Any:
        yield RIGHT.to_batches()[0]
        raise RuntimeError("gone")

    for write in ("write_parquet", "write_csv", "write_ipc"):
        with pytest.raises(RuntimeError, match="gone"):
            getattr(ivjoin.band_join(LEFT, failing(), on="k"), write)(tmp_path / "o")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ivjoin.IvjoinError, match="name is one of a csv file"):
        stream().write_parquet(tmp_path / "o.csv")


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_the_output_is_not_copied(take: Any) -> None:
    s = stream()
    with pytest.raises(TypeError, match="can be read once, so it cannot be pickled or copied"):
        take(s)
    same(s.read_all())


def test_a_context_closes_what_is_left() -> None:
    with stream(batch_size=1) as s:
        assert next(s).num_rows == 1
    with pytest.raises(ivjoin.ProtocolError, match="closed"):
        next(iter(s))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_finished_stream_releases_its_inputs(threads: int) -> None:
    table = pa.table({"k": [1] * 300_000, "t": range(300_000)})

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from table.to_batches(2000)
        finally:
            closed.append(True)

    for over in ("end", "close", "close before the first", "error"):
        closed: list[bool] = []
        condition = "l.t = r.t" if over != "error" else "l.t = r.t AND 1 div (l.t - 200000) < 9"
        stream = ivjoin.band_join(
            batches(), batches(), condition=condition, left_order="t", right_order="t", threads=threads
        )
        rows = 0
        if over == "close":
            next(stream)
        if over.startswith("close"):
            stream.close()
        elif over == "error":
            with pytest.raises(ivjoin.EvaluationError):
                rows += sum(b.num_rows for b in stream)
        else:
            assert sum(b.num_rows for b in stream) == 300_000
        gc.collect()
        assert closed == [True, True]
        assert stream.metrics.state_rows == 0


@pytest.mark.slow
def test_closed_multi_join_releases_its_inputs() -> None:
    table = pa.table({"t": range(50_000)})
    closed: list[bool] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from table.to_batches(1000)
        finally:
            closed.append(True)

    stream = ivjoin.multi_join(
        {"a": batches(), "b": batches(), "c": batches()}, "a.t = b.t AND b.t = c.t", orders=dict.fromkeys("abc", "t")
    )
    assert next(stream).num_rows
    stream.close()
    gc.collect()
    assert closed == [True, True, True]


def test_an_operator_is_sent_as_a_snapshot() -> None:
    schema = pa.schema({"t": pa.int64()})
    op = ivjoin.SymmetricHashJoin(schema, schema, condition="l.t = r.t")
    with pytest.raises(TypeError, match="snapshot"):
        pickle.dumps(op)
    with pytest.raises(TypeError, match="snapshot"):
        copy.deepcopy(op)


def test_async_iteration() -> None:
    async def take(s: ivjoin.JoinStream) -> list[pa.RecordBatch]:
        return [b async for b in s]

    s = stream(batch_size=1)
    batches = asyncio.run(take(s))
    assert len(batches) == 4
    same(pa.Table.from_batches(batches))
    with pytest.raises(ivjoin.ProtocolError, match="be read only once"):
        asyncio.run(take(s))


def test_error_is_raised_by_async_iteration() -> None:
    late = pa.table({"k": ["x"] * 3, "a": [3, 2, 1]})

    async def take() -> None:
        async for _ in ivjoin.band_join(late, RIGHT, on="k", left_order="a"):
            pass

    with pytest.raises(ivjoin.LateRowError):
        asyncio.run(take())


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("polars", "pandas", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ivjoin.IvjoinError, match=f"pip install {name}"):
            getattr(stream(), f"to_{name}")()


def test_columns_of_the_output() -> None:
    left = pa.table({"k": [1, 2], "v": [1, 2], "t": [3, 4]})
    right = pa.table({"k": [1, 2], "v": [5, 6], "w": [7, 8]})
    s = ivjoin.band_join(left, right, on="k", how="full", columns=["w", "v_right", "k"])
    assert s.schema == pa.schema({"w": pa.int64(), "v_right": pa.int64(), "k": pa.int64()})
    assert sorted(tuple(r.values()) for r in s.read_all().to_pylist()) == [(7, 5, 1), (8, 6, 2)]


@pytest.mark.parametrize("write", ["write_parquet", "write_csv", "write_ipc"])
@pytest.mark.parametrize("place", [3, None, b"bytes"])
def test_place_that_is_not_a_path_is_refused_by_name(write: str, place: Any) -> None:
    with pytest.raises(ivjoin.IvjoinError, match=r"^the path of the output is .*; expected text such as"):
        getattr(ivjoin.band_join(pa.table({"a": [1]}), pa.table({"a": [1]}), on="a"), write)(place)
