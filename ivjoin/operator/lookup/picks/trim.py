"""Narrow the ranges of matches to rows that may be best, by the order of a run alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import FLOAT64
from ivjoin.operator.lookup.aggregates.reduce import Ranges
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Run
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.shj.arrow import doubles_of
from ivjoin.shj.registers import I64_MIN

__all__ = ["distance_of", "middle_of", "trim_of"]

_STEPS = 64  # steps along rows of equal rounded distance, before the whole range is compared

Trim = Callable[[Run, Rows, Ranges], Ranges]


def distance_of(node: Node) -> tuple[Node, Node] | None:
    """Return (left, right) of a distance ``abs(left - right)`` between the two sides, or None for other expressions."""
    if node.op != ops.ABS or node.args[0].op not in (ops.SUB, ops.DATE_DIFF):
        return None
    a, b = node.args[0].args
    return (a, b) if a.type == b.type else None


def trim_of(plan: JoinPlan, axis: int | None) -> Trim | None:
    """Return a function that narrows ranges, or None if the right rows of a run do not determine the order.

    A narrowed range contains the best ``k`` rows and, if they matter, all rows that tie with the last of them.
    """
    pick = plan.spec.pick
    if pick is None or axis is None:
        return None
    right, ties = plan.sides[1].axes[axis], pick.ties or len(pick.by) > 1
    if pick.near is not None:
        picking = picking_of(plan)
        assert picking.near is not None
        met, start = plan.axis(1, picking.place), plan.axis(0, picking.near)
        if met is None or start is None or pick.by[0] is not right:
            return None
        floats = picking.place.type.kind == "float"
        return lambda run, rows, r: _around(run, rows, (start, met), r, 1, ties, floats, False)
    if pick.by[0] is right:
        first = pick.which in ("least", "first")
        return lambda run, rows, r: _at_end(run, r, pick.k, first, ties)
    pair = distance_of(pick.by[0])
    rounds = right.type == FLOAT64  # distances are rounded, so rows at different distances may tie
    exact = right.type.kind in ("int", "timestamp", "date") or rounds
    if pair is None or pick.which != "least" or right not in pair or not exact:
        return None
    near = pair[1] if pair[0] is right else pair[0]
    if near not in plan.sides[0].axes:
        return None
    axes = plan.sides[0].axes.index(near), axis
    return lambda run, rows, r: _around(run, rows, axes, r, pick.k, ties, rounds, rounds and ties)


def _at_end(run: Run, r: Ranges, k: int, first: bool, ties: bool) -> Ranges:
    """Return the first or last k rows of each range."""
    if run.axis in run.rows.absent:
        return r
    if first:
        hi = np.minimum(r.hi, r.lo + k)
        if ties:
            hi = np.where(hi > r.lo, np.minimum(r.hi, run.same()[1][np.maximum(hi - 1, 0)]), hi)
        return Ranges(r.lo, hi)
    lo = np.maximum(r.lo, r.hi - k)
    if ties and len(run):
        lo = np.where(r.hi > lo, np.maximum(r.lo, run.same()[0][np.minimum(lo, len(run) - 1)]), lo)
    return Ranges(lo, r.hi)


def _around(
    run: Run, rows: Rows, axes: tuple[int, int], r: Ranges, k: int, ties: bool, floats: bool, rounds: bool
) -> Ranges:
    """Return the k nearest rows on each side of each left row.

    ``rounds``: distances are rounded, so more rows may tie.
    """
    line, axis = axes
    if not len(run) or axis in run.rows.absent:
        return r
    middle = middle_of(run, rows, line, axis, r)
    lo, hi = np.maximum(r.lo, middle - k), np.minimum(r.hi, middle + k)
    if ties:
        start, stop = run.same()
        lo = np.where(hi > lo, np.maximum(r.lo, start[np.minimum(lo, len(run) - 1)]), lo)
        hi = np.where(hi > lo, np.minimum(r.hi, stop[np.maximum(hi - 1, 0)]), hi)
    every = rows.absent.get(line)
    if floats:
        near = doubles_of(rows.axes[line])
        if rounds:
            if "doubles" not in run.kept:
                run.kept["doubles"] = doubles_of(run.rows.axes[axis])
            lo = _further(near, run.kept["doubles"], lo, r.lo, hi, -1)
            hi = _further(near, run.kept["doubles"], hi - 1, r.hi - 1, lo - 1, 1) + 1
        far = ~np.isfinite(near)  # all numbers are equally far from an infinity, and from NaN
        every = far if every is None else every | far
    if every is not None:
        lo, hi = np.where(every, r.lo, lo), np.where(every, r.hi, hi)
    return Ranges(lo, hi)


def _further(
    near: np.ndarray, values: np.ndarray, edge: np.ndarray, end: np.ndarray, other: np.ndarray, step: int
) -> np.ndarray:
    """Return the edges of ranges, moved to the last row at the same rounded distance, or to ``end``.

    A range is empty if its edge equals the ``other`` edge.
    """
    edge = edge.copy()
    at = np.flatnonzero((edge != end) & (edge != other))
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            same = np.abs(near[at] - values[edge[at]]) == np.abs(near[at] - values[edge[at] + step])
            at = at[same]
            if not len(at):
                return edge
            edge[at] += step
            at = at[edge[at] != end[at]]
    edge[at] = end[at]
    return edge


def middle_of(run: Run, rows: Rows, line: int, axis: int, r: Ranges) -> np.ndarray:
    """Return the first place in each range whose value is at least that of the left row : int64[n].

    Values at the lower end of int64 count as below. If their true values are beyond that end, the last of them is
    nearest.
    """
    return run.place(axis, (r.lo, r.hi), np.maximum(rows.axes[line], I64_MIN + 1))
