"""What a file that is read batch by batch takes of memory: some batches, however long it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
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


@pytest.mark.parametrize("name", ["a.parquet", ""])
def test_what_has_been_read_is_let_go_of(folder: Path, name: str) -> None:
    size = (folder / "a.parquet").stat().st_size
    begin, most, rows = pa.total_allocated_bytes(), 0, 0
    files = open_files(str(folder / name))
    for batch in files.batches(None):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - begin)
    assert rows == GROUPS * ROWS
    assert most < size // 2
