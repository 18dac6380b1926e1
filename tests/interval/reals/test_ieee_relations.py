"""Relations between intervals, checked against their definitions over a grid of small intervals."""

from __future__ import annotations

import math
from itertools import product

import pytest

from ivjoin import interval as iv
from ivjoin.interval import EMPTY, ENTIRE, Interval, Overlap

INF = math.inf
ENDS = [-INF, -1.0, 0.0, 1.0, INF]
GRID = [EMPTY] + [Interval(a, b) for a, b in product(ENDS, ENDS) if a <= b and a < INF and b > -INF]


def points(x: Interval) -> list[float]:
    """Halves from -100 to 100 stand for the real numbers: finer than the grid, and far beyond it on either side."""
    return [k / 2 for k in range(-200, 201) if k / 2 in x]


def reaches(x: Interval, y: Interval) -> list[tuple[float, float]]:
    return list(product(points(x), points(y)))


PAIRS = list(product(GRID, GRID))


def test_the_grid():
    assert len(GRID) == 14
    assert ENTIRE in GRID


@pytest.mark.parametrize(("x", "y"), PAIRS, ids=lambda v: repr(v))
def test_relations(x, y):
    xs, ys = set(points(x)), set(points(y))
    assert iv.equal(x, y) == (x == y) == (xs == ys)
    assert iv.subset(x, y) == (xs <= ys)
    assert iv.disjoint(x, y) == (not xs & ys)
    # Whatever surrounds a member of x at a small distance is in y; at the border of the window y must be unbounded.
    assert iv.interior(x, y) == all((p - 0.5 in y) and (p + 0.5 in y) for p in xs)
    bounded = [z for z in (x, y) if iv.is_common_interval(z) or z == EMPTY]
    if len(bounded) == 2:  # outside the window nothing can be compared
        assert iv.precedes(x, y) == all(p <= q for p in xs for q in ys)
        assert iv.strict_precedes(x, y) == all(p < q for p in xs for q in ys)
        assert iv.less(x, y) == (all(any(p <= q for q in ys) for p in xs) and all(any(p <= q for p in xs) for q in ys))
        assert iv.strict_less(x, y) == (
            all(any(p < q for q in ys) for p in xs) and all(any(p < q for p in xs) for q in ys)
        )


@pytest.mark.parametrize(("relation", "x", "y", "expected"), [
    (iv.less, Interval(-INF, 1), Interval(-INF, 1), True),
    (iv.less, Interval(-INF, 1), Interval(0, INF), True),
    (iv.less, Interval(0, INF), Interval(0, 5), False),
    (iv.strict_less, Interval(-INF, 1), Interval(-INF, 2), True),
    (iv.strict_less, Interval(-INF, 1), Interval(-INF, 1), False),
    (iv.strict_less, ENTIRE, ENTIRE, True),
    (iv.strict_less, Interval(1, INF), Interval(2, INF), True),
    (iv.precedes, Interval(-INF, 1), Interval(1, INF), True),
    (iv.strict_precedes, Interval(-INF, 1), Interval(1, INF), False),
    (iv.strict_precedes, EMPTY, ENTIRE, True),
    (iv.strict_precedes, ENTIRE, EMPTY, True),
    (iv.precedes, ENTIRE, ENTIRE, False),
])  # fmt: skip
def test_relations_of_unbounded_intervals(relation, x, y, expected):
    assert relation(x, y) is expected


@pytest.mark.parametrize("x", GRID, ids=repr)
def test_states(x):
    count = len(points(x))
    assert iv.is_empty(x) == (count == 0)
    assert iv.is_singleton(x) == (count == 1)
    assert iv.is_entire(x) == (count == 401)
    assert iv.is_common_interval(x) == (count > 0 and -100.0 not in x and 100.0 not in x)


CONVERSE = {
    Overlap.FIRST_EMPTY: Overlap.SECOND_EMPTY, Overlap.BEFORE: Overlap.AFTER, Overlap.MEETS: Overlap.MET_BY,
    Overlap.OVERLAPS: Overlap.OVERLAPPED_BY, Overlap.STARTS: Overlap.STARTED_BY,
    Overlap.CONTAINED_BY: Overlap.CONTAINS, Overlap.FINISHES: Overlap.FINISHED_BY,
}
CONVERSE |= {second: first for first, second in CONVERSE.items()}


@pytest.mark.parametrize(("x", "y"), PAIRS, ids=lambda v: repr(v))
def test_overlap(x, y):
    state = iv.overlap(x, y)
    assert iv.overlap(y, x) == CONVERSE.get(state, state)
    assert (state == "bothEmpty") == (x == y == EMPTY)
    assert (state in ("equals", "bothEmpty")) == (x == y)
    assert (state in ("before", "after", "bothEmpty", "firstEmpty", "secondEmpty")) == iv.disjoint(x, y)
    inside = {"equals", "starts", "finishes", "containedBy", "bothEmpty", "firstEmpty"}
    assert (state in inside) == iv.subset(x, y)
    if state in ("meets", "metBy"):
        assert iv.is_singleton(iv.intersection(x, y))
        assert not iv.is_singleton(x)
        assert not iv.is_singleton(y)
    if state in ("overlaps", "overlappedBy"):
        assert iv.wid(iv.intersection(x, y)) > 0


def test_overlap_has_the_standards_sixteen_states():
    assert len(Overlap) == 16
    # The grid's finite ends are too few for two intervals with four different ones.
    wider = [Interval(a, b) for a, b in product(range(4), range(4)) if a <= b]
    states = {iv.overlap(x, y) for x, y in [*PAIRS, *product(wider, wider)]}
    assert states == set(Overlap)
    assert str(Overlap.CONTAINED_BY) == "containedBy"
