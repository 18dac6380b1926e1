"""Joins that spill rows to a folder, and their rows in memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from join.refused import pushed_on
from oracle import rows_of

from ivjoin import MemoryLimitError, Spill, SymmetricHashJoin

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "s": pa.string(), "v": pa.float64()})

# What lies in files: rows with their index; arrays of the index; structs.
KINDS = "key", "no key", "struct"


def schema_of(kind: str) -> pa.Schema:
    return SCHEMA.append(pa.field("p", pa.struct({"a": pa.int32()}))) if kind == "struct" else SCHEMA


def question_of(kind: str, how: str = "full") -> dict[str, Any]:
    band = "abs(l.t - r.t) <= 2000"
    on = {"on": "k"} if kind != "no key" else {}
    condition = band if on else f"{band} AND abs(l.v - r.v) < 0.002"
    return {**on, "condition": condition, "how": how, "left_order": "t", "right_order": "t"}


def drawn(kind: str, i: int, side: str, n: int = 200) -> pa.RecordBatch:
    rng = np.random.default_rng((i, side == "left"))
    columns: list[Any] = [
        rng.integers(0, 700, n), np.sort(rng.integers(0, 100, n)) + 100 * i,
        [None if x == 0 else "y" * int(x) for x in rng.integers(0, 30, n)], rng.random(n),
    ]  # fmt: skip
    if kind == "struct":
        columns.append([{"a": int(x)} for x in rng.integers(0, 9, n)])
    return pa.record_batch(columns, schema=schema_of(kind))


def pushed(op: SymmetricHashJoin, kind: str, turns: range) -> Counter[str]:
    got: Counter[str] = Counter()
    for i in turns:
        for side in ("left", "right"):
            got += rows_of(op.push(side, drawn(kind, i, side)))
    return got


def whole(kind: str, turns: int) -> Counter[str]:
    """All rows of the join in memory."""
    schema = schema_of(kind)
    op = SymmetricHashJoin(schema, schema, **question_of(kind))
    return pushed(op, kind, range(turns)) + rows_of(op.finish())


def goes_on(op: SymmetricHashJoin, kind: str, turns: int, folder: Path, says: str, at_turn: Any = None) -> int:
    """Push all; a batch that is refused is pushed to what a snapshot restores elsewhere. How many were."""
    got: Counter[str] = Counter()
    errors = 0

    def elsewhere(e: MemoryLimitError, refusing: SymmetricHashJoin) -> SymmetricHashJoin:
        nonlocal errors
        assert says in str(e)
        errors += 1
        limit: dict[str, Any] = {"memory_limit": 60_000, "when_full": Spill(folder)}
        return SymmetricHashJoin.restore(refusing.snapshot(), **limit)

    for i in range(turns):
        if at_turn is not None:
            at_turn(op, i)
        for side in ("left", "right"):
            op, out = pushed_on(op, side, drawn(kind, i, side), elsewhere)
            got += rows_of(out)
    got += rows_of(op.finish())
    assert got == whole(kind, turns)
    return errors
