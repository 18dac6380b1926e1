"""Inputs pushed in random pieces and turns, ended in any order, with watermarks and snapshots in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin import MultiJoin

PIECES = (1, 2, 5, 100)


def in_turns(
    rng: np.random.Generator, op: MultiJoin, batches: Mapping[str, pa.RecordBatch], orders: Mapping[str, Any], on: str,
    pieces: Sequence[int] = PIECES, advances: float = 0.3, restores: float = 0.0,
) -> Iterator[tuple[MultiJoin, list[pa.RecordBatch]]]:
    """After each call the operator, another one where it was restored, and what came out.

    ``advances`` and ``restores`` say how often a watermark of the column ``on`` follows a push, as near as the rows
    that are still to come let it be, and how often the operator is restored from a snapshot.
    """
    at, open_ = dict.fromkeys(batches, 0), list(batches)
    while open_:
        alias = str(rng.choice(open_))
        batch = batches[alias]
        if at[alias] < batch.num_rows:
            piece = batch.slice(at[alias], int(rng.choice(pieces)))
            at[alias] += piece.num_rows
            yield op, list(op.push(alias, piece))
            rest = [v for v in batch.column(on).slice(at[alias]).to_pylist() if v is not None and v == v]
            if rest and rng.random() < advances:
                falls = getattr(orders.get(alias), "descending", False)
                yield op, list(op.advance(alias, {on: max(rest) if falls else min(rest)}))
        else:
            open_.remove(alias)
            yield op, list(op.finish(alias))
        if rng.random() < restores:
            op = MultiJoin.restore(op.snapshot())


def pushed(op: MultiJoin, given: Mapping[str, pa.RecordBatch], size: int) -> int:
    """Push all inputs in turn, so many rows each; how many rows came out."""
    found = 0
    for start in range(0, max(batch.num_rows for batch in given.values()), size):
        for alias, batch in given.items():
            found += sum(b.num_rows for b in op.push(alias, batch.slice(start, size)))
    return found


def ids(aliases: Iterable[str], batches: Iterable[pa.RecordBatch]) -> Counter[tuple[int, ...]]:
    """The column ``id`` of each input, for the rows of some output."""
    names = [f"{a}_id" for a in aliases]
    found: Counter[tuple[int, ...]] = Counter()
    for out in batches:
        found.update(zip(*(out.column(n).to_pylist() for n in names), strict=True))
    return found
