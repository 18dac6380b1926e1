"""Both sides of a join, pushed in pieces: in random turns, or one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
from join.tables import Ids, ids

from ivjoin import SymmetricHashJoin

SIDES = ("left", "right")
Then = Callable[[SymmetricHashJoin, int, int], Iterable[pa.RecordBatch]]


def fed(
    op: SymmetricHashJoin, tables: Sequence[pa.Table], how: str, rng: random.Random, sizes: Sequence[int] = (1, 3, 9),
    restores: float = 0.1, then: Then | None = None,
) -> tuple[Ids, SymmetricHashJoin]:
    """Push all rows and return the ids that are emitted, and the operator, which may be a restored one.

    ``then(op, side, rows)`` is called after each push, with the rows that the side has had; its batches count, too.
    """
    got, at = Ids(), [0, 0]
    while any(n < t.num_rows for n, t in zip(at, tables, strict=True)):
        p = rng.randrange(2)
        n = rng.choice(sizes)
        for piece in tables[p].slice(at[p], n).combine_chunks().to_batches():
            got += ids(op.push(SIDES[p], piece), how)
        at[p] += n
        if then is not None:
            got += ids(then(op, p, at[p]), how)
        if rng.random() < restores:
            op = SymmetricHashJoin.restore(op.snapshot())
    return got + ids(op.finish(), how), op


def in_turn(
    op: SymmetricHashJoin, tables: Sequence[pa.Table], how: str, size: int, restores: bool = False
) -> tuple[Ids, SymmetricHashJoin]:
    """Push so many rows of each side in turn; return the same as ``fed``."""
    got = Ids()
    for at in range(0, max(t.num_rows for t in tables), size):
        for side, table in zip(SIDES, tables, strict=True):
            for piece in table.slice(at, size).combine_chunks().to_batches():
                got += ids(op.push(side, piece), how)
        if restores:
            op = SymmetricHashJoin.restore(op.snapshot())
    return got + ids(op.finish(), how), op
