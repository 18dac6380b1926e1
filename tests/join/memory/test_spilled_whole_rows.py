"""Rows whose index lies in files.

``drivers/restored.py`` compares random joins whose index is spilled with the same joins in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import rows_of

from ivjoin import SymmetricHashJoin
from ivjoin.operator.memory import candidates
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.rows.spilled_rows import SpilledRows

LIMIT = 24_000
BAND = "abs(l.t - r.t) <= 60"
ORDERED = {"left_order": "t", "right_order": "t"}
BAND_QUESTION: dict[str, Any] = {"on": "k", "condition": BAND, **ORDERED}
ONE_ORDER: dict[str, Any] = {"on": "k", "condition": BAND, "left_order": "t"}
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.float64()), ("s", pa.string())])


def drawn(rng: np.random.Generator, t: int, n: int, keys: int) -> pa.RecordBatch:
    def some(values: Any) -> list[Any]:
        return [None if rng.random() < 0.06 else v for v in values]

    return pa.record_batch(
        [
            some(rng.integers(-1, keys, n).tolist()), np.sort(rng.integers(t, t + 20, n)), some(rng.random(n).tolist()),
            some(["y" * int(x) for x in rng.integers(0, 12, n)]),
        ], schema=SCHEMA,
    )  # fmt: skip


def rows_in_files(op: SymmetricHashJoin) -> int:
    engine: Any = op._engine
    return 0 if engine.in_files is None else engine.in_files.live


def pushed_alike(
    op: SymmetricHashJoin, free: SymmetricHashJoin, rng: np.random.Generator, turns: int, n: int, keys: int
) -> Iterator[None]:
    """Push the same rows to both in turns, whose output must be the same; comes back after each push."""
    for i in range(turns):
        for side in ("left", "right"):
            batch = drawn(rng, 20 * i, n, keys)
            assert rows_of(op.push(side, batch)) == rows_of(free.push(side, batch))
            yield


@pytest.mark.slow
def test_rows_of_one_side_go_first() -> None:
    rng = np.random.default_rng(6)
    question = {**BAND_QUESTION, "condition": "abs(l.t - r.t) <= 2000"}
    free = SymmetricHashJoin(SCHEMA, SCHEMA, **question)
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **question, memory_limit=120_000, when_full="spill")
    for _ in pushed_alike(op, free, rng, 8, 160, 1000):
        pass
    engine: Any = op._engine
    assert 0 < rows_in_files(op) < free.metrics.state_rows
    assert 0 in [rows.live for rows in engine.in_files.sides]
    assert rows_of(op.finish()) == rows_of(free.finish())


@pytest.mark.parametrize("keys, whole_rows", [(3, False), (300, True)])
def test_rows_are_spilled_whole_unless_a_key_has_many(keys: int, whole_rows: bool) -> None:
    """A spilled row is found by its key alone, so a probe row would read all rows of a frequent key."""
    rng = np.random.default_rng(7)
    question = {**BAND_QUESTION, "condition": "abs(l.t - r.t) <= 500 AND abs(l.v - r.v) < 0.001", "how": "full"}
    free = SymmetricHashJoin(SCHEMA, SCHEMA, **question)
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **question, memory_limit=90_000, when_full="spill")
    for _ in pushed_alike(op, free, rng, 12, 160, keys):
        pass
    assert op.metrics.spilled_bytes > 0
    assert (rows_in_files(op) > 0) == whole_rows
    assert rows_of(op.finish()) == rows_of(free.finish())


def test_capacity_that_the_coming_rows_need_is_never_given_up() -> None:
    """Otherwise the kernels refuse the push again and again, until it fails."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="abs(l.t - r.t) <= 100000", **ORDERED, memory_limit=LIMIT, when_full="spill"
    )
    for t in range(0, 2000, 250):
        for _ in op.push("right", pa.record_batch({"k": range(t, t + 250), "t": range(t, t + 250)}, schema)):
            raise AssertionError
    engine: Any = op._engine
    assert engine.in_files.live
    store = engine.stores[0]
    store.make_room(256)
    freed = 0
    while engine.in_files.free_memory(0, 256, 1000, 1 << 30):
        assert store.cap >= 256
        freed += 1
    assert freed > 1 and engine.stores[1].live == 0


@pytest.mark.slow
def test_bounds_of_the_output_know_rows_in_files() -> None:
    rng = np.random.default_rng(8)
    free = SymmetricHashJoin(SCHEMA, SCHEMA, **ONE_ORDER)
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **ONE_ORDER, memory_limit=LIMIT, when_full="spill")
    for _ in pushed_alike(op, free, rng, 8, 150, 60):
        pass
    assert rows_in_files(op) > 0
    assert op.output_bounds() == free.output_bounds()


def test_row_groups_behind_the_frontier_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SpilledRows(Files(str(tmp_path)), [pa.int64(), pa.string()], 1, 64)
    n = 1000
    axes = np.arange(n)[None]
    payload = [pa.array(range(n)), pa.array([str(i) for i in range(n)])]
    rows.append(np.arange(n) << 40, axes, payload, np.zeros(n, dtype=bool), {})

    def read(*_: Any) -> None:
        raise AssertionError("a block was read")

    monkeypatch.setattr(type(rows.records), "rows", read)
    for numbers in rows.outside([(640, 2**62)]):
        rows.drop(numbers)
    assert rows.live == rows.top - 640
    for numbers in rows.outside(None):
        rows.drop(numbers)
    assert rows.live == 0


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(4))
def test_found_are_those_with_the_hash(seed: int, tmp_path: Path) -> None:
    """Against a dictionary: any batches, evicted rows, hashes that share many bits, and deleted blocks."""
    rng = np.random.default_rng(seed)
    rows = SpilledRows(Files(str(tmp_path)), [pa.int64(), pa.string()], 1, 16)
    there: dict[int, tuple[int, int]] = {}  # number: hash, value
    for _ in range(40):
        n = int(rng.choice([1, 5, 40]))
        hashes = rng.integers(0, 9, n) << int(rng.choice([0, 31, 58]))
        first, values = rows.top, rng.integers(-(2**62), 2**62, n)
        texts = pa.array([None if v % 5 == 0 else "x" * int(v % 7) for v in values], pa.string())
        rows.append(hashes, values[None], [pa.array(values), texts], values % 2 == 0, {})
        there |= {first + i: (int(h), int(v)) for i, (h, v) in enumerate(zip(hashes, values, strict=True))}
        low, high = sorted(rng.integers(-(2**62), 2**62, 2).tolist())
        for numbers in rows.outside([(low - 2**62, high + 2**62)]):
            for k in numbers.tolist():
                assert not low - 2**62 <= there.pop(k)[1] <= high + 2**62
            rows.drop(numbers)
        assert all(low - 2**62 <= v <= high + 2**62 for _, v in there.values())
        gone = rng.choice(sorted(there), size=len(there) // 4, replace=False) if there else np.empty(0, np.int64)
        rows.drop(np.sort(gone.astype(np.int64)))
        for k in gone.tolist():
            del there[k]
        asked = np.unique(np.concatenate([hashes, rng.integers(0, 9, 3) << 31]))
        found = set()
        for which, taken in rows.find(asked):
            assert taken.column(0).to_pylist() == taken.axis(0).tolist()
            for a, k, text in zip(which.tolist(), taken.numbers.tolist(), taken.column(1).to_pylist(), strict=True):
                h, v = there[k]
                assert h >> 31 == int(asked[a]) >> 31  # what a run keeps of it
                assert text == (None if v % 5 == 0 else "x" * (v % 7))
                assert bool(rows.matched(np.array([k]))[0]) == (v % 2 == 0)
                found.add((int(asked[a]), k))
        assert found >= {(int(a), k) for a in asked for k, (h, _) in there.items() if h == a}
        assert rows.live == len(there)


def test_what_several_runs_find_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SpilledRows(Files(str(tmp_path)), [pa.int64()], 1, 16)
    for first in (0, 800, 1000):  # the later ones are too few to be merged with the first
        n = 800 if first == 0 else 200 if first == 800 else 40
        values = np.arange(first, first + n)
        rows.append(values << 40, values[None], [pa.array(values)], np.zeros(n, dtype=bool), {})
        rows.index()
    assert len(rows._runs) > 1
    read: list[int] = []
    rows_of_log = type(rows.records).rows
    monkeypatch.setattr(
        type(rows.records), "rows", lambda self, ids, places: (read.append(len(ids)), rows_of_log(self, ids, places))[1]
    )
    asked = np.array([1030, 5, 900, 2000])
    ((which, taken),) = rows.find(asked << 40)
    assert read == [3]
    assert dict(zip(asked[which].tolist(), taken.column(0).to_pylist(), strict=True)) == {5: 5, 900: 900, 1030: 1030}


@pytest.mark.parametrize("seed", range(3))
def test_byte_strings_are_compared_to_their_last_byte(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = ["", "a", "ab", "abc", "abd", "ab\0", "b"]
    ours, theirs = rng.choice(words, 40).tolist(), rng.choice(words, 90).tolist()
    which = rng.integers(0, len(ours), len(theirs))
    a, b = Bytes.of(pa.array(ours)), Bytes.of(pa.array(theirs))
    same = candidates._same(a, b, which)
    assert same is not None
    assert same.tolist() == [ours[w] == word for w, word in zip(which.tolist(), theirs, strict=True)]
    assert candidates._same(a, a, np.arange(len(ours))) is None
