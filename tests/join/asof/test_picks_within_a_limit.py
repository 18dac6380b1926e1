"""Picks within a memory limit: columns in files and externally sorted sides change no row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from oracle import rows_of
from taken import one_of

from ivjoin import (
    IvjoinError,
    MemoryLimitError,
    Pick,
    ProtocolError,
    Spill,
    SpillError,
    SymmetricHashJoin,
    asof_join,
    band_join,
)
from ivjoin.cli import main
from ivjoin.operator.lookup import rows as stored
from ivjoin.stream.sort import given

ASOF: dict[str, Any] = {"on": "k", "condition": "r.t <= l.t", "how": "left", "left_order": "t", "right_order": "t"}
LAST = Pick("t", "last")


def stream(n: int, side: int, keys: int, ticks: int) -> list[pa.RecordBatch]:
    """Batches of 200 rows in order, with 300 bytes of text a row."""
    rng = np.random.default_rng((n, side))
    t = np.sort(rng.integers(0, ticks, n))
    k = rng.integers(0, keys, n)
    table = pa.table({"k": k, "t": t, "id": np.arange(n), "s": [f"{i:06d}" * 50 for i in range(n)]})
    return table.to_batches(200)


def fed(op: SymmetricHashJoin, first: list[pa.RecordBatch], then: list[pa.RecordBatch], side: str) -> Counter[str]:
    """One side before the other."""
    found = Counter[str]()
    other = "right" if side == "left" else "left"
    for name, batches in ((side, first), (other, then)):
        for b in batches:
            found += rows_of(op.push(name, b))
        found += rows_of(op.finish(name))
    return found


@pytest.mark.one_in(7)
@pytest.mark.parametrize("first", ["left", "right"])
@pytest.mark.parametrize("pick", ["last", "first", "nearest"])
def test_within_a_third_of_what_is_needed(pick: str, first: str, tmp_path: Path) -> None:
    """All rows of one side wait for the other side, or are stored for it."""
    condition = "r.t >= l.t" if pick == "first" else None if pick == "nearest" else "r.t <= l.t"
    left, right = stream(6000, 0, 300, 10**6), stream(6000, 1, 300, 10**6)
    both = (left, right) if first == "left" else (right, left)
    schema = left[0].schema
    asked: dict[str, Any] = ASOF | {"pick": one_of(schema, schema, pick, "t"), "condition": condition}
    free = SymmetricHashJoin(schema, schema, **asked)
    want = fed(free, *both, first)
    need = free.metrics.peak_state_bytes
    op = SymmetricHashJoin(schema, schema, **asked, memory_limit=need // 3, when_full=Spill(str(tmp_path)))
    assert fed(op, *both, first) == want
    m = op.metrics
    assert m.peak_state_bytes <= need // 3 and m.reads > 0
    assert m.spilled_rows == m.state_rows == 0 and not list(tmp_path.iterdir())
    with pytest.raises(MemoryLimitError, match=r"spill"):
        fed(SymmetricHashJoin(schema, schema, **asked, memory_limit=need // 3), *both, first)


def tried(op: SymmetricHashJoin, side: str, b: pa.RecordBatch) -> tuple[Counter[str], str]:
    """What comes of a push, or in which words it is refused."""
    try:
        return rows_of(op.push(side, b)), ""
    except (MemoryLimitError, SpillError) as e:
        return Counter(), f"{type(e).__name__}: {e}"


def test_error_names_what_is_full(tmp_path: Path) -> None:
    """The index stays in memory; the error reports its size and its side."""
    schema = stream(200, 0, 5, 10)[0].schema
    op = SymmetricHashJoin(schema, schema, **ASOF, pick=LAST, memory_limit=120_000, when_full=Spill(str(tmp_path)))
    taken, said = 0, ""
    for b in stream(20_000, 0, 300, 10**6):
        _, said = tried(op, "left", b)
        if said:
            break
        taken += b.num_rows
    found = re.search(r"The left side stores ([\d,]+) rows that wait for their matches in ([\d,]+) bytes", said)
    assert found is not None, said
    assert int(found[1].replace(",", "")) == taken == op.metrics.spilled_rows
    assert "the right side stores 0 rows in 0 bytes" in said and "What evicts rows: left rows" in said
    assert "All columns are in files" in said and "a greater memory_limit" in said
    more = SymmetricHashJoin.restore(op.snapshot(), memory_limit="1MB", when_full=Spill(str(tmp_path)))
    assert more.metrics.state_rows == taken
    held = SymmetricHashJoin.restore(op.snapshot(), memory_limit="8MB").metrics
    assert (held.state_rows, held.spilled_rows, held.spilled_bytes) == (taken, 0, 0)
    with pytest.raises(MemoryLimitError, match="No operator was made"):
        SymmetricHashJoin.restore(op.snapshot(), memory_limit=30_000, when_full="spill")
    for again in (op, more):
        out = [row for b in again.finish() for row in b.to_pylist()]
        assert sorted(row["id"] for row in out) == list(range(taken))
        assert all(row["s"] == f"{row['id']:06d}" * 50 and row["s_right"] is None for row in out)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("direction, sql", [("backward", ">="), ("forward", "<=")])
def test_files_as_duckdb_joins_them(
    kind: str, direction: Any, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given, "capacity_for", lambda limit: 100_000)
    rng = np.random.default_rng(3)
    left, right = (
        pa.table({
            "k": [f"name {i}" for i in rng.integers(0, 40, n)], "id": np.arange(n),
            "t": pa.array(rng.integers(0, 50_000, n), mask=rng.random(n) < 0.02).cast(pa.timestamp("us")),
        })
        for n in (2600, 6000)
    )  # fmt: skip
    paths = [str(tmp_path / f"{name}.{kind}") for name in ("l", "r")]
    for table, path in zip((left, right), paths, strict=True):
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=500)
        else:
            feather.write_feather(table, path, chunksize=500, compression="uncompressed")
    con = duckdb.connect()
    con.register("l", left)
    con.register("r", right)
    want = con.sql(f"SELECT r.t FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.t {sql} r.t ORDER BY l.id").to_arrow_table()
    stream = asof_join(*paths, on="t", by="k", direction=direction, memory_limit="400kB")
    got = stream.read_all().sort_by("id")
    assert "in files" in stream.sorting
    assert got["t_right"].combine_chunks().equals(want["t"].combine_chunks().cast(got["t_right"].type))


def test_a_small_right_side_is_read_first_all_the_same(tmp_path: Path) -> None:
    """While it needs a small part of the limit, the output is in the order of the left side."""
    left = pa.table({"k": [1, 2, 1], "t": [9, 1, 5]})
    right = pa.table({"k": [1, 1], "t": [5, 2], "x": ["a", "b"]})
    stream = asof_join(left, right, on="t", by="k", memory_limit="1MB", when_full=Spill(tmp_path))
    assert stream.read_all().to_pydict()["x"] == ["a", None, "a"]
    assert "read first" in stream.sorting


def test_a_new_promise_brings_nothing_back(tmp_path: Path) -> None:
    """Values that are evaluated again for an undeclared promise return to files, and no row is lost."""
    left, right = stream(2000, 0, 50, 10**5), stream(2000, 1, 50, 10**5)
    schema = left[0].schema
    asked: dict[str, Any] = {"on": "k", "condition": "r.t <= l.t AND r.id <= l.id + 10", "how": "left",
                             "pick": LAST}  # fmt: skip
    free = SymmetricHashJoin(schema, schema, **asked)
    op = SymmetricHashJoin(schema, schema, **asked, memory_limit=700_000, when_full=Spill(str(tmp_path)))
    want, got = Counter[str](), Counter[str]()
    for a, b in zip(left, right, strict=True):
        for found, each in ((want, free), (got, op)):
            found += rows_of(each.push("left", a)) + rows_of(each.push("right", b))
    for found, each in ((want, free), (got, op)):
        found += rows_of(each.advance("right", {"id": 1500}))
    assert op.metrics.state_bytes <= 700_000 < free.metrics.state_bytes
    assert want + rows_of(free.finish()) == got + rows_of(op.finish())


@pytest.mark.parametrize("broken", ["full", "lost"])
def test_a_disk_that_is_full(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything has changed the batch is refused; while rows are on their way from file to file, all stops."""
    left, right = stream(3000, 0, 50, 10**5), stream(3000, 1, 50, 10**5)
    schema = left[0].schema
    free = SymmetricHashJoin(schema, schema, **ASOF, pick=LAST)
    want = fed(free, left, right, "left")
    asked: dict[str, Any] = ASOF | {"pick": LAST, "when_full": Spill(str(tmp_path))}
    op = SymmetricHashJoin(schema, schema, **asked, memory_limit=500_000)
    written = stored.filed
    room = [0]

    def filed(*given: Any) -> list[pa.RecordBatch]:
        if room[0] == 0:
            raise MemoryLimitError("cannot spill: no space left on device")
        room[0] -= 1
        return written(*given)

    monkeypatch.setattr(stored, "filed", filed)
    got, refusals = Counter[str](), list[str]()
    for name, batches in (("left", left), ("right", right)):
        for b in batches:
            for tries in count():
                first = broken == "full" and name == "left"
                room[0] = 0 if (first and tries == 0) or (broken == "lost" and name == "right") else 1000
                out, said = tried(op, name, b)
                got += out
                if not said:
                    break
                refusals.append(said)
                if said.startswith("SpillError"):
                    assert broken == "lost"
                    assert "no space left on device. The state is incomplete" in said
                    with pytest.raises(ProtocolError, match="stopped"):
                        op.push(name, b)
                    return
        got += rows_of(op.finish(name))
    assert broken == "full"
    assert len(refusals) > 1
    assert all("no space left" in said for said in refusals)
    assert got == want


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = (pa.Table.from_batches(stream(3000, s, 40, 10**5)) for s in (0, 1))
    for name, table in (("l", left), ("r", right.take(np.random.default_rng(1).permutation(len(right))))):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    files, out = [str(tmp_path / f"{name}.parquet") for name in ("l", "r")], tmp_path / "out.parquet"
    within = ["--memory-limit", "1MB", "--when-full", "spill", "--spill-dir", str(tmp_path)]
    assert main(["asof", *files, "--on", "t", "--by", "k", *within, "-o", str(out)]) == 0
    assert "it was sorted, by r.t" in capsys.readouterr().err
    want = asof_join(left, right, on="t", by="k").read_all()
    got = pq.read_table(out).sort_by("id")
    assert got.select(["id", "t", "t_right"]).equals(want.select(["id", "t", "t_right"]))
    assert main(["asof", *files, "--on", "t", "--memory-limit", "much"]) == 2
    assert "memory_limit is 'much'" in capsys.readouterr().err


def test_aggregates_that_do_not_fit_are_not_restored() -> None:
    batches = stream(2000, 0, 50, 10**5)
    schema = batches[0].schema
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="r.t BETWEEN l.t AND l.t + 5", left_order="t", right_order="t",
        aggregate={"n": ("*", "count")}, how="left",
    )
    for b in batches:
        assert not list(op.push("left", b))
    with pytest.raises(MemoryLimitError, match="No operator was made"):
        SymmetricHashJoin.restore(op.snapshot(), memory_limit=300_000)


def test_mistakes() -> None:
    t = pa.table({"k": [1], "t": [1]})
    with pytest.raises(IvjoinError, match="when_full='shed' cannot be used with pick='last'.*Use when_full='spill'"):
        band_join(t, t, on="k", condition="r.t <= l.t", pick=LAST, memory_limit="1MB", when_full="shed")
    with pytest.raises(IvjoinError, match="no option 'spill_dir'; write when_full=ivjoin.Spill"):
        asof_join(t, t, on="t", by="k", memory_limit="1MB", spill_dir="/tmp")
    with pytest.raises(IvjoinError, match="without a limit"):
        asof_join(t, t, on="t", by="k", when_full="spill")
    with pytest.raises(IvjoinError, match="memory_limit is 'much'"):
        asof_join(t, t, on="t", by="k", memory_limit="much")


@pytest.mark.parametrize("saved", [False, True])
def test_rows_that_a_refused_batch_evicts_are_not_lost(saved: bool) -> None:
    """No left row can take them any more; the next batch emits them, also after a snapshot."""
    schema = pa.schema([("t", pa.int64()), ("p", pa.string())])
    op = SymmetricHashJoin(
        schema, schema, condition="l.t < r.t AND r.t < l.t + 5", how="full", pick=LAST, left_order="t",
        memory_limit=60_000,
    )

    def push(side: str, times: Iterable[int], payload: str = "") -> list[pa.RecordBatch]:
        times = list(times)
        return list(op.push(side, pa.record_batch([times, [payload] * len(times)], schema=schema)))

    out = push("right", range(400)) + push("left", [5]) + push("left", [380])
    before = op.metrics.state_rows
    assert before > 390
    with pytest.raises(MemoryLimitError):
        push("left", [390] * 100, "x" * 1000)
    assert op.metrics.state_rows == before
    assert len(op._engine.right) < 400
    assert op.metrics.state_bytes > op._engine.bytes_held()  # the evicted rows count
    if saved:
        op = SymmetricHashJoin.restore(op.snapshot())
        assert op.metrics.state_rows == before
    out += push("left", [391]) + list(op.finish())
    assert sorted(t for b in out for t in b["t_right"].to_pylist() if t is not None) == list(range(400))
    m = op.metrics
    assert (m.right_rows_in, m.right_rows_retired, m.state_rows) == (400, 400, 0)
