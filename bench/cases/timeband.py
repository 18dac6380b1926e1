"""Events that meet within seconds of each other: a timestamp band, keys uniform and by Zipf's law, three join types."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from bench.case import Band, Case

__all__ = ["CASES"]

CONDITION = "l.ts >= r.ts - INTERVAL '10 seconds' AND l.ts <= r.ts + INTERVAL '5 seconds'"
BAND = Band("ts", -10_000_000, 5_000_000)
START = 1_700_000_000_000_000


def side(rows: int, keys: int, rate: float, zipf: float, seed: int) -> pa.Table:
    """``rate`` rows a second at random moments; key 0 is the most frequent of a Zipf law with that exponent."""
    rng = np.random.default_rng(seed)
    if zipf:
        weights = np.arange(1, keys + 1) ** -zipf
        k = rng.choice(keys, rows, p=weights / weights.sum())
    else:
        k = rng.integers(0, keys, rows)
    ts = np.sort(rng.integers(0, int(rows * 1_000_000 / rate), rows)) + START
    return pa.table({
        "k": pa.array(k, pa.int64()), "ts": pa.array(ts, pa.timestamp("us")),
        "v": pa.array(np.arange(rows), pa.int64()),
    })  # fmt: skip


def make(rows: int, keys: int, rate: float, zipf: float) -> tuple[pa.Table, pa.Table]:
    return side(rows, keys, rate, zipf, 1), side(rows, keys, rate, zipf, 2)


def case(law: str, how: str, rows: int, *tags: str) -> Case:
    # uniform: 1,000 rows a second, 15,000 a side alive, 1.5 matches a row; Zipf: 10 rows a second, 150 alive, 9 a row
    rate, zipf = (1000.0, 0.0) if law == "uniform" else (10.0, 1.2)
    return Case(
        f"time-{law}/{how}/{rows} rows", f"10^4 keys, {law}, timestamps at random moments, PCG64 seeds 1 and 2",
        partial(make, rows, 10_000, rate, zipf), CONDITION, BAND, ("k",), how, batches=(512, 4096),
        tags=frozenset(tags),
    )  # fmt: skip


CASES = [
    case(law, how, rows, *tags)
    for law in ("uniform", "zipf")
    for how in ("inner", "left", "full")
    for rows, tags in ((5000, ("smoke",)), (10**6, ("quick", "full")), (10**7, ("full",)))
    if not (rows == 10**7 and (law, how) != ("uniform", "inner"))
]
