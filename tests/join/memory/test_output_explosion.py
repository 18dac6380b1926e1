"""One row with very many matches: output in pieces, made when they are requested."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join.cases import in_blocks
from resident import needs_resident, resident

from ivjoin import SymmetricHashJoin

BAND = "l.a <= r.a + 1000000 AND l.a >= r.a - 1000000"
S = pa.schema({"k": pa.int64(), "a": pa.int64()})


def same_key(n: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(np.zeros(n, dtype=np.int64)), "a": pa.array(np.arange(n))})


def make(how: str = "inner", condition: str | None = None, **options: Any) -> Any:
    return SymmetricHashJoin(S, S, **{"on": "k", "how": how, "condition": condition, **options})


def seen_once(batches: Any, column: str, size: int) -> np.ndarray:
    parts = []
    for b in batches:
        assert 0 < b.num_rows <= size
        parts.append(b.column(b.schema.get_field_index(column)).to_numpy())
    return np.sort(np.concatenate(parts))


@pytest.mark.parametrize("size", [97, 1000, 65_536])
@pytest.mark.parametrize("stored", ["left", "right"])
def test_one_row_against_many(size: int, stored: str) -> None:
    n = 200_000 if size > 97 else 20_000
    op = make(batch_size=size)
    assert list(op.push(stored, same_key(n))) == []
    out = op.push("right" if stored == "left" else "left", same_key(1))
    np.testing.assert_array_equal(seen_once(out, "a" if stored == "left" else "a_right", size), np.arange(n))


@pytest.mark.slow
@needs_resident
@pytest.mark.parametrize("blocks", [True, False], ids=["blocks", "no-blocks"])
def test_the_probe_is_resumed_not_run_ahead(blocks: bool) -> None:
    """Nothing large waits in memory, neither with the first batch nor half way."""
    n, size = 2_500, 1000
    with in_blocks(blocks) as went:
        warm = make(condition=BAND, left_order="a", right_order="a", batch_size=size)
        list(warm.push("left", same_key(100)))
        list(warm.push("right", same_key(100)))
        op = make(condition=BAND, left_order="a", right_order="a", batch_size=size)
        list(op.push("left", same_key(n)))
        before = resident()
        out = op.push("right", same_key(n))
        rows = most = 0
        for i, b in enumerate(out):
            rows += b.num_rows
            assert b.num_rows <= size
            if i % 500 == 0:
                most = max(most, resident() - before)
    assert rows == n * n
    assert most < 40 << 20, "6 million pairs are 200 MB"
    assert any(went) == blocks


@pytest.mark.parametrize("how", ["left_semi", "left_anti", "right_semi", "right_anti"])
def test_semi_and_anti_do_not_explode(how: str) -> None:
    n = 20_000
    op = make(how, batch_size=1000)
    out = [*op.push("left", same_key(n)), *op.push("right", same_key(n)), *op.finish()]
    assert sum(b.num_rows for b in out) == (n if how.endswith("semi") else 0)
    assert all(b.num_rows <= 1000 for b in out)


def test_unmatched_rows_are_emitted_in_pieces_too() -> None:
    n = 100_000
    op = make("full", batch_size=1000)
    list(op.push("left", same_key(n)))
    assert len(seen_once(op.finish(), "a", 1000)) == n


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.nojit
def test_every_size_of_batch(size: int) -> None:
    """Resuming within a row, at its last match, and at the last row of a batch."""
    op = make("full", "l.a <= r.a + 1", batch_size=size)
    got = []
    for side, n in (("left", 4), ("right", 3), ("left", 2), ("", 0)):
        for b in op.push(side, same_key(n)) if side else op.finish():
            assert 0 < b.num_rows <= size
            got += [(r["a"], r["a_right"]) for r in b.to_pylist()]
    want = [(a, b) for a in (0, 1, 2, 3, 0, 1) for b in range(3) if a <= b + 1]
    assert sorted(got) == sorted(want)
