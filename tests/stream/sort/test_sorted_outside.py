"""Inputs that exceed the memory limit are sorted in files."""

from __future__ import annotations

import subprocess
import sys
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from places import environment
from resident import needs_resident

from ivjoin import MemoryLimitError, Pick, Spill, band_join
from ivjoin.expr.nodes import make
from ivjoin.expr.types import from_arrow
from ivjoin.stream.sort import given, outside, sorting
from ivjoin.stream.sort.outside import sorted_outside

pytestmark = pytest.mark.filterwarnings("ignore:memory_limit is")


def _table(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 50, n)
    x[rng.random(n) < 0.02] = np.nan
    text = [f"t{i % 13}" * (i % 4) for i in range(n)]
    return pa.table({
        "k": rng.integers(0, 5, n), "x": pa.array(x, mask=rng.random(n) < 0.05), "id": np.arange(n),
        "text": text, "view": pa.array(text, pa.string_view()), "dict": pa.array(text).dictionary_encode(),
        "list": [[i, None] if i % 3 else None for i in range(n)], "st": [{"q": i, "t": str(i)} for i in range(n)],
        "flag": [i % 7 == 0 for i in range(n)],
    })  # fmt: skip


@pytest.mark.one_in(7)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("room", [1, 5_000, 1 << 30])
def test_all_rows_come_in_order(descending: bool, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "_PIECE", 500)
    monkeypatch.setattr(outside, "_LEAST_ROWS", 7)
    table = _table(1000, 1)
    node = make("column", (), ("left", "x"), from_arrow(table.schema.field("x").type))
    runs = sorted_outside(iter(table.to_batches(90)), table.schema, node, descending, room, "")
    batches = list(runs.rows())
    assert not runs.errs and runs.nbytes > table.nbytes
    seen = np.concatenate([v for _, v in batches])
    assert (seen[:-1] <= seen[1:]).all()
    out = pa.Table.from_batches([b for b, _ in batches])
    assert out.schema == table.schema
    x = [v for v in out["x"].to_pylist() if v is not None and v == v]
    assert x == sorted(x, reverse=descending)
    rows = sorted(out.drop_columns("x").to_pylist(), key=lambda row: row["id"])
    assert rows == table.drop_columns("x").to_pylist()


@pytest.mark.one_in(7)
@pytest.mark.parametrize("how", ["inner", "full", "left_semi", "right_anti"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "table"])
def test_files_and_tables(how: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "capacity_for", lambda limit: 20_000)
    monkeypatch.setattr(outside, "_PIECE", 2_000)
    inputs: list[Any] = []
    for seed in (2, 3):
        table = _table(2000, seed).select(["k", "x", "id", "text"])
        path = tmp_path / f"{seed}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=300)
        elif kind == "csv":
            csv.write_csv(table, path)
        elif kind == "arrow":
            feather.write_feather(table, path, chunksize=300, compression="uncompressed")
        inputs.append(table if kind == "table" else path)

    def joined(**limit: Any) -> tuple[list[str], str]:
        stream = band_join(*inputs, on="k", condition="abs(l.x - r.x) < 0.5", how=how, **limit)
        rows = stream.read_all().to_pylist()
        return sorted(map(repr, rows)), stream.sorting

    want, _ = joined()
    got, said = joined(memory_limit="1GB", when_full=Spill(str(tmp_path)))
    assert got == want and len(want) > 100
    assert "in files" in said, said


def test_what_was_read_is_not_lost_where_an_expression_errs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The side that is sorted errs, the other has an order: neither may be sorted, and both are whole."""
    monkeypatch.setattr(given, "capacity_for", lambda limit: 10_000)
    monkeypatch.setattr(sorting, "best_axis", lambda plan, samples: next(sorting.axes(plan)))
    n = 2000
    a = np.arange(n) % 50 + 1
    a[7] = 2**31 - 1
    left = pa.table({"k": np.arange(n) % 3, "a": a.astype(np.int32)})
    right = pa.table({"k": np.arange(n) % 3, "b": np.arange(n, dtype=np.int32)})
    path = tmp_path / "left.arrow"
    feather.write_feather(left, path, chunksize=200, compression="uncompressed")
    for limit in ({}, {"memory_limit": "1GB"}):
        stream = band_join(
            path, right, on="k", condition="l.a < 2147483647 AND l.a + 1 BETWEEN r.b AND r.b + 1", right_order="b",
            how="left", **limit,  # type: ignore[arg-type]
        )
        out = stream.read_all()
        assert len(set(out["a"].to_pylist())) == 51
        assert out.num_rows >= n


def test_nothing_is_lost_of_picks_where_an_expression_errs(tmp_path: Path) -> None:
    """The side that would be sorted errs: it is joined as it comes, with the rows that were read to see that."""
    a = np.arange(200) % 50 + 1
    a[7] = 2**31 - 1
    path = tmp_path / "left.arrow"
    feather.write_feather(pa.table({"a": a.astype(np.int32)}), path, chunksize=50, compression="uncompressed")
    right = pa.table({"b": np.arange(60, dtype=np.int32)})
    out = band_join(
        path, right, condition="l.a < 2147483647 AND r.b <= l.a * l.a", pick=Pick("b", "last"), right_order="b",
        how="left",
    ).read_all()  # fmt: skip
    assert sorted(out["a"].to_pylist()) == sorted(a)
    want = {x: None if x == 2**31 - 1 else min(x * x, 59) for x in a.tolist()}
    assert {r["a"]: r["b"] for r in out.to_pylist()} == want


def test_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(given, "capacity_for", lambda limit: 10_000)

    def full(**_: Any) -> FileIO:
        return FileIO("/dev/full", "r+")

    t = _table(2000, 4).select(["k", "x"])
    stream = band_join(t, t, on="k", condition="abs(l.x - r.x) < 1", memory_limit="1GB", when_full=Spill(tmp_path))
    monkeypatch.setattr(outside.tempfile, "TemporaryFile", full)
    with pytest.raises(MemoryLimitError, match="cannot sort outside memory.*No space left.*Spill"):
        stream.read_all()


def test_a_folder_that_vanished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(given, "capacity_for", lambda limit: 10_000)
    folder = tmp_path / "there"
    folder.mkdir()
    t = _table(2000, 4).select(["k", "x"])
    stream = band_join(t, t, on="k", condition="abs(l.x - r.x) < 1", memory_limit="1GB", when_full=Spill(folder))
    folder.rmdir()
    with pytest.raises(MemoryLimitError, match="cannot sort outside memory.*No such file"):
        stream.read_all()


_CHILD = """
import sys
from ivjoin import Spill, band_join
import pyarrow as pa
from resident import resident
left, right, folder = sys.argv[1:]
small = pa.table({"k": [1, 2], "x": [1.0, 2.0]})
band_join(small, small, on="k", condition="abs(l.x - r.x) < 1").read_all()
before, peak, rows = resident(), 0, 0
stream = band_join(left, right, on="k", condition="abs(l.x - r.x) < 0.001", memory_limit="64MB",
                   when_full=Spill(folder))
import threading, time
over = threading.Event()
def watch():
    global peak
    while not over.is_set():
        peak = max(peak, resident())
        time.sleep(0.005)
t = threading.Thread(target=watch); t.start()
for batch in stream:
    rows += batch.num_rows
over.set(); t.join()
print(rows, peak - before, stream.sorting)
"""


@needs_resident
@pytest.mark.soak
def test_the_process_stays_within_the_limit(tmp_path: Path) -> None:
    n = 4_000_000
    for seed, name in enumerate(("left", "right")):
        rng = np.random.default_rng(seed)
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", pa.schema([("k", pa.int64()), ("x", pa.float64()),
                              ("v", pa.float64()), ("w", pa.int64())])) as writer:  # fmt: skip
            for _ in range(n // 100_000):
                m = 100_000
                writer.write_table(pa.table({"k": rng.integers(0, 100, m), "x": rng.random(m) * 1000,
                                             "v": rng.random(m), "w": np.arange(m)}))  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, tmp_path / "left.parquet", tmp_path / "right.parquet", tmp_path],
        check=False, capture_output=True, text=True, env=environment(), timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, grown, said = done.stdout.split(maxsplit=2)
    assert int(rows) > 10_000 and "in files" in said
    assert int(grown) < 128e6, done.stdout
