"""INT96 timestamps, which Spark and Hive write, beyond the years that nanoseconds can hold."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.errors import IvjoinError

FAR, NEAR = datetime(9999, 12, 31), datetime(2022, 1, 1)
VERSIONS = pa.table({
    "k": [1, 2], "a": [NEAR, NEAR], "b": [FAR, datetime(1, 1, 1)], "s": [{"x": FAR}] * 2, "l": [[FAR]] * 2,
})  # fmt: skip
FACTS = pa.table({"k": [1, 2], "t": [datetime(2023, 5, 5)] * 2})
INSIDE = "l.t >= r.a AND l.t < r.b"


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "d" / "p=1").mkdir(parents=True)
    name = str(tmp_path / "d" / "p=1" / "scd.parquet")
    pq.write_table(VERSIONS, name, use_deprecated_int96_timestamps=True, row_group_size=1)
    return name


@pytest.mark.parametrize("form", ["file", "list", "pattern", "folder", "uri", "dataset", "hive dataset"])
def test_int96_is_read_as_microseconds(path: str, form: str) -> None:
    folder = str(Path(path).parent.parent)
    source: Any = {
        "file": path, "list": [path, path], "pattern": f"{folder}/*/*.parquet", "folder": folder,
        "uri": f"file://{folder}", "dataset": ds.dataset(path),
        "hive dataset": ds.dataset(folder, partitioning="hive"),
    }[form]  # fmt: skip
    got = ivjoin.band_join(FACTS, source, on="k", condition=INSIDE).read_all()
    assert {r["k"] for r in got.to_pylist()} == {1}
    assert got["b"].to_pylist() == [FAR] * (2 if form == "list" else 1)
    assert got["b"].type == pa.timestamp("us")
    assert got["s"].to_pylist() == [{"x": FAR}] * len(got)
    assert got["l"].to_pylist() == [[FAR]] * len(got)


def test_int96_file_object_that_wraps_is_refused(path: str) -> None:
    with pytest.raises(IvjoinError, match=r"INT96 timestamps of 'a' as nanoseconds.*coerce_int96_timestamp_unit='us'"):
        ivjoin.band_join(FACTS, pq.ParquetFile(path), on="k")
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    assert ivjoin.band_join(FACTS, file, on="k", condition=INSIDE).read_all()["b"].to_pylist() == [FAR]


def test_int96_has_no_statistics_that_skip(path: str) -> None:
    """A row group of INT96 is skipped by its other columns alone."""
    assert ivjoin.prune_row_groups(path, "b > TIMESTAMP '9000-01-01 00:00:00'") == [0, 1]
    assert ivjoin.prune_row_groups(path, "b > TIMESTAMP '9000-01-01 00:00:00' AND k = 2") == [1]
    assert ivjoin.prune_row_groups(io.BytesIO(Path(path).read_bytes()), "k = 1") == [0]


def test_nanoseconds_that_are_int64_stay(tmp_path: Path) -> None:
    name = str(tmp_path / "n.parquet")
    pq.write_table(pa.table({"k": [1], "b": pa.array([10**18 + 1], pa.timestamp("ns"))}), name)
    got = ivjoin.band_join(FACTS, name, on="k").read_all()
    assert got["b"].cast(pa.int64()).to_pylist() == [10**18 + 1]
