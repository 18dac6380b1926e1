"""Pushes that are refused at a memory limit and go on elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from ivjoin import MemoryLimitError, SymmetricHashJoin

__all__ = ["pushed_on"]


def pushed_on(
    op: SymmetricHashJoin, side: str, batch: pa.RecordBatch,
    elsewhere: Callable[[MemoryLimitError, SymmetricHashJoin], SymmetricHashJoin],
) -> tuple[SymmetricHashJoin, list[pa.RecordBatch]]:
    """Push a batch; what was refused of it, to the operator that ``elsewhere`` makes of the one that refused it.

    Returns the last of the operators, and the output.
    """
    out: list[pa.RecordBatch] = []
    while batch.num_rows:
        try:
            for one in op.push(side, batch):
                out.append(one)
            break
        except MemoryLimitError as e:
            batch = batch.slice(e.rows_taken)
            op = elsewhere(e, op)
    return op, out
