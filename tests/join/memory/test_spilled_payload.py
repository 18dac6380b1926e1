"""Payload in logs: the rows of the join in memory, whatever the columns, and the number of bytes written."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracle import HOWS, rows_of

from ivjoin import MemoryLimitError, Order, Spill, SymmetricHashJoin
from ivjoin.shj.store.disk import logs
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.rows import spilled_payload

TYPES = {
    "f": pa.float64(), "i": pa.int16(), "b": pa.bool_(), "s": pa.string(), "w": pa.large_binary(),
    "d": pa.decimal128(30, 2), "z": pa.binary(5), "u": pa.uint8(),
}
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), *TYPES.items()])
BAND = "abs(l.t - r.t) <= 40"
ORDERED = {"left_order": "t", "right_order": "t"}
QUESTIONS: dict[str, dict[str, Any]] = {
    "band": {"on": "k", "condition": BAND, **ORDERED},
    "residual": {"on": "k", "condition": f"{BAND} AND (l.f + r.f < 1.2 OR l.n = r.i OR l.b)", **ORDERED},
    "no key": {"condition": "abs(l.t - r.t) <= 2 AND l.i <> r.u", **ORDERED},
    "disorder": {"on": "k", "condition": BAND, "left_order": Order("t", slack=60), "right_order": Order("t", slack=60)},
    "keys": {"on": ["k", "u"], "condition": BAND, **ORDERED},
}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that lie across segments, blocks and copies, with few of them."""
    monkeypatch.setattr(logs, "_SHIFT", 9)
    monkeypatch.setattr(logs, "_SEGMENT", 512)
    monkeypatch.setattr(logs, "_BLOCK_SHIFT", 11)
    monkeypatch.setattr(logs, "_LITTLE", 4096)
    monkeypatch.setattr(spilled_payload, "_AT_ONCE", 3000)


def drawn(rng: np.random.Generator, t: int, n: int, nulls: float, mixed: bool) -> pa.RecordBatch:
    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < nulls else v for v in values]

    times = rng.integers(t, t + 20, n)
    k = rng.integers(0, 4, n).tolist()
    text = ["x" * int(x) + str(x) for x in rng.choice([0, 1, 7, 30, 600], n, p=[0.2, 0.3, 0.3, 0.19, 0.01])]
    columns = [
        some(k), times if mixed else np.sort(times), some(rng.random(n).round(3).tolist()),
        some(rng.integers(-9, 9, n).tolist()), some([bool(x) for x in rng.integers(0, 2, n)]), some(text),
        some([x.encode() for x in reversed(text)]), some([Decimal(int(x)) / 100 for x in rng.integers(-999, 999, n)]),
        some([bytes(rng.integers(0, 255, 5).astype(np.uint8)) for _ in range(n)]),
        some(rng.integers(0, 2, n).tolist()),
    ]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


ALIGNED = ["k", "t", "f", "i", "b", "d", "u", "n", "more f", "more b", "more d"]
APART = [*ALIGNED, "z"]


def _of_words(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """More than eight columns without text, with one of four bytes, which lies across words behind one of five."""
    for name in "fbd":
        column = batch.column(name)
        batch = batch.append_column(f"more {name}", pa.concat_arrays([column[1:], column[:1]]))
    return batch.append_column("n", batch.column("i").cast(pa.int32())).select(names)


@pytest.mark.one_in(41)
@pytest.mark.parametrize("names", [ALIGNED, APART], ids=["aligned", "apart"])
@pytest.mark.parametrize(
    ("question", "how"), [(q, h) for i, q in enumerate(QUESTIONS) for j, h in enumerate(HOWS) if (i + j) % 2]
)
def test_output_of_records(question: str, how: str, names: list[str]) -> None:
    rng = np.random.default_rng(HOWS.index(how) * 11 + len(question))
    schema = _of_words(drawn(rng, 0, 1, 0.0, False), names).schema
    ask = {**QUESTIONS[question], "how": how}
    free = SymmetricHashJoin(schema, schema, **ask)
    limit = {"memory_limit": 26_000, "when_full": "spill"}
    op = SymmetricHashJoin(schema, schema, **ask, **limit)
    gathers = False
    for i in range(12):
        for side in ("left", "right"):
            batch = drawn(rng, 20 * i, int(rng.choice([1, 40, 150])), 0.1 if i > 4 else 0.0, False)
            batch = _of_words(batch, names)
            assert rows_of(op.push(side, batch)) == rows_of(free.push(side, batch))
            gathers |= any(op._engine.gathers)
        if i == 7:
            op = SymmetricHashJoin.restore(op.snapshot(), **limit)
    assert gathers or "semi" in how or "anti" in how
    assert rows_of(op.finish()) == rows_of(free.finish())


@pytest.mark.slow
def test_one_batch_larger_than_the_limit_is_taken_in_pieces() -> None:
    rng = np.random.default_rng(3)
    free = SymmetricHashJoin(SCHEMA, SCHEMA, **QUESTIONS["band"])
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **QUESTIONS["band"], memory_limit=26_000, when_full="spill")
    for side in ("left", "right"):
        batch = drawn(rng, 0, 500, 0.1, False)
        assert batch.nbytes > 26_000
        assert rows_of(op.push(side, batch)) == rows_of(free.push(side, batch))
        assert op.metrics.state_bytes <= 26_000
    assert op.metrics.spilled_rows > 0


@pytest.mark.slow
def test_evicted_rows_free_their_part_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **QUESTIONS["band"], memory_limit=26_000, when_full=Spill(tmp_path))
    sizes = []
    for i in range(24):
        for side in ("left", "right"):
            for _ in op.push(side, drawn(rng, 20 * i, 100, 0.1, False)):
                pass
        sizes.append(op.metrics.spilled_bytes)
    assert 0 < max(sizes[12:]) <= 2 * max(sizes[:12])


def test_a_log_is_what_was_written(tmp_path: Path) -> None:
    """Against bytes in memory: any pieces, in any order, after the front has been deleted."""
    rng = np.random.default_rng(6)
    log = logs.Log(Files(str(tmp_path)), 777)
    whole, low = b"", 0
    for _ in range(60):
        data = rng.integers(0, 255, int(rng.choice([0, 1, 100, 511, 512, 513, 3000]))).astype(np.uint8)
        log.append(data)
        whole += data.tobytes()
        low = int(rng.integers(low, len(whole) + 1)) if rng.random() < 0.3 else low
        log.trim(777 + low)
        begins = rng.integers(low, len(whole) + 1, 50)
        sizes = np.minimum(rng.integers(0, 900, 50), len(whole) - begins)
        outs = np.cumsum(sizes) - sizes
        out = np.zeros(int(sizes.sum()), np.uint8)
        log.read(begins + 777, sizes, outs, out)
        assert out.tobytes() == b"".join(whole[b : b + n] for b, n in zip(begins, sizes, strict=True))
        assert log.top == 777 + len(whole)
    assert log.nbytes < len(whole)
    assert not list(tmp_path.iterdir())


def test_log_without_capacity_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.Log(Files(str(tmp_path)))
    log.append(np.arange(200, dtype=np.uint8))

    def no_room(fd: int, at: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(MemoryLimitError, match="No space left on device"):
        log.append(np.zeros(1000, np.uint8))
    assert log.top == 200
    log.append(np.zeros(300, np.uint8))  # for which there is room
    out = np.zeros(200, np.uint8)
    log.read(np.array([0]), np.array([200]), np.array([0]), out)
    assert (out == np.arange(200)).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("limit", ["40kB", "90kB", "1MB"])
@pytest.mark.parametrize("t", [pa.int64(), pa.float16(), pa.timestamp("ns"), pa.decimal128(20, 0), pa.string()])
def test_run_ends_of_batches_that_are_taken_in_pieces(t: pa.DataType, limit: str, tmp_path: Path) -> None:
    n = 120
    whole = pa.array([None if i % 7 == 3 else i // 2 for i in range(n)])
    values = whole.cast(pa.float32()).cast(t) if t == pa.float16() else whole.cast(t)
    left = pa.record_batch({"i": range(n), "t": range(n), "p": pc.run_end_encode(values)})
    right = pa.record_batch({"t": range(n)})
    op = SymmetricHashJoin(
        left.schema, right.schema, condition=BAND, **ORDERED, memory_limit=limit, when_full=Spill(tmp_path)
    )
    want = values.to_pylist()
    got = [row for b in (*op.push("left", left), *op.push("right", right), *op.finish()) for row in b.to_pylist()]
    assert len(got) == sum(abs(i - j) <= 40 for i in range(n) for j in range(n))
    assert all(row["p"] == want[row["i"]] for row in got)
