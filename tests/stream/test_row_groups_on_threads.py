"""Threads read the next row groups of files while the rows of the previous ones are joined."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.errors import FileError
from ivjoin.files.datasets import Files
from ivjoin.stream.sources.inputs import open_input
from ivjoin.stream.sources.row_groups import batches_of, tables_of
from ivjoin.stream.threads import sliced_stream

BAND = "l.t BETWEEN r.t - 2 AND r.t + 2"
THREAD = "ivjoin slice"


def _written(folder: Path, rows: int = 30_000, group: int = 1_500) -> tuple[list[str], list[pa.Table]]:
    rng = np.random.default_rng(2)
    tables = [
        pa.table({"t": np.sort(rng.integers(0, 2 * rows, n)), "k": rng.integers(0, 3, n), name: np.arange(n)})
        for n, name in ((rows, "a"), (2 * rows // 3, "b"))
    ]
    paths = [str(folder / "l.parquet"), str(folder / "r.parquet")]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=group)
    return paths, tables


@pytest.mark.parametrize("order", [None, "t"])
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
def test_the_rows_and_their_order_do_not_depend_on_the_threads(
    how: Any, order: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sliced_stream, "_SLICE_ROWS", 4096)
    paths, tables = _written(tmp_path)
    question: dict[str, Any] = {"on": "k", "condition": BAND, "how": how, "left_order": order, "right_order": order}
    want = ivjoin.band_join(*tables, **question).read_all()
    found = [ivjoin.band_join(*paths, threads=threads, **question).read_all() for threads in (1, 2, 3, 16)]
    assert all(other.equals(found[0]) for other in found[1:])
    assert oracle.rows_of(found[0]) == oracle.rows_of(want)


def test_other_threads_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, tables = _written(tmp_path)
    names = set()
    whole = Files.table

    def watched(self: Files, *arguments: object) -> pa.Table:
        names.add(threading.current_thread().name)
        return whole(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Files, "table", watched)
    stream = ivjoin.band_join(*paths, condition=BAND)
    assert stream.read_all().num_rows == ivjoin.band_join(*tables, condition=BAND).read_all().num_rows
    assert "row groups" in stream.sorting and THREAD in names
    names.clear()
    ivjoin.band_join(*paths, condition=BAND, memory_limit="64MB").read_all()
    assert THREAD not in names


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_few_row_groups_are_read_ahead(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = _written(tmp_path)
    begun: list[Any] = []
    whole = Files.table

    def counted(self: Files, names: Any, groups: Any = None) -> pa.Table:
        begun.append(groups)
        return whole(self, names, groups)

    monkeypatch.setattr(Files, "table", counted)
    source = open_input(paths[0], "left")
    for taken, _ in enumerate(tables_of(source, [[g] for g in source.groups()], threads), 1):
        assert len(begun) <= taken + max(2, threads)
    assert sorted(begun) == [[g] for g in range(20)]


def test_an_error_is_raised_after_the_rows_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, tables = _written(tmp_path)
    whole = Files.table

    def failing(self: Files, names: Any, groups: Any = None) -> pa.Table:
        if groups == [7]:
            raise FileError("it is gone")
        return whole(self, names, groups)

    monkeypatch.setattr(Files, "table", failing)
    source = open_input(paths[0], "left")
    found = batches_of(source, 2)
    before = pa.Table.from_batches([next(found) for _ in range(7)])
    assert before.equals(tables[0].slice(0, 7 * 1_500))
    with pytest.raises(FileError, match="gone"):
        next(found)
    assert next(found, None) is None


def test_no_thread_stays_when_the_output_is_closed(tmp_path: Path) -> None:
    paths, _ = _written(tmp_path)
    stream = ivjoin.band_join(*paths, condition=BAND, batch_size=100, threads=3)
    next(stream)
    stream.close()
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join(10)
            assert not thread.is_alive()
