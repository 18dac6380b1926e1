"""Cells joined one by one, with only the rows they own; and random layouts, wilder than any planner's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import oracle
import pyarrow as pa

from ivjoin.plan.cache import planned
from ivjoin.routing import RoutingPlan
from ivjoin.routing.rows.cells import Entry, Layout
from ivjoin.routing.rows.reach import Axis, reach_of
from ivjoin.routing.rows.reader import Reader

Pair = tuple[int | None, int | None]
Cells = Callable[[str, pa.RecordBatch], tuple[np.ndarray, np.ndarray, np.ndarray]]


def batch_of(table: pa.Table) -> pa.RecordBatch:
    arrays = [c.combine_chunks() for c in table.columns]
    arrays = [a if not isinstance(a, pa.ChunkedArray) else a.chunk(0) if a.num_chunks else pa.array([], a.type)
              for a in arrays]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def copies(cells: Cells, side: str, batch: pa.RecordBatch, pieces: Iterable[int] = ()) -> list[tuple[int, int, bool]]:
    """(row, cell, owned) of each copy of a batch that comes in pieces."""
    bounds = [0, *sorted(pieces), batch.num_rows]
    out = []
    for start, stop in pairwise(bounds):
        rows, where, owned = cells(side, batch.slice(start, stop - start))
        assert rows.dtype == where.dtype == np.int64 and owned.dtype == bool
        assert len(rows) == len(where) == len(owned)
        assert set(rows.tolist()) == set(range(stop - start)), "a row without a copy"
        out += [(start + r, c, o) for r, c, o in zip(rows.tolist(), where.tolist(), owned.tolist())]
    assert len({(r, c) for r, c, _ in out}) == len(out), "two copies of a row in one cell"
    return out


def owned_output(
    left: list[tuple[int, int, bool]], right: list[tuple[int, int, bool]], met: set[tuple[int, int]], how: str
) -> Counter[Pair]:
    """What leaves all cells: each joined by the nested loop, where ``met`` says which rows match."""
    held: dict[int, tuple[dict[int, bool], dict[int, bool]]] = {}
    for s, side in ((0, left), (1, right)):
        for row, cell, owned in side:
            held.setdefault(cell, ({}, {}))[s][row] = owned
    out: Counter[Pair] = Counter()
    for mine, theirs in held.values():
        rows = {s: list(d) for s, d in ((0, mine), (1, theirs))}
        found = oracle.pairs(rows[0], rows[1], how, (), lambda a, b: (a, b) in met)
        for i, j in found:
            a, b = None if i is None else rows[0][i], None if j is None else rows[1][j]
            if mine[a] if a is not None else theirs[b]:  # type: ignore[index]
                out[a, b] += 1
    return out


def random_plan(
    left: pa.RecordBatch, right: pa.RecordBatch, call: dict[str, Any], rng: random.Random, gridded: bool = True,
    key_hash: str | None = None,
) -> tuple[RoutingPlan, str]:
    """A plan with any layout that the join type allows, with or without grids, and what it was made of."""
    plan = planned(left.schema, right.schema, **call)
    reader = Reader(plan, reach_of(plan), key_hash)
    owed = plan.how.preserved
    options: list[tuple[Axis | None, bool]] = [(None, False), (None, False)]
    for a in reader.reach.axes:
        if not owed[1 - a.divided]:
            options.append((a, False))
        if a.home is not None:
            options.append((a, True))
    axis, both = rng.choice(options)
    if axis is None and all(owed):
        both = True
    features = [reader.features(s, b, axis, both) for s, b in ((0, left), (1, right))]
    hashes: list[int | None]
    if features[0].key is None:
        hashes, n_light = [None], 0
    else:
        known = sorted({int(h) for f in features for h in f.key})  # type: ignore[union-attr]
        hashes, n_light = list(rng.sample(known, rng.randint(0, len(known)))), rng.randint(1, 6)
    places = [int(x) for f in features if f.home is not None for x in f.home] or [0]
    entries = [_entry(h, axis, both, owed, places, rng, gridded) for h in hashes]
    layout = Layout(n_light, sorted(entries, key=lambda e: e.key or 0), both, rng.random() < 0.3)
    made = RoutingPlan(
        how=plan.how.name, workers=1, scheme="auto", notes=(), worker_of=np.zeros(layout.cells, dtype=np.int64),
        reader=reader, layout=layout, axis=axis, dealt=([], []),
        measure=lambda plan: None,  # type: ignore[arg-type, return-value]
    )
    for s, b in ((0, left), (1, right)):
        if rng.random() < 0.4:
            made.share_out(s, b)
    return made, f"cut along {axis}, both {both}: {[(str(e), e.cuts, e.grids) for e in entries]}, {n_light} light"


def _entry(
    key: int | None, axis: Axis | None, both: bool, owed: tuple[bool, bool], places: list[int], rng: random.Random,
    gridded: bool,
) -> Entry:
    cuts: list[int] = []
    if axis is not None:
        near = [rng.choice(places) + rng.randint(-2, 2) for _ in range(rng.randint(0, 5))]
        cuts = sorted({max(-(2**63), min(2**63 - 1, x)) for x in near})
    if both and axis is None and gridded:
        two = (rng.randint(1, 3), 1), (1, rng.randint(1, 3))
        return Entry(key, (), two, True) if rng.random() < 0.7 else Entry(key)
    grids = []
    for _ in range(len(cuts) + 1):
        a = 1 if both or owed[1] or not gridded else rng.randint(1, 3)
        b = 1 if both or owed[0] or not gridded else rng.randint(1, 3)
        grids.append((a, b))
    return Entry(key, tuple(cuts), tuple(grids))
