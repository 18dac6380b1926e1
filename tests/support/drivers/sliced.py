"""Tables that several threads join in slices, and the rows of one thread."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
from oracle import rows_of

from ivjoin import band_join

BAND = "l.x BETWEEN r.x - 6 AND r.x + 3"


def side(seed: int, rows: int, rough: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.integers(0, 2, rows)) - rng.integers(0, rough + 1, rows)
    k = rng.integers(0, 40, rows)
    null = rng.random(rows) < 0.05
    return pa.table({
        "k": pa.array(k, pa.int32(), mask=null), "s": pa.array([f"key {i % 7}" for i in k], mask=null),
        "x": x, "v": np.arange(rows),
    })  # fmt: skip




def both(left: pa.Table, right: pa.Table, threads: int = 3, **options: Any) -> tuple[Any, Any]:
    """Joins of two tables as streams, by one and by several threads, read to their ends, with the same rows."""
    streams = [band_join(left.to_reader(512), right.to_reader(512), threads=n, **options) for n in (1, threads)]
    tables = [s.read_all() for s in streams]
    assert tables[0].schema == tables[1].schema
    assert rows_of(tables[1]) == rows_of(tables[0])
    return streams[0], streams[1]


def all_ended() -> bool:
    """Whether no thread is at work, now or shortly after: the caller does not wait for threads."""
    end = time.monotonic() + 20
    while at_work() and time.monotonic() < end:
        time.sleep(0.005)
    return not at_work()


def at_work() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "ivjoin slice"]
