"""Find comparisons that contradict each other because they bound the same sum by disjoint ranges.

For example, ``a > b`` is ``a - b >= 1`` for whole numbers, and ``a < b + 1`` is ``a - b <= 0``, so no row satisfies
both. The rules of the two comparisons, run in turn, would narrow the box by only one unit at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from ivjoin.expr import ops
from ivjoin.expr.nodes import NEGATED, Node
from ivjoin.expr.polynomial import Monomial, plus
from ivjoin.propagation.polynomial import Normal

__all__ = ["contradict"]


def contradict(
    nodes: Sequence[Node], at: Sequence[tuple[int, ...]], roots: Iterable[int], sums: Sequence[Normal | None]
) -> bool:
    """Return whether the comparisons among the roots cannot all be TRUE."""
    found: dict[tuple[tuple[Monomial, int], ...], tuple[int | None, int | None]] = {}
    stack = [(i, True) for i in roots]
    while stack:
        i, true = stack.pop()
        n = nodes[i]
        if n.op == ops.NOT or n.op == (ops.AND if true else ops.OR):
            stack.extend((j, true != (n.op == ops.NOT)) for j in at[i])
            continue
        low, high = ops.difference(n.op if true else NEGATED.get(n.op, ""), 1)
        if low is None and high is None:
            continue
        a, b = (sums[j] for j in at[i])
        if a is None or b is None or n.args[0].type.scale != n.args[1].type.scale:
            continue
        d = plus(a.terms, b.terms, -1)
        constant = d.pop((), 0)
        if not d:
            continue
        terms = tuple(sorted(d.items()))
        k = gcd(*d.values()) * (1 if terms[0][1] > 0 else -1)
        # low <= k * sum + constant <= high, in whole numbers
        low = None if low is None else low - constant
        high = None if high is None else high - constant
        if k < 0:
            low, high = None if high is None else -high, None if low is None else -low
        least = None if low is None else -(-low // abs(k))
        most = None if high is None else high // abs(k)
        key = tuple((x, c // k) for x, c in terms)
        old = found.get(key, (None, None))
        least = old[0] if least is None else least if old[0] is None else max(least, old[0])
        most = old[1] if most is None else most if old[1] is None else min(most, old[1])
        if least is not None and most is not None and least > most:
            return True
        found[key] = least, most
    return False
