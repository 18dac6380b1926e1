"""Find the longest prefix of an axis in which a condition cannot be TRUE, with forward rules only.

Forward rules bound the results of machine operations. If they show that a conjunct cannot be TRUE over a prefix, the
prefix contains no matching row. The condition need not be monotonic along the axis. Each shorter prefix is refuted too,
so bisection finds the longest one.

Operators without a backward rule can also prune in this manner. If a backward rule proposes a bound, forward rules
confirm it, or it is moved outward to the nearest confirmed bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, ordinal_of, value_of
from ivjoin.functions.rules.domain import Dom
from ivjoin.interval import truth
from ivjoin.interval.machine.bisection import last_true
from ivjoin.propagation.dag import Propagator

__all__ = ["confirmed", "dead_until", "refutes"]

# How often the distance of a float bound is doubled before the proposed bound is accepted without confirmation. Other
# types use a few units.
_CONFIRMING_STEPS = 24


def refutes(p: Propagator, known: Mapping[Node, Dom], axis: Node, ordinal: int, falling: bool = False) -> bool:
    """Return whether no row at or below ``ordinal`` (``falling``: at or above) can satisfy the conjuncts.

    The axis is a node of ``p`` that reads one side and has ordinals. ``known`` contains domains, such as the frontier
    of the other side. Rows whose axis is NULL or NaN are not considered.
    """
    return _refuter(p, known, axis, falling)(ordinal)


def _refuter(p: Propagator, known: Mapping[Node, Dom], axis: Node, falling: bool) -> Callable[[int], bool]:
    """Return `refutes` as a function of the ordinal."""
    t = axis.type
    given = dict(known)
    old = given.pop(axis, None)
    least, most = _ends(axis, old)
    roots = p.roots

    def refuted(ordinal: int) -> bool:
        lo, hi = (ordinal, most) if falling else (least, ordinal)
        if lo > hi:
            return True
        given[axis] = Dom.of(t, value_of(lo, t), value_of(hi, t), null=False, nan=False)
        D = p.upward(given)
        return any(not D[r] & truth.TRUE for r in roots)

    return refuted


def dead_until(
    p: Propagator, known: Mapping[Node, Dom], axis: Node, falling: bool = False, near: int | None = None
) -> int | None:
    """Return the last ordinal of the longest prefix in which no row can satisfy the conjuncts, or None.

    The search starts at ``near``, such as the result for an earlier frontier. Its cost is logarithmic in the distance.
    """
    refuted = _refuter(p, known, axis, falling)
    least, most = _ends(axis, known.get(axis))
    # A falling axis is mirrored, so that the prefix always begins at the low end.
    sign = -1 if falling else 1
    low, high = (-most, -least) if falling else (least, most)

    def test(x: int) -> bool:
        return refuted(sign * x)

    found = last_true(test, low, high, low if near is None else sign * near)
    return None if found < low else sign * found


def confirmed(
    p: Propagator, known: Mapping[Node, Dom], axis: Node, bound: int, falling: bool = False
) -> int:
    """Move a bound that a backward rule proposes outward, until forward rules refute the rows beyond it.

    ``bound`` is the ordinal of the first value that is not evicted. If forward rules refute nothing near it, ``bound``
    is returned unchanged, because a backward rule may be more precise.
    """
    refuted = _refuter(p, known, axis, falling)
    out = -1 if falling else 1
    if refuted(bound - out):
        return bound
    for k in range(_CONFIRMING_STEPS if axis.type.kind == "float" else 3):
        moved = bound - out * (1 << k)
        if refuted(moved - out):
            return moved
    return bound


def _ends(axis: Node, known: Dom | None) -> tuple[int, int]:
    """Return the least and greatest ordinal of an axis, without NaN."""
    t = axis.type
    whole = Dom.of(t, None, None, null=False, nan=False) if known is None else known
    if t.kind == "float":
        return ordinal_of(whole.lo, t), min(ordinal_of(whole.hi, t), NAN_ORDINAL - 1)
    return ordinal_of(whole.lo, t), ordinal_of(whole.hi, t)

