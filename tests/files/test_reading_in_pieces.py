"""A file that is read batch by batch needs the memory of a few batches, however long it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from ivjoin.files.datasets import open_files

GROUPS, ROWS = 24, 1 << 17


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long")
    rng = np.random.default_rng(0)
    schema = pa.schema({"t": pa.int64(), "x": pa.float64()})
    with pq.ParquetWriter(path / "a.parquet", schema) as writer:
        for group in range(GROUPS):
            t = pa.array(np.arange(group * ROWS, (group + 1) * ROWS))
            writer.write_table(pa.table({"t": t, "x": pa.array(rng.random(ROWS))}, schema))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.parquet", ""])
def test_batches_are_released_after_they_are_read(folder: Path, name: str) -> None:
    size = (folder / "a.parquet").stat().st_size
    begin, most, rows = pa.total_allocated_bytes(), 0, 0
    files = open_files(str(folder / name))
    for batch in files.batches(None):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - begin)
    assert rows == GROUPS * ROWS
    assert most < size // 2


@pytest.mark.one_in(19)
@pytest.mark.parametrize("kind", ["file", "folder", "ParquetFile", "Scanner", "arrow"])
@pytest.mark.parametrize("names", [None, ["x"]])
def test_one_thread_reads_the_same_rows(folder: Path, kind: str, names: list[str] | None, tmp_path: Path) -> None:
    source: Any = folder / "a.parquet"
    if kind == "arrow":
        source = tmp_path / "a.arrow"
        feather.write_feather(pq.read_table(folder / "a.parquet"), source)
    elif kind != "file":
        made = {"folder": str, "ParquetFile": lambda f: pq.ParquetFile(f / "a.parquet"), "Scanner": _scanner}
        source = made[kind](folder)
    want = pq.read_table(folder / "a.parquet", columns=names)
    got = pa.Table.from_batches(open_files(source).batches(names, alone=True))
    assert got.equals(want)


def _scanner(folder: Path) -> ds.Scanner:
    return ds.dataset(folder).scanner()
