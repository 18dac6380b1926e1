"""Tables that the registers point to: what output columns are, what a probe does, which orders move which bounds."""

from __future__ import annotations

import pyarrow as pa

from ivjoin.expr.nodes import walk
from ivjoin.frontier.order import Frontier
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.operator.sources import column_of
from ivjoin.outer.jointype import JoinType
from ivjoin.plan.planner import JoinPlan
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import byte_width, offset_width
from ivjoin.shj.kernels import index_kernels

__all__ = ["bound_terms", "column_kind", "output_kinds", "probe_mode"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


def output_kinds(plan: JoinPlan) -> set[int] | None:
    """The kinds of output columns; None if compiled code cannot build them all, each of its input's type."""
    kinds = set()
    for f, t in zip(plan.fields, plan.schema.types, strict=True):
        kind = column_kind(t)
        if kind is None:
            return None
        kinds.add(kind)
        for s, index in ((0, f.left), (1, f.right)):
            if index is not None and plan.sides[s].schema.types[index] != t:
                return None
    return kinds


def probe_mode(how: JoinType, p: int) -> int:
    """What the probe of side p does with the pairs that it finds."""
    if how.single == p:
        return index_kernels.MARK_PROBE | index_kernels.FIRST_PROBE
    if how.single == 1 - p:
        return index_kernels.PAIRS | index_kernels.FIRST_STORE | index_kernels.MARK_STORE
    mode = index_kernels.PAIRS | (index_kernels.MARK_STORE if how.keep[1 - p] else 0)
    return mode | (index_kernels.MARK_PROBE if how.keep[p] else 0)


def bound_terms(frontier: Frontier, bounder: Bounder, s: int) -> list[tuple[int, int, int, int, int, int]] | None:
    """By which orders of the other side the bounds of side s move; None if only propagation can tell."""
    orders = frontier.trackers
    if frontier.bounds or frontier.promised or bounder.propagates(s):
        return None
    if any(t.in_python or (t.descending and t.node.type.kind == "float") for t in orders):
        return None
    if len({t.node for t in orders}) != len(orders):
        return None
    out: list[tuple[int, int, int, int, int, int]] = []
    for axis, theirs, lo, hi, least, most in bounder._terms[s]:
        same = [
            i for i, t in enumerate(orders)
            if t.node is theirs or (column_of(theirs) is not None and column_of(t.node) is column_of(theirs))
        ]
        if not same and {t.node for t in orders} & set(walk(theirs)):
            return None
        if not all(x is None or I64_MIN < x < I64_MAX for x in (lo, hi)):
            return None
        low, high = I64_MIN if lo is None else lo, I64_MAX if hi is None else hi
        out.extend((axis, i, low, high, least, most) for i in same)
    return out


def column_kind(t: pa.DataType) -> int | None:
    """How compiled code sees a column of an Arrow type; None if it does not."""
    if byte_width(t) is not None:
        return at.WORDS
    if pa.types.is_boolean(t):
        return at.BITS
    return None if offset_width(t) is None else at.BYTES
