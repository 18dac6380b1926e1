"""A join with large output batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin import SymmetricHashJoin

ROWS, KEYS, REACH = 600, 2, 8

PAYLOADS: dict[str, Any] = {
    "doubles": lambda n, rng: pa.array(rng.random(n)),
    "nulls": lambda n, rng: pa.array(rng.random(n), mask=rng.random(n) < 0.3),
    "text": lambda n, rng: pa.array(["x" * int(s) for s in rng.integers(0, 40, n)]),
    "lists": lambda n, rng: pa.array([list(range(int(s))) for s in rng.integers(0, 9, n)]),
}


def pushes(kind: str, n: int, seed: int = 0) -> list[tuple[str, pa.RecordBatch]]:
    """n batches a side, with some eight partners a row; of batches of different length, so is the output."""
    made = PAYLOADS[kind]
    out, at = [], 0
    for i in range(n):
        rng = np.random.default_rng((seed, i))
        rows = int(rng.integers(ROWS // 4, 2 * ROWS))
        for side in ("left", "right"):
            columns = {"k": pa.array(rng.integers(0, KEYS, rows)), "t": pa.array(np.arange(at, at + rows))}
            out.append((side, pa.RecordBatch.from_pydict({**columns, "v": made(rows, rng)})))
        at += rows
    return out


def join(schema: pa.Schema, **options: Any) -> SymmetricHashJoin:
    condition = f"l.t BETWEEN r.t - {REACH} AND r.t + {REACH}"
    return SymmetricHashJoin(
        schema, schema, on="k", condition=condition, left_order="t", right_order="t", **{"batch_size": 4096} | options
    )
