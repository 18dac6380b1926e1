"""Find an ordered axis along which a join can be cut into slices that are joined separately.

A slice is a range of the axis. It contains the rows of one side whose values are in the range, and the rows of the
other side that can match them. The band terms give the closed range of the axis that a row can match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ivjoin.expr.nodes import Node
from ivjoin.expr.terms import BandTerm
from ivjoin.plan.join_plan import JoinPlan, seen_from
from ivjoin.plan.picking.pick import picking_of
from ivjoin.plan.spec import SIDES
from ivjoin.plan.sums import sum_of
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Cut", "Offset", "cut_of", "lies_within", "met_by", "shifted", "why_not_cut", "why_pushed"]

Offset = tuple[Node, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """An axis to cut along.

    A row of the other side matches a closed range of axis ordinals. The range begins at the greatest
    ``expression + int`` of ``lows``, and ends at the least one of ``highs``.
    """

    own: int  # the side (0 left, 1 right) that the axis belongs to; each of its rows is in one slice
    axis: int  # the index of the ordered expression among that side's axes
    node: Node
    falling: bool
    lows: tuple[Offset, ...]
    highs: tuple[Offset, ...]
    both: bool  # both sides are preserved, so one slice must emit each unmatched row of the other side
    # If true, the single entry of `lows` places a row of the other side. Later slices need only the last row of each
    # key, and only up to `until` above its place (None: no limit).
    carries: bool = False
    until: int | None = None

    def __str__(self) -> str:
        return f"along {self.node} of the {SIDES[self.own]} side"


def cut_of(plan: JoinPlan) -> Cut | str:
    """Return the cut of a join, or the reason why the join cannot be cut."""
    how, looks = plan.how, plan.looks_up
    if plan.spec.include_previous:
        return "the last row before a window may be of any slice before it"
    if plan.spec.picks_one and (last := _by_last_rows(plan)) is not None:
        return last
    why = []
    for own in (0, 1):
        other = 1 - own
        if how.single == other or (how.owes(other) and not how.owes(own)) or (looks and (own or how.keep[1])):
            continue  # a row of the other side must not be in several slices
        orders = {n: o.descending for n, _, o in plan.sides[own].orders}
        if not orders:
            why.append(f"the {SIDES[own]} side has no declared order")
            continue
        for node, falling in orders.items():
            axis = plan.axis(own, node)
            lows, highs = met_by(plan.terms, own, node)
            if axis is not None and lows and highs:
                return Cut(own, axis, node, falling, lows, highs, how.owes(other))
            ends = "no band" if not (lows or highs) else "a band with one end alone"
            why.append(f"{node} has {ends}")
    return "; ".join(why) or "no side's rows can be spread"


def why_pushed(plan: JoinPlan) -> str:
    """Return why a plan must push its rows one batch at a time; "" if it can join them in slices."""
    if plan.spec.pick is not None:
        return "each left row takes one partner"
    if plan.spec.aggregates:
        return "partners are aggregated"
    if any(plan.overflows):
        return "the condition may overflow for pairs beyond its bands"
    return "a constant conjunct errs" if plan.raises else ""


def why_not_cut(plan: JoinPlan, cut: Cut) -> str:
    """Return why rows that arrive along a cut cannot be joined in slices; "" if they can.

    A row of the other side can match a range of the axis. Both ends of this range must rise from row to row.
    """
    ends = {node for node, _ in (*cut.lows, *cut.highs)}
    several = len({found[0] if (found := sum_of(node)) else node for node in ends}) > 1
    return why_pushed(plan) or ("the ends of its band are several expressions of one side" if several else "")


def _by_last_rows(plan: JoinPlan) -> Cut | None:
    """Return the cut of a join that picks the last right row up to a left value.

    None if a later slice may need any other row than the last one of a key.
    """
    picking, kernel = picking_of(plan), plan.kernel_terms
    place = picking.place
    if picking.which != "last" or picking.near is not None or picking.met or not picking.plain:
        return None
    if plan.separation.residual or any(plan.overflows) or plan.how.keep[1] or place.type.kind == "float":
        return None
    nodes = {t.left for t in kernel}
    if len(nodes) != 1 or {t.right for t in kernel} != {place}:
        return None
    node = nodes.pop()
    lows, highs = met_by(kernel, 0, node)
    axis = plan.axis(0, node)
    rises = any(n is node and not o.descending for n, _, o in plan.sides[0].orders)
    if not lows or axis is None or not rises:
        return None
    at = (place, max(by for _, by in lows))
    return Cut(0, axis, node, False, (at,), (at,), False, True, min((by for _, by in highs), default=None))


def met_by(terms: Sequence[BandTerm], own: int, node: Node) -> tuple[tuple[Offset, ...], tuple[Offset, ...]]:
    """Return the lower and the upper bounds ``theirs + offset`` of ``node``, an expression of side ``own``."""
    lows, highs = [], []
    for t in terms:
        mine, theirs, lo, hi = seen_from(own, t)
        if mine is node and lo is not None:
            lows.append((theirs, lo))
        if mine is node and hi is not None:
            highs.append((theirs, hi))
    return tuple(lows), tuple(highs)


def lies_within(values: np.ndarray, probes: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return bool[n]: whether each value lies in [probe + low, probe + high]. See ``band_kernels.lies_within``."""
    good = np.ones(len(values), dtype=bool)
    if low != I64_MIN:
        good &= values >= shifted(probes, low)
        if low > 0:
            good &= probes <= I64_MAX - low
    if high != I64_MAX:
        good &= values <= shifted(probes, high)
        if high < 0:
            good &= probes >= I64_MIN - high
    return good


def shifted(ordinals: np.ndarray, by: int) -> np.ndarray:
    """Return ``ordinals + by`` as int64[n], saturated at the ends of int64."""
    while by:
        step = max(-I64_MAX, min(by, I64_MAX))
        by -= step
        if step > 0:
            most = I64_MAX - step
            if ordinals.max(initial=I64_MIN) <= most:
                ordinals = ordinals + step
                continue
            ordinals = np.where(ordinals > most, I64_MAX, np.minimum(ordinals, most) + step)
        else:
            least = I64_MIN - step
            if ordinals.min(initial=I64_MAX) >= least:
                ordinals = ordinals + step
                continue
            ordinals = np.where(ordinals < least, I64_MIN, np.maximum(ordinals, least) + step)
    return ordinals
