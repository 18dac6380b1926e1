"""Choose the axis that sorts two inputs, so that their join stores the fewest rows. Both inputs must end.

A sweep reads two sorted inputs together. It stores a row until the other side has passed all rows that the row can
match. From a sample of both sides, this module estimates a share for each axis. It is the share of row pairs whose
later row arrives while the earlier one is stored. The axis with the least share is selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.expr.terms import BandTerm
from ivjoin.frontier.order import Order
from ivjoin.outer.values import has_value
from ivjoin.plan.join_plan import JoinPlan, SidePlan
from ivjoin.plan.planner import inferred
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import no_rows, rows_at

__all__ = ["Axis", "axes", "best_axis", "compared_share", "indices", "candidate_pairs", "rows_of", "sample"]

SAMPLE_ROWS = 400  # sampled rows of a side
_GOLDEN = 0.6180339887498949  # the fractional parts of its multiples are evenly distributed
_MOST = 64  # pairs of expressions that are compared
_WORTH = 0.45  # the greatest share for which sorting is worthwhile
_ALIKE = 4.0  # shares within this factor count as equal; rows that are already in order then decide

Ordinals = Mapping[Node, tuple[np.ndarray, np.ndarray | None]]


@dataclass(frozen=True)
class Axis:
    """One expression of each side. Both have the same type, and rise together or fall together.

    ``share`` is the share of row pairs that are in memory together.
    """

    nodes: tuple[Node, Node]
    descending: bool
    share: float = 1.0

    def offset(self, plan: JoinPlan) -> int:
        """Return the distance in ordinals, left minus right expression, in the middle of their band."""
        a, b = self.nodes
        ends = [x for t in plan.kernel_terms if t.left is a and t.right is b for x in (t.lo, t.hi) if x is not None]
        return sum(ends) // len(ends) if ends else 0


def sample(table: pa.Table, rows: int = SAMPLE_ROWS) -> pa.RecordBatch:
    """Return at most ``rows`` rows, spread over the whole table, in the order of the table."""
    n = table.num_rows
    if n > rows:
        # Avoid even distances: in periodic rows, all samples would be at the same position of the period.
        edges = np.linspace(0, n, rows + 1).astype(np.int64)
        at = edges[:-1] + (np.arange(rows) * _GOLDEN % 1.0 * np.diff(edges)).astype(np.int64)
        return rows_of(table, at)
    batches = combined(table).to_batches()
    return batches[0] if batches else no_rows(table.schema)


def rows_of(table: pa.Table, at: np.ndarray) -> pa.RecordBatch:
    """Return some rows of a table by their ascending row numbers."""
    parts, first = [no_rows(table.schema)], 0
    for batch in table.to_batches():  # ``take`` on a table with many chunks would first combine them
        here = at[np.searchsorted(at, first) : np.searchsorted(at, first + batch.num_rows)] - first
        parts.append(rows_at(batch, here))
        first += batch.num_rows
    return combined(pa.Table.from_batches(parts)).to_batches()[0]


def indices(rows: np.ndarray) -> pa.Array:
    """Return row numbers for ``take``. ``pa.array`` would import pandas to check for a Series."""
    kind = pa.uint32() if rows.dtype == np.uint32 else pa.int64()
    return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])


def best_axis(plan: JoinPlan, samples: tuple[pa.RecordBatch | None, pa.RecordBatch | None]) -> Axis | None:
    """Return the axis to sort by, or None if no sort is worthwhile.

    A side with an order is not sorted. The other side is sorted to match it. If a side cannot be sampled (None), the
    first axis that moves both ends of a band is returned.
    """
    pairs = list(axes(plan))[:_MOST]
    if samples[0] is None or samples[1] is None:
        return next((a for a in pairs if any(_ties(plan, a, t) for t in plan.kernel_terms)), None)
    if not pairs:
        return None
    if not samples[0].num_rows or not samples[1].num_rows:
        return None
    found = _values_of(plan, pairs, samples)
    inside = [_inside(t, found) for t in plan.kernel_terms]
    weighed = [replace(a, share=_share(plan, a, found, inside)) for a in pairs]
    least = min(a.share for a in weighed)
    if least > _WORTH:
        return None
    near = [a for a in weighed if a.share <= least * _ALIKE]
    for a in near:
        if all(_in_order(found[n], a.descending) for n in a.nodes):
            return a
    return min(near, key=lambda a: a.share)


def compared_share(plan: JoinPlan, samples: tuple[pa.RecordBatch | None, pa.RecordBatch | None]) -> float:
    """Return the share of all row pairs for which the residual must be evaluated. It is 0 if keys or bands decide all.

    Without samples, the share of a join with bands is 0.
    """
    if plan.sides[0].keys or not plan.separation.residual or plan.never:
        return 0.0
    if not plan.kernel_terms:
        return 1.0
    if samples[0] is None or samples[1] is None:
        return 0.0
    kept = candidate_pairs(plan, (samples[0], samples[1]))
    return float(kept.mean()) if kept.size else 0.0


def candidate_pairs(plan: JoinPlan, samples: tuple[pa.RecordBatch, pa.RecordBatch]) -> np.ndarray:
    """Return bool[left rows, right rows]: the pairs of sampled rows that satisfy all bands. Keys are ignored."""
    found = _values_of(plan, [], samples)
    ends = [end for t in plan.kernel_terms for end in _inside(t, found) if end is not None]
    every: np.ndarray = np.logical_and.reduce(ends)
    return every


def axes(plan: JoinPlan) -> Iterator[Axis]:
    """Yield pairs of expressions whose order lets a band prune. Columns precede computed expressions."""
    choices = [_choices(plan, s) for s in (0, 1)]
    found = [(a, b, down) for a, down in choices[0] for b, falls in choices[1] if a.type == b.type and down == falls]
    found.sort(key=lambda p: (p[0].op != "column") + (p[1].op != "column"))
    for a, b, down in found:
        yield Axis((a, b), down)


def _choices(plan: JoinPlan, s: int) -> list[tuple[Node, bool]]:
    """Return the expressions of a side that may be its order, and whether they fall."""
    side = plan.sides[s]
    if side.orders:
        return [(n, o.descending) for n, _, o in side.orders]
    falls = [o.descending for _, _, o in plan.sides[1 - s].orders] or [False]
    own = [n for n in dict.fromkeys(_of(t, s) for t in plan.kernel_terms) if has_ordinal(n.type)]
    columns = []
    for n in own:
        read = columns_of(n)
        if n.op != "column" and len(read) == 1 and has_ordinal(read[0].type) and _direction(side, read[0], n) == 1:
            columns.append(read[0])
    return [(n, down) for n in dict.fromkeys([*columns, *own]) for down in dict.fromkeys(falls)]


def _of(t: BandTerm, s: int) -> Node:
    return t.right if s else t.left


def _direction(side: SidePlan, by: Node, node: Node) -> int:
    """Return 1 if an expression rises while another one of its side rises, -1 if it falls, 0 if unknown."""
    if node is by:
        return 1
    why = inferred(replace(side, orders=[(by, "", Order(by))]), node)
    return 0 if why is None else 1 if why.startswith("rises") else -1


def _values_of(
    plan: JoinPlan, pairs: Sequence[Axis], samples: tuple[pa.RecordBatch | None, pa.RecordBatch | None]
) -> Ordinals:
    """Return the ordinals of all compared expressions, and the rows that have a value."""
    out: dict[Node, tuple[np.ndarray, np.ndarray | None]] = {}
    for s, batch in enumerate(samples):
        assert batch is not None
        nodes = list(dict.fromkeys([*(a.nodes[s] for a in pairs), *(_of(t, s) for t in plan.kernel_terms)]))
        vectors = evaluate(nodes, lambda _, name: batch.column(name), batch.num_rows)  # noqa: B023
        out |= {n: (ordinals(v.values, n.type), has_value(v)) for n, v in zip(nodes, vectors, strict=True)}
    return out


def _inside(t: BandTerm, found: Ordinals) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return which pairs satisfy the lower and the upper end of a band: bool[left rows, right rows], or None."""
    (a, has_a), (b, has_b) = found[t.left], found[t.right]
    away = a.astype(np.float64)[:, None] - b.astype(np.float64)[None, :]
    ends = []
    for end, keeps in ((t.lo, np.greater_equal), (t.hi, np.less_equal)):
        held = None if end is None else keeps(away, float(end))
        for valid, shape in ((has_a, (-1, 1)), (has_b, (1, -1))):
            if held is not None and valid is not None:
                held = held & valid.reshape(shape)
        ends.append(held)
    return ends[0], ends[1]


def _share(
    plan: JoinPlan, axis: Axis, found: Ordinals, inside: Sequence[tuple[np.ndarray | None, np.ndarray | None]]
) -> float:
    """Return the share of row pairs whose later row arrives while the earlier one is in memory."""
    a, b = axis.nodes
    (left, _), (right, _) = found[a], found[b]
    away = left.astype(np.float64)[:, None] - (right.astype(np.float64)[None, :] + float(axis.offset(plan)))
    right_later = away >= 0 if axis.descending else away <= 0
    stay_left, stay_right = np.ones(away.shape, dtype=bool), np.ones(away.shape, dtype=bool)
    for t, (low, high) in zip(plan.kernel_terms, inside, strict=True):
        for s, stay in ((0, stay_left), (1, stay_right)):
            # left rows are evicted when the right side's expression moves, and vice versa
            goes = _goes(plan, 1 - s, axis, _of(t, 1 - s))
            end = None if not goes else (low, high)[(goes < 0) != bool(s)]
            if end is not None:
                stay &= end
    return float(np.where(right_later, stay_left, stay_right).mean())


def _goes(plan: JoinPlan, s: int, axis: Axis, node: Node) -> int:
    by = [(n, o.descending) for n, _, o in plan.sides[s].orders] or [(axis.nodes[s], axis.descending)]
    for n, down in by:
        way = _direction(plan.sides[s], n, node)
        if way:
            return -way if down else way
    return 0


def _ties(plan: JoinPlan, axis: Axis, t: BandTerm) -> bool:
    """Return whether both ends of a band move with the axis."""
    return bool(_goes(plan, 0, axis, t.left) and _goes(plan, 1, axis, t.right))


def _in_order(ordinals: tuple[np.ndarray, np.ndarray | None], descending: bool) -> bool:
    values, valid = ordinals
    if valid is not None:
        values = values[valid]
    first, second = (values[1:], values[:-1]) if descending else (values[:-1], values[1:])
    return bool((first <= second).all())
