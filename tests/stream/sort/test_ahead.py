"""The next piece of an input is read while the one before is in use."""

from __future__ import annotations

import threading
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.files.datasets import Files
from ivjoin.stream.sort.ahead import read_ahead


def test_one_is_read_while_the_one_before_is_in_use() -> None:
    begun = [Event() for _ in range(4)]

    def read(i: int) -> int:
        begun[i].set()
        return 10 * i

    found = read_ahead(range(4), read)
    assert not begun[0].is_set()
    for i in range(4):
        assert next(found) == 10 * i
        assert i == 3 or begun[i + 1].wait(10)
        assert i > 1 or not begun[i + 2].is_set()
    assert next(found, None) is None and list(read_ahead([], read)) == []


def test_errors_are_raised_in_order() -> None:
    def read(i: int) -> int:
        if i == 2:
            raise OSError("gone")
        return i

    found = read_ahead(range(5), read)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(OSError, match="gone"):
        next(found)
    assert next(found, None) is None


def test_row_groups_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    paths = [tmp_path / "l.parquet", tmp_path / "r.parquet"]
    tables = [pa.table({"t": np.sort(rng.integers(0, 50_000, n)), name: np.arange(n)})
              for n, name in ((30_000, "a"), (20_000, "b"))]  # fmt: skip
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=1_500)
    threads = set()
    whole = Files.table

    def watched(self: Files, *arguments: object) -> pa.Table:
        threads.add(threading.current_thread().name)
        return whole(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Files, "table", watched)
    band = "l.t BETWEEN r.t - 2 AND r.t + 2"
    want = sorted(zip(*ivjoin.band_join(*tables, condition=band).read_all().select(["a", "b"]).to_pydict().values(),
                      strict=True))  # fmt: skip
    stream = ivjoin.band_join(str(paths[0]), str(paths[1]), condition=band)
    got = sorted(zip(*stream.read_all().select(["a", "b"]).to_pydict().values(), strict=True))
    assert got == want and "row groups" in stream.sorting
    assert any(name.startswith("ivjoin reading") for name in threads)
    threads.clear()
    limited = ivjoin.band_join(str(paths[0]), str(paths[1]), condition=band, memory_limit="64MB")
    assert limited.read_all().num_rows == len(want)
    assert not any(name.startswith("ivjoin reading") for name in threads)
    left = ivjoin.band_join(str(paths[0]), str(paths[1]), condition=band, batch_size=100)
    next(left)
    left.close()
    for thread in threading.enumerate():
        if thread.name.startswith("ivjoin reading"):
            thread.join(10)
            assert not thread.is_alive()
