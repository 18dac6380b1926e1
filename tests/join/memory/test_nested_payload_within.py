"""Nested columns and dictionaries under a limit: memory that Arrow will use is reserved before it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import rows_of

from ivjoin import MemoryLimitError, Spill, SymmetricHashJoin
from ivjoin.errors import CapacityError
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.values import segments
from ivjoin.shj.store.values.segments import SegmentColumn

pytestmark = pytest.mark.nojit

WINDOW = {"on": "k", "condition": "abs(l.t - r.t) <= 5000", "left_order": "t", "right_order": "t"}
Make = Callable[[np.random.Generator, int], pa.Array]


def words(rng: np.random.Generator, n: int) -> pa.Array:
    return pa.array([f"word {x:04d}" for x in rng.integers(0, 3000, n)])


PAYLOAD: dict[str, Make] = {
    "lists": lambda rng, n: pa.array([[1.5] * int(m) for m in rng.integers(0, 9, n)], pa.list_(pa.float64())),
    "bits": lambda rng, n: pa.StructArray.from_arrays(
        [pa.array(rng.random(n) < 0.5, mask=rng.random(n) < rng.choice([0, 0.1])) for _ in range(16)],
        [f"bit {i}" for i in range(16)],
    ),
    "dictionary": lambda rng, n: words(rng, n).dictionary_encode(),
    "dictionary with more": lambda rng, n: pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 300, n), pa.int32()), pa.array([f"word {x}" for x in range(300)])
    ),
}


def test_promises_belong_to_one_operator() -> None:
    held = [40]
    account = Account(lambda: held[0])
    account.limit = 100
    account.promise(50)
    assert account.fits(10)
    assert not account.fits(11)
    with pytest.raises(CapacityError, match="needs 61 more"):
        account.promise(11)
    assert account.promised == 50
    assert account.fits_now()


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("when_full", ["spill", "raise"])
@pytest.mark.parametrize("kind", PAYLOAD)
def test_several_such_columns_fit_together_or_are_refused(kind: str, when_full: str, tmp_path: Path) -> None:
    """At limits at which each column of a batch would fit alone."""
    rng = np.random.default_rng(len(kind))
    make = PAYLOAD[kind]

    def batch(i: int, n: int) -> pa.RecordBatch:
        columns = {f"p{c}": make(rng, n) for c in range(5)}
        return pa.record_batch({"k": rng.integers(0, 900, n), "t": np.arange(200 * i, 200 * i + n), **columns})

    batches = [[batch(i, int(rng.integers(1, 200))) for i in range(8)] for _ in range(2)]
    schema = batches[0][0].schema
    free = SymmetricHashJoin(schema, schema, **WINDOW)
    want = [rows_of(free.push(side, batches[s][i])) for i in range(8) for s, side in enumerate(("left", "right"))]
    most = free.metrics.peak_state_bytes
    full: Any = Spill(tmp_path) if when_full == "spill" else when_full
    refused = 0
    for limit in [max(60_000, most * part // 10) for part in (3, 5, 7, 9, 11)]:
        op = SymmetricHashJoin(schema, schema, **WINDOW, memory_limit=limit, when_full=full)
        for at, found in enumerate(want):
            try:
                got = rows_of(op.push(("left", "right")[at % 2], batches[at % 2][at // 2]))
            except MemoryLimitError:
                assert when_full == "raise"
                refused += 1
                break
            assert got == found
            assert op.metrics.state_bytes <= limit
        assert op.metrics.peak_state_bytes <= limit
    assert (refused > 0) == (when_full == "raise")


@pytest.mark.parametrize("kind", PAYLOAD)
def test_columns_in_files_stay_there_when_rows_are_renumbered(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_AT_ONCE", 2048)
    rng = np.random.default_rng(3)
    arrays = [PAYLOAD[kind](rng, n) for n in (70, 300, 9)]
    column, values = SegmentColumn(arrays[0].type), [v for a in arrays for v in a.to_pylist()]
    for first, array in zip((0, 70, 370), arrays, strict=True):
        if first == 370:
            column.spill(Files(str(tmp_path)))
        column.append(array, first)
    ids = np.flatnonzero(rng.random(379) < 0.4)
    assert column.nbytes > 0
    assert column.disk() > 0
    column.select(ids, ids, 512)
    assert column.nbytes == 0
    assert column.lies_in_files
    every = np.arange(len(ids))
    assert column.gather(every, every).to_pylist() == [values[i] for i in ids]
    column.append(arrays[2], len(ids))
    assert column.nbytes > 0
    few = np.array([1, len(ids) + 4])
    assert column.gather(few, few).to_pylist() == [values[ids[1]], values[374]]
    none = np.arange(0)
    column.select(none, none, 64)
    assert (column.nbytes, column.lies_in_files, column.disk()) == (0, False, 0)
