"""Parquet files whose row groups follow each other: read group by group, sorted within, with the rows of the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.files.datasets import open_files
from ivjoin.stream import run_of_two
from ivjoin.stream.sort import sorting
from ivjoin.stream.sources import inputs
from ivjoin.stream.threads import sliced_stream

NAN = float("nan")


def nearly_sorted(rng: np.random.Generator, n: int, kind: str, descending: bool) -> pa.Table:
    at = np.sort(rng.integers(0, 40, n)) + rng.integers(0, 4, n)
    at = at[::-1] if descending else at
    values: list[Any] = [int(v) for v in at]
    if kind == "double":
        values = [NAN if rng.random() < 0.05 else v / 2 for v in values]
    if kind == "timestamp":
        values = [v * 1_000_000 for v in values]
    values = [None if rng.random() < 0.1 else v for v in values]
    types = {"int": pa.int64(), "double": pa.float64(), "timestamp": pa.timestamp("us"), "date": pa.date32()}
    made = pa.array(values, pa.int64() if kind == "timestamp" else pa.int32() if kind == "date" else types[kind])
    return pa.table({"t": made if made.type == types[kind] else made.view(types[kind]), "n": range(n)})


CONDITIONS = {
    "int": "l.t BETWEEN r.t - 2 AND r.t + 1",
    "double": "l.t BETWEEN r.t - 1 AND r.t + 1.5 OR l.t = r.t",
    "timestamp": "l.t BETWEEN r.t AND r.t + INTERVAL 2 SECONDS",
    "date": "l.t BETWEEN r.t AND r.t + INTERVAL 2 DAYS",
}


@pytest.mark.slow
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", CONDITIONS)
def test_random_files(kind: str, descending: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "SMALL", -1)
    monkeypatch.setattr(run_of_two, "_SWEEP_ROWS", 3)
    monkeypatch.setattr(run_of_two, "_PARALLEL_ROWS", 3)
    monkeypatch.setattr(sliced_stream, "_SLICE_ROWS", 10)
    rng = np.random.default_rng(5)
    by_groups = 0
    for round_ in range(24):
        how = oracle.HOWS[round_ % 8]
        monkeypatch.setattr(run_of_two, "_LEAST_IN_SLICES", 0 if round_ % 3 else 1 << 20)
        tables = [nearly_sorted(rng, int(rng.integers(1, 90)), kind, descending) for _ in range(2)]
        places = [tmp_path / f"{side}.parquet" for side in "lr"]
        for place, t in zip(places, tables, strict=True):
            pq.write_table(t, place, row_group_size=int(rng.integers(1, 9)), store_schema=True)
        question: dict[str, Any] = {"condition": CONDITIONS[kind], "how": how}
        if round_ % 3 == 2 and not descending:
            question["left_order"] = ivjoin.Order("t", slack=None if kind not in ("int", "double") else 9)
            question["on_late"] = "join"
        stream = ivjoin.band_join(*places, **question)
        got = stream.read_all()
        want = ivjoin.band_join(*tables, condition=CONDITIONS[kind], how=how, sort="never").read_all()
        order = [(c, "ascending") for c in got.schema.names]
        if "on_late" not in question:
            assert repr(got.sort_by(order).to_pylist()) == repr(want.sort_by(order).to_pylist())
        by_groups += "row groups" in stream.sorting
    assert by_groups > 8


def test_no_file_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs.Source, "table", None)
    n = 40_000
    rng = np.random.default_rng(1)
    for side in "lr":
        t = np.arange(n) + rng.integers(0, 500, n)
        pq.write_table(pa.table({"t": t, side: np.arange(n)}), tmp_path / f"{side}.parquet", row_group_size=2000)
    stream = ivjoin.band_join(
        tmp_path / "l.parquet", tmp_path / "r.parquet", condition="l.t BETWEEN r.t - 1 AND r.t + 1"
    )
    assert stream.read_all().num_rows > n
    assert stream.metrics.peak_state_rows < 10_000
    assert stream.sorting == "both sides were read in the order of row groups, by l.t and r.t"


def test_one_side_of_them(tmp_path: Path) -> None:
    n = 40_000
    rng = np.random.default_rng(1)
    pq.write_table(pa.table({"t": np.arange(n)}), tmp_path / "l.parquet", row_group_size=2000)
    stream = ivjoin.band_join(
        tmp_path / "l.parquet", pa.table({"t": rng.permutation(n)}), condition="l.t BETWEEN r.t - 1 AND r.t + 1"
    )
    assert stream.read_all().num_rows == 3 * n - 2
    assert stream.metrics.peak_state_rows < 10_000
    assert stream.sorting.startswith(
        "the left side was read in the order of its row groups, by l.t and the right side was not ordered: it was "
        "sorted, by r.t, with 0.5 MB"
    )


BOTH = "abs(l.t - r.t) <= 1 AND abs(l.n - r.n) <= 5000"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("size", "condition", "again", "limit"), [
    pytest.param(10_000, BOTH, 0, None, id="one row group, two axes"),
    pytest.param(500, "abs(l.t - r.t) <= 1", 0, None, id="row groups in order, one axis"),
    pytest.param(500, "abs(l.t - r.t) <= 1", 0, "64MB", id="row groups in order, one axis, within a limit"),
    pytest.param(500, BOTH, 3500, None, id="row groups in order, two axes"),
    pytest.param(500, BOTH, 3500, "64MB", id="row groups in order, two axes, within a limit"),
])  # fmt: skip
def test_rows_are_read_once(size: int, condition: str, again: int, limit: str | None, tmp_path: Path) -> None:
    n, read = 10_000, [0, 0]
    rng = np.random.default_rng(1)
    t = np.arange(n) if again or size == 500 else rng.permutation(n)
    tables = [pa.table({"t": t, "n": rng.permutation(n)}) for _ in "lr"]
    files = []
    for s, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{s}.parquet", row_group_size=size)
        files.append(open_files(tmp_path / f"{s}.parquet"))
        files[-1].watch(lambda rows, s=s: read.__setitem__(s, read[s] + rows))  # type: ignore[misc]
    stream = ivjoin.band_join(files[0], files[1], condition=condition, memory_limit=limit)
    got = stream.read_all()
    assert got.num_rows == ivjoin.band_join(*tables, condition=condition, sort="never").read_all().num_rows > 0
    assert stream.sorting
    for rows in read:
        assert n <= rows <= n + again
        assert (rows > n) == bool(again)


def test_a_comparison_that_is_open_on_one_end_is_not_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "SMALL", 0)
    tables = [pa.table({"t": range(4000)}), pa.table({"t": range(0, 4000, 400)})]
    for s, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{s}.parquet", row_group_size=100 if s == 0 else 1)
    files = [tmp_path / f"{s}.parquet" for s in (0, 1)]
    stream = ivjoin.band_join(*files, condition="l.t >= r.t")
    got = stream.read_all()
    assert stream.sorting == ""
    assert got.num_rows == sum(4000 - t for t in range(0, 4000, 400))
