"""Count the input and output rows of each worker for given rows and a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.rows.arrays import Copies, stacked
from ivjoin.routing.rows.matching import Matching, matching
from ivjoin.routing.rows.reach import Axis
from ivjoin.routing.rows.reader import Features, Reader
from ivjoin.shj.plain import plain_type, to_plain

__all__ = ["Counts", "best_band", "count", "groups", "is_plain"]

_PIECE = 1 << 19  # pairs decided at once
_ROWS = 1 << 16  # rows routed at once
_COPIES = 1 << 23  # copies in memory at once


@dataclass(slots=True)
class Counts:
    """The input rows of each side and the output rows of each cell."""

    rows_in: tuple[np.ndarray, np.ndarray]
    rows_out: np.ndarray


def best_band(reader: Reader, left: pa.RecordBatch, right: pa.RecordBatch, rows: int = 20_000) -> Axis | None:
    """Return the axis with the fewest candidate pairs, by the first rows of each side."""
    bands = reader.reach.bands
    if len(bands) < 2:
        return bands[0] if bands else None
    some = left.slice(0, rows), right.slice(0, rows)

    def candidates(axis: Axis) -> int:
        f = [reader.features(s, some[s], axis, False) for s in (0, 1)]
        ids = groups(f[0], f[1])
        return int(matched(axis, f, ids).reached.sum())

    return min(bands, key=candidates)


def groups(left: Features, right: Features) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each row's key, from 0 on; equal on both sides for equal keys."""
    if left.key is None or right.key is None:
        return np.zeros(left.n, dtype=np.int64), np.zeros(right.n, dtype=np.int64)
    dense = np.unique(np.concatenate([left.key, right.key]), return_inverse=True)[1]
    return dense[: left.n], dense[left.n :]


def matched(axis: Axis | None, f: list[Features], ids: tuple[np.ndarray, np.ndarray]) -> Matching:
    """Return the matching of all rows of two sides in the same group; lone rows match nothing."""
    d = 0 if axis is None else axis.divided
    own, other = f[d], f[1 - d]
    # lone rows get groups of their own
    mine = ids[d] if own.lone is None else np.where(own.lone, -1, ids[d])
    theirs = ids[1 - d] if other.lone is None else np.where(other.lone, -2, ids[1 - d])
    shift = 2 if own.lone is not None or other.lone is not None else 0
    return matching(mine + shift, own.low if axis else None, theirs + shift, other.low if axis else None,
                    other.high if axis else None)


def is_plain(reader: Reader, axis: Axis | None, left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    """Return whether keys, filters and the ranges on one axis decide the condition for these rows."""
    plan = reader.plan
    sep = plan.separation
    if plan.raises or sep.residual or len(reader.reach.keys[0]) < len(sep.keys):
        return False
    used = set() if axis is None else {axis.node}
    if any((t.right if axis is not None and axis.divided else t.left) not in used for t in plan.kernel_terms):
        return False
    for s, batch in ((0, left), (1, right)):
        side = plan.sides[s]
        nodes = [*side.keys, *side.filters, *(g for g, _, _ in side.guards), *(axis.nodes(s) if axis else [])]
        values = reader.values(s, batch, nodes)
        if any(v.error is not None and v.error.any() for v in values.values()):
            return False
        for node, low, high in side.guards:
            v = values[node]
            inside = (v.values >= low) & (v.values <= high)
            if not (inside if v.valid is None else inside | ~v.valid).all():
                return False
    return True


def count(plan: RoutingPlan, left: pa.RecordBatch, right: pa.RecordBatch, exact: bool = True) -> Counts:
    """Return the input and output rows of each cell of a plan.

    With ``exact``, the whole condition decides candidate pairs if keys and one band do not.
    """
    reader = plan.reader
    batches = (left, right)
    routed = [plan.features(s, batches[s]) for s in (0, 1)]
    rows_in = tuple(_received(plan, s, batches[s], routed[s]) for s in (0, 1))
    axis = best_band(reader, left, right)
    d = 0 if axis is None else axis.divided
    f = [reader.features(s, batches[s], axis, False) for s in (0, 1)]
    decide = exact and not is_plain(reader, axis, left, right)
    ids = groups(f[0], f[1])
    known = int(max(ids[0].max(initial=0), ids[1].max(initial=0))) + 1
    out = np.zeros(plan.n_cells)
    for low, high in _shares(rows_in[0] + rows_in[1]):
        copies = [_copies_in(plan, s, batches[s], routed[s], low, high) for s in (0, 1)]
        spread = [f[s].taken(copies[s][0]) for s in (0, 1)]
        left_at, right_at = (cells * known + ids[s][rows] for s, (rows, cells, _) in enumerate(copies))
        m = matched(axis, spread, (left_at, right_at))
        found = _decided(plan, batches, copies, m, d, out) if decide else _counted(plan, copies, m, d, out)
        _alone(plan, copies, found, out)
    return Counts((rows_in[0], rows_in[1]), out)


def _pieces(plan: RoutingPlan, s: int, batch: pa.RecordBatch, f: Features) -> Iterator[tuple[int, Copies]]:
    """Yield the copies of a batch's rows in pieces, with the start of each piece."""
    if plan.layout.salted or f.n <= _ROWS:
        yield 0, plan.copies(s, batch, f)
        return
    for at in range(0, f.n, _ROWS):
        yield at, plan.copies(s, batch.slice(at, _ROWS), f.part(at, at + _ROWS))


def _received(plan: RoutingPlan, s: int, batch: pa.RecordBatch, f: Features) -> np.ndarray:
    out = np.zeros(plan.n_cells, dtype=np.int64)
    for _, (_, cells, _) in _pieces(plan, s, batch, f):
        out += np.bincount(cells, minlength=plan.n_cells)
    return out


def _shares(rows_in: np.ndarray) -> list[tuple[int, int]]:
    """Return ranges of cells that together receive a few million rows."""
    share = np.cumsum(rows_in) // _COPIES
    starts = np.concatenate([[0], np.flatnonzero(np.diff(share)) + 1, [len(rows_in)]])
    return [(int(a), int(b)) for a, b in pairwise(starts) if a < b]


def _copies_in(plan: RoutingPlan, s: int, batch: pa.RecordBatch, f: Features, low: int, high: int) -> Copies:
    parts = []
    for at, (rows, cells, owned) in _pieces(plan, s, batch, f):
        if (low, high) != (0, plan.n_cells):
            inside = np.flatnonzero((cells >= low) & (cells < high))
            rows, cells, owned = rows[inside], cells[inside], owned[inside]
        parts.append((rows + at if at else rows, cells, owned))
    return stacked(parts)


def _counted(plan: RoutingPlan, copies: list[Copies], m: Matching, d: int, out: np.ndarray) -> list[np.ndarray | None]:
    """Add the owned pairs of each cell to ``out``. Return whether each copy was matched, for the given sides."""
    how = plan.reader.plan.how
    reached = m.reached
    met = m.met() if how.preserved[d] or (how.pairs and d == 0) else None
    if how.pairs:
        # a pair is owned if its left copy is
        _, cells, owned = copies[0]
        per_left = met if d == 0 else reached
        assert per_left is not None
        out += np.bincount(cells, weights=np.where(owned, per_left, 0), minlength=len(out))
    found: list[np.ndarray | None] = [None, None]
    found[d] = None if met is None else met > 0
    found[1 - d] = reached > 0
    return found


def _decided(
    plan: RoutingPlan, batches: tuple[pa.RecordBatch, pa.RecordBatch], copies: list[Copies], m: Matching, d: int,
    out: np.ndarray,
) -> list[np.ndarray | None]:
    """Do the same as :func:`_counted`, evaluating the whole condition for each candidate pair."""
    condition = plan.reader.plan.condition
    assert condition is not None
    found = [np.zeros(len(copies[s][0]), dtype=bool) for s in (0, 1)]
    _, cells, owned = copies[0]
    for mine, theirs in m.pairs(_PIECE):
        pair = (mine, theirs) if d == 0 else (theirs, mine)
        holds = np.flatnonzero(_true(condition, batches, [copies[s][0][pair[s]] for s in (0, 1)]))
        for s in (0, 1):
            found[s][pair[s][holds]] = True
        if plan.reader.plan.how.pairs:
            lefts = pair[0][holds]
            out += np.bincount(cells[lefts[owned[lefts]]], minlength=len(out))
    return [found[0], found[1]]


def _true(condition: Node, batches: tuple[pa.RecordBatch, pa.RecordBatch], rows: list[np.ndarray]) -> np.ndarray:
    """Return for which pairs of rows the condition is TRUE; an error counts as not TRUE."""
    columns = {}
    for c in columns_of(condition):
        s = int(c.params[0] == "right")
        index = batches[s].schema.get_field_index(c.params[1])
        array = batches[s].column(index)
        columns[c.params] = to_plain(array, plain_type(array.type)).take(pa.array(rows[s]))
    (v,) = evaluate([condition], lambda side, name: columns[side, name], len(rows[0]))
    holds = v.values if v.valid is None else v.values & v.valid
    return np.asarray(holds if v.error is None else holds & ~v.error)


def _alone(plan: RoutingPlan, copies: list[Copies], found: list[np.ndarray | None], out: np.ndarray) -> None:
    how = plan.reader.plan.how
    for s in (0, 1):
        if not how.preserved[s]:
            continue
        _, cells, owned = copies[s]
        hit = found[s]
        assert hit is not None
        wanted = owned & (hit if how.semi == s else ~hit)
        out += np.bincount(cells[wanted], minlength=len(out))
