"""Measure the bytes of state for each byte of payload, by window size and kind of row.

    python -m bench.memory                   # windows of 1,000 to 100,000 rows a side
    python -m bench.memory --rows 1000       # only one window

Batches of 1,024 rows are pushed to both sides in turn until four windows have passed. The payload is ``nbytes`` of the
columns in Arrow. The state is ``metrics.state_bytes`` after each push of the last window, when the window is full.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.runner import RESULTS, save
from bench.tables import memory_table

__all__ = ["KINDS", "held", "main"]

BATCH = 1024
WINDOWS = (1_000, 10_000, 100_000)
_TIMES = "l.t BETWEEN r.t - INTERVAL {0} MILLISECONDS AND r.t + INTERVAL {0} MILLISECONDS"


def _rows(rng: np.random.Generator, start: int, keys: int) -> dict[str, Any]:
    """Rows from row ``start`` on, one a millisecond."""
    t = pa.array(np.arange(start, start + BATCH) * 1000, pa.timestamp("us"))
    return {"k": rng.integers(0, keys, BATCH), "t": t, "v": np.arange(BATCH)}


def _text(rng: np.random.Generator, start: int) -> dict[str, Any]:
    names = [f"name-{i:012d}" for i in range(start, start + BATCH)]
    return _rows(rng, start, 1000) | {"name": names, "city": [f"city {i % 977}" for i in range(BATCH)]}


def _wide(rng: np.random.Generator, start: int) -> dict[str, Any]:
    return _rows(rng, start, 1000) | {f"c{i}": rng.random(BATCH) for i in range(17)}


def _text_key(rng: np.random.Generator, start: int) -> dict[str, Any]:
    return _rows(rng, start, 1000) | {"k": [f"key {i}" for i in rng.integers(0, 1000, BATCH)]}


def _floats(rng: np.random.Generator, start: int) -> dict[str, Any]:
    return _rows(rng, start, 1000) | {"t": np.arange(start, start + BATCH) / 1.0}


Make = Callable[[np.random.Generator, int], dict[str, Any]]
# What the rows are, how they are made, and the condition for a reach of {0} rows.
KINDS: list[tuple[str, Make, str]] = [
    ("key, timestamp, long; 100 keys", lambda rng, i: _rows(rng, i, 100), _TIMES),
    ("key, timestamp, long; 1,000 keys", lambda rng, i: _rows(rng, i, 1000), _TIMES),
    ("key, timestamp, long; 10,000 keys", lambda rng, i: _rows(rng, i, 10_000), _TIMES),
    ("and two strings; 1,000 keys", _text, _TIMES),
    ("and 17 doubles; 1,000 keys", _wide, _TIMES),
    ("a string as key; 1,000 keys", _text_key, _TIMES),
    ("a band of doubles; 1,000 keys", _floats, "l.t BETWEEN r.t - {0} AND r.t + {0}"),
]


def held(kind: str, make: Make, condition: str, window: int) -> dict[str, Any]:
    """The state of one join while its window is full, as a record."""
    from ivjoin import SymmetricHashJoin

    rng = np.random.default_rng(1)
    schema = pa.record_batch(make(rng, 0)).schema
    op = SymmetricHashJoin(
        schema, schema, on="k", condition=condition.format(window), left_order="t", right_order="t"
    )
    pushes = 4 * max(1, -(-window // BATCH))
    payload = rows = 0
    states = []
    for i in range(pushes):
        for side in ("left", "right"):
            batch = pa.record_batch(make(rng, i * BATCH))
            payload, rows = payload + batch.nbytes, rows + BATCH
            for _ in op.push(side, batch):
                pass
        if i * 4 >= pushes * 3:
            m = op.metrics
            states.append((m.state_bytes / m.state_rows, m.state_rows))
    each = statistics.median(s for s, _ in states)
    return {
        "kind": "memory", "rows": kind, "window": window, "state_rows": max(n for _, n in states),
        "payload_bytes": payload / rows, "state_bytes": each, "ratio": each / (payload / rows),
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.memory", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, nargs="*", default=WINDOWS, help="windows, in rows a side")
    p.add_argument("--out", default=str(RESULTS / "memory.jsonl"))
    args = p.parse_args(argv)
    records = [held(*kind, window) for kind in KINDS for window in args.rows]
    save(Path(args.out), records)
    print(memory_table(records))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
