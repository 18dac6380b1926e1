"""Find an ordered axis along which a join can be cut into slices, each of them a join of its own.

A slice contains the rows of one side whose value lies in it, and every row of the other side that can match one of
them. The band terms give the closed range of the axis that a row can match.
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

    A row of the other side matches axis ordinals from the greatest ``expression + int`` of ``lows`` to the least of
    ``highs``.
    """

    own: int  # the side (0 left, 1 right) whose rows lie in one slice each
    axis: int  # the place of the ordered expression among that side's axes
    node: Node
    falling: bool
    lows: tuple[Offset, ...]
    highs: tuple[Offset, ...]
    both: bool  # both sides are preserved, so that the other side's rows have a home too
    # The other side's rows lie at the one of `lows`. Later slices need only the last row of each key, up to `until`
    # beyond its place (None: without end).
    carries: bool = False
    until: int | None = None

    def __str__(self) -> str:
        return f"along {self.node} of the {SIDES[self.own]} side"


def cut_of(plan: JoinPlan) -> Cut | str:
    """Return how a join can be cut, or the reason why it cannot be cut."""
    how, looks = plan.how, plan.looks_up
    if plan.spec.include_previous:
        return "the last row before a window may be of any slice before it"
    if plan.spec.picks_one and (last := _by_last_rows(plan)) is not None:
        return last
    why = []
    for own in (0, 1):
        other = 1 - own
        if how.single == other or (how.owes(other) and not how.owes(own)) or (looks and (own or how.keep[1])):
            continue  # the other side's rows must not be copied
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
    """Return why the rows of a plan must be pushed; empty if slices of them can be joined."""
    if plan.spec.pick is not None:
        return "each left row takes one partner"
    if plan.spec.aggregates:
        return "partners are aggregated"
    if any(plan.overflows):
        return "the condition may overflow for pairs beyond its bands"
    return "a constant conjunct errs" if plan.raises else ""


def why_not_cut(plan: JoinPlan, cut: Cut) -> str:
    """Return why rows that arrive along a cut cannot be joined in slices; empty if they can.

    The range of the axis that a row can match must rise at both ends as rows of the other side come in order.
    """
    ends = {node for node, _ in (*cut.lows, *cut.highs)}
    several = len({found[0] if (found := sum_of(node)) else node for node in ends}) > 1
    return why_pushed(plan) or ("the ends of its band are several expressions of one side" if several else "")


def _by_last_rows(plan: JoinPlan) -> Cut | None:
    """Return the cut of a join that takes the last right row up to a left value; None if others may be better later."""
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
    """Return the ``theirs + offset`` that bound a row's ``node`` of side ``own`` in every pair: below, and above."""
    lows, highs = [], []
    for t in terms:
        mine, theirs, lo, hi = seen_from(own, t)
        if mine is node and lo is not None:
            lows.append((theirs, lo))
        if mine is node and hi is not None:
            highs.append((theirs, hi))
    return tuple(lows), tuple(highs)


def lies_within(values: np.ndarray, probes: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return bool[n]: whether values lie in [probe + low, probe + high], as ``band_kernels.lies_within`` for each."""
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
    """Return int64[n] of sums that saturate at the ends of int64."""
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
