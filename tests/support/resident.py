"""The memory of a process (malloc's, Arrow's and numpy's alike), and rows that may exceed it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

_STATM = Path("/proc/self/statm")
needs_resident = pytest.mark.skipif(not _STATM.exists(), reason="the system does not tell the resident size so")


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.float64(), "w": pa.float64()})


def batch(i: int, n: int, seed: int) -> pa.RecordBatch:
    """The i-th n rows of a side: nearly a key a row, a tick a row, two numbers."""
    rng = np.random.default_rng((i, seed))
    return pa.record_batch(
        [rng.integers(0, 200_000, n), np.arange(i * n, i * n + n), rng.random(n), rng.random(n)], schema=SCHEMA
    )
