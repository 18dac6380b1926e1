"""The experiment ivjoin started from: batch size x cardinality x table size, with an effective window of two values."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from bench.case import Band, Case

__all__ = ["CASES", "seed_case"]

CONDITION = "l.s + 1 > r.s + 5 AND l.s + 3 < r.s + 10"
GRID = (128, 512, 2048, 4096)


def _side(card: int, rows: int, seed: int) -> pa.Table:
    """``s`` is the row number, one less with probability 0.3: it never falls."""
    rng = np.random.default_rng(seed)
    return pa.table({
        "k": pa.array(rng.integers(0, card, rows).astype(np.int32)),
        "s": pa.array((np.arange(rows) - (rng.random(rows) < 0.3)).astype(np.int32)),
    })


def _make(card: int, rows: int) -> tuple[pa.Table, pa.Table]:
    return _side(card, rows, 1), _side(card, rows, 2)


def seed_case(card: int, rows: int, *tags: str) -> Case:
    return Case(
        f"seed/{card} keys/{rows} rows",
        "the pruning symmetric hash join's own experiment: int32 keys, s ascending by row, PCG64 seeds 1 and 2",
        partial(_make, card, rows), CONDITION, Band("s", 5, 6), ("k",), tags=frozenset(tags),
        batches=GRID[::3] if tags == ("smoke",) else GRID,
    )


CASES = [
    *(seed_case(card, 4096, "smoke") for card in (8, 1024)),
    *(seed_case(card, rows, "quick" if rows in (8192, 65536) else "full", "full")
      for rows in (8192, 16384, 32768, 65536) for card in (8, 64, 1024)),
    *(seed_case(card, 10**6, "quick", "full") for card in (8, 64, 1024)),
    *(seed_case(card, 10**7, "full") for card in (8, 64, 1024)),
]
