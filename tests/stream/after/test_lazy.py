"""``to_polars(lazy=True)``: the join runs when the frame is collected, with only the columns it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.stream.sources.inputs import Source

LEFT = pa.table({"k": [1, 2, 3], "t": [1, 5, 9], "wide": ["a" * 10, "b", "c"]})
RIGHT = pa.table({"k": [1, 2, 2], "u": [2, 9, 30], "more": [1.5, 2.5, 3.5]})
HERE: dict[str, Any] = {"condition": "abs(l.t - r.u) <= 4", "on": "k"}


def test_it_is_lazy_and_selects_columns() -> None:
    frame = ivjoin.band_join(LEFT, RIGHT, **HERE).to_polars(lazy=True)
    assert isinstance(frame, pl.LazyFrame)
    assert frame.collect_schema().names() == ["k", "t", "wide", "u", "more"]
    assert frame.collect().rows() == [(1, 1, "a" * 10, 2, 1.5), (2, 5, "b", 9, 2.5)]
    assert frame.select("more", "k").filter(pl.col("more") > 2).collect().rows() == [(2.5, 2)]
    assert frame.filter(pl.col("more") > 2).select("wide").collect().rows() == [("b",)]
    assert frame.head(1).collect().height == 1
    assert frame.select(pl.len()).collect().item() == 2
    assert frame.group_by("k").agg(pl.col("more").sum()).sort("k").collect().rows() == [(1, 1.5), (2, 2.5)]


def test_only_needed_columns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(LEFT, tmp_path / "l.parquet")
    pq.write_table(RIGHT, tmp_path / "r.parquet")
    frame = ivjoin.band_join(tmp_path / "l.parquet", tmp_path / "r.parquet", **HERE).to_polars(lazy=True)
    read: list[list[str]] = []
    keep = Source.keep
    monkeypatch.setattr(Source, "keep", lambda self, names: (read.append(list(names)), keep(self, names))[1])
    assert frame.select("u").collect().rows() == [(2,), (9,)]
    assert read == [["k", "t"], ["k", "u"]]


@pytest.mark.parametrize("make", [
    lambda: ivjoin.band_join(LEFT, RIGHT, **HERE, maintain_order="left", indicator=True),
    lambda: ivjoin.sql("SELECT l.*, r.u + 1 AS v FROM a l JOIN b r ON l.k = r.k", a=LEFT, b=RIGHT),
    lambda: ivjoin.multi_join({"a": LEFT, "b": RIGHT}, "a.k = b.k"),
    lambda: ivjoin.asof_join(LEFT, RIGHT, on=("t", "u"), by="k"),
])  # fmt: skip
def test_every_stream_can_be_lazy(make: Any) -> None:
    whole = make().to_polars()
    frame = make().to_polars(lazy=True)
    assert frame.collect_schema() == whole.schema
    last = whole.columns[-1]
    assert frame.select(last).collect().equals(whole.select(last))
    assert make().to_polars(lazy=True).collect().equals(whole)


def test_inputs_that_come_once_are_collected_once() -> None:
    stream = ivjoin.band_join(iter(LEFT.to_batches()), RIGHT, **HERE)
    frame = stream.to_polars(lazy=True)
    assert frame.select("k").collect().height == 2
    with pytest.raises(ivjoin.ProtocolError, match="another reader"):
        stream.read_all()
    with pytest.raises(Exception, match="was collected already"):
        frame.collect()
    stream = ivjoin.band_join(iter(LEFT.to_batches()), RIGHT, **HERE)
    frame = stream.to_polars(lazy=True)
    stream.read_all()
    with pytest.raises(Exception, match="another reader"):
        frame.collect()


def test_it_is_the_whole_output() -> None:
    stream = ivjoin.band_join(LEFT, RIGHT, **HERE)
    next(iter(stream))
    with pytest.raises(ivjoin.ProtocolError, match="taken already"):
        stream.to_polars(lazy=True)
