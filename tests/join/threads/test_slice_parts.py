"""The rows of a slice in the order of the axis, and how many of them are copies, against a sort of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.plan.cutting import Cut
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.stream.threads.pieces import Piece, follow
from ivjoin.stream.threads.slice_joins import SliceTask

ENDS = np.array([I64_MIN, I64_MIN + 1, -1, 0, 1, 2**31, 2**53, 2**62, I64_MAX - 1, I64_MAX])


def _pieces(rng: np.random.Generator, apart: bool) -> list[Piece]:
    out, first = [], 0
    for _ in range(int(rng.integers(1, 5))):
        n = int(rng.integers(1, 6))
        low = rng.choice(ENDS, n) if rng.random() < 0.3 else rng.integers(first, first + 10, n)
        by = int(rng.integers(-3, 4))
        low = np.maximum(np.sort(low), I64_MIN + 4)  # ranges begin above the least value
        high = low if rng.random() < 0.5 else np.maximum(low, rng.permutation(low))
        batch = pa.record_batch({"low": low})
        out.append(Piece(batch, low, high, by, by + 2, bool((high[:-1] <= high[1:]).all())))
        first += 10 if apart else 0
    return out


@pytest.mark.parametrize("seed", range(40))
def test_the_rows_of_a_slice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    node: Any = None
    for _ in range(25):
        pieces = _pieces(rng, bool(rng.random() < 0.5))
        start, end = sorted(int(x) for x in rng.choice([*ENDS, *range(50)], 2))
        both = bool(rng.random() < 0.5)
        cut = Cut(0, 0, node, False, (), (), both)
        low = np.concatenate([piece.lows() for piece in pieces])
        high = np.concatenate([piece.highs() for piece in pieces])
        rises = bool((low[:-1] <= low[1:]).all() and (high[:-1] <= high[1:]).all())
        assert len(pieces) == 1 or follow(pieces) is rises
        for p in (0, 1):
            sides: tuple[list[Piece], list[Piece]] = (pieces, []) if p == 0 else ([], pieces)
            part = SliceTask(cut, sides, start, end).part(p, pieces[0].batch.schema)
            order = np.arange(len(low)) if len(pieces) == 1 or rises else np.lexsort((high, low))
            rows = np.concatenate([piece.batch.column(0).to_numpy() for piece in pieces])[order]
            assert part.batch.column(0).to_numpy().tolist() == rows.tolist()
            assert part.start == (0 if p == 0 else int((low < start).sum()))
            assert part.end == (len(low) if end > I64_MAX else int((low < end).sum()))
