"""Three-valued truth sets against Kleene's tables, with errors as an engine meets them from left to right."""

from __future__ import annotations

from itertools import product

import pytest

from ivjoin.interval.machine import truth

T, F, N, ERROR = truth.TRUE, truth.FALSE, truth.NULL, 0


def and_values(args: tuple[int, ...]) -> int:
    """AND of single values (ERROR: the argument errs), evaluated as an engine does; ERROR if it errs."""
    null = False
    for a in args:
        if a == F:
            return F
        if a == ERROR:
            return ERROR
        null = null or a == N
    return N if null else T


def flipped(a: int) -> int:
    return {T: F, F: T, N: N, ERROR: ERROR}[a]


def values(mask: int) -> list[int]:
    return [v for v in (T, F, N) if mask & v] or [ERROR]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_connectives(n: int) -> None:
    for masks in product(range(8), repeat=n):
        points = list(product(*map(values, masks)))
        want_and = want_or = 0
        for p in points:
            want_and |= and_values(p)
            want_or |= flipped(and_values(tuple(map(flipped, p))))
        assert truth.and_(masks) == want_and, masks
        assert truth.or_(masks) == want_or, masks


def test_not() -> None:
    for mask in range(8):
        assert truth.not_(mask) == sum(flipped(v) for v in (T, F, N) if mask & v)
