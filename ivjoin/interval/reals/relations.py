"""Relations between intervals, or an interval and a number (IEEE 1788-2015, clauses 9.4, 10.5.10, 10.6.3, 10.6.4)."""

from __future__ import annotations

from enum import StrEnum
from math import inf as INF
from math import isinf
from typing import Any

from ivjoin.interval.reals.bare import Interval

__all__ = [
    "Overlap",
    "contains",
    "disjoint",
    "equal",
    "interior",
    "is_common_interval",
    "is_empty",
    "is_entire",
    "is_member",
    "is_singleton",
    "less",
    "overlap",
    "precedes",
    "strict_less",
    "strict_precedes",
    "subset",
]


def is_empty(x: Interval) -> bool:
    """Return whether there is no member."""
    return x.inf > x.sup


def is_entire(x: Interval) -> bool:
    """Return whether every real number is a member."""
    return x.inf == -INF and x.sup == INF


def is_singleton(x: Interval) -> bool:
    """Return whether there is exactly one member."""
    return x.inf == x.sup


def is_common_interval(x: Interval) -> bool:
    """Return whether the interval is bounded and not empty."""
    return not isinf(x.inf) and not isinf(x.sup)


def contains(x: Interval, number: Any) -> bool:
    """Return whether `number` is a member, compared exactly; infinities and NaN are members of no interval."""
    return number in x


def is_member(number: Any, x: Interval) -> bool:
    """Return the standard's form of `contains`, with the number first."""
    return number in x


def equal(x: Interval, y: Interval) -> bool:
    """Return whether both have the same members."""
    return x.inf == y.inf and x.sup == y.sup


def subset(x: Interval, y: Interval) -> bool:
    """Return whether every member of `x` is a member of `y`."""
    return y.inf <= x.inf and x.sup <= y.sup


def interior(x: Interval, y: Interval) -> bool:
    """Return whether `x` lies in the interior of `y`, its topological one: an infinite endpoint of `y` is no border."""
    return x.inf > x.sup or ((y.inf < x.inf or y.inf == -INF) and (x.sup < y.sup or y.sup == INF))


def disjoint(x: Interval, y: Interval) -> bool:
    """Return whether no number is a member of both."""
    return x.sup < y.inf or y.sup < x.inf or x.inf > x.sup or y.inf > y.sup


def less(x: Interval, y: Interval) -> bool:
    """Return whether `x` is weakly below `y`: inf(x) <= inf(y) and sup(x) <= sup(y). Two empty intervals are."""
    if x.inf > x.sup or y.inf > y.sup:
        return x.inf > x.sup and y.inf > y.sup
    return x.inf <= y.inf and x.sup <= y.sup


def strict_less(x: Interval, y: Interval) -> bool:
    """`less` with "above" and "below" for "at or above" and "at or below"."""
    if x.inf > x.sup or y.inf > y.sup:
        return x.inf > x.sup and y.inf > y.sup
    return (x.inf < y.inf or x.inf == y.inf == -INF) and (x.sup < y.sup or x.sup == y.sup == INF)


def precedes(x: Interval, y: Interval) -> bool:
    """Return whether no member of `x` is above a member of `y`; also true if either is empty."""
    return x.sup <= y.inf or x.inf > x.sup or y.inf > y.sup


def strict_precedes(x: Interval, y: Interval) -> bool:
    """Return whether every member of `x` is below every member of `y`; also true if either is empty."""
    return x.sup < y.inf or x.inf > x.sup or y.inf > y.sup


class Overlap(StrEnum):
    """The relation of two intervals: Allen's thirteen relations, and three for empty sets, by standard names."""

    BOTH_EMPTY = "bothEmpty"
    FIRST_EMPTY = "firstEmpty"
    SECOND_EMPTY = "secondEmpty"
    BEFORE = "before"
    MEETS = "meets"
    OVERLAPS = "overlaps"
    STARTS = "starts"
    CONTAINED_BY = "containedBy"
    FINISHES = "finishes"
    EQUALS = "equals"
    FINISHED_BY = "finishedBy"
    CONTAINS = "contains"
    STARTED_BY = "startedBy"
    OVERLAPPED_BY = "overlappedBy"
    MET_BY = "metBy"
    AFTER = "after"


# Keys: the order of the lower endpoints, then of the upper ones; the intervals share more than one point.
_SHARING = {
    (-1, -1): Overlap.OVERLAPS,
    (-1, 0): Overlap.FINISHED_BY,
    (-1, 1): Overlap.CONTAINS,
    (0, -1): Overlap.STARTS,
    (0, 0): Overlap.EQUALS,
    (0, 1): Overlap.STARTED_BY,
    (1, -1): Overlap.CONTAINED_BY,
    (1, 0): Overlap.FINISHES,
    (1, 1): Overlap.OVERLAPPED_BY,
}


def overlap(x: Interval, y: Interval) -> Overlap:
    """Return the relation of `x` to `y` (table 10.7 of the standard)."""
    if x.inf > x.sup:
        return Overlap.BOTH_EMPTY if y.inf > y.sup else Overlap.FIRST_EMPTY
    if y.inf > y.sup:
        return Overlap.SECOND_EMPTY
    if x.sup < y.inf:
        return Overlap.BEFORE
    if y.sup < x.inf:
        return Overlap.AFTER
    lower = (x.inf > y.inf) - (x.inf < y.inf)
    upper = (x.sup > y.sup) - (x.sup < y.sup)
    # A singleton at the other's end starts or finishes it; two wider ones meet there.
    if x.sup == y.inf and lower < 0 and upper < 0:
        return Overlap.MEETS
    if y.sup == x.inf and lower > 0 and upper > 0:
        return Overlap.MET_BY
    return _SHARING[lower, upper]
