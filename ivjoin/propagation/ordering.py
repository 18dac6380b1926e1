"""Derive the direction of an expression over arriving rows from the declared orders of its columns.

Ascending values never fall, and descending values never rise. A row whose value is NULL, NaN or an error has no place
in the order, and may arrive at any time. An operator follows an order only if each of its values comes from ordered
values. For example, ``floor(NaN)`` is 0 and ``least`` skips nulls, so these need arguments that cannot be NaN or NULL.
A direction must be proved. For example, the last digit of ``exp`` may fall while its argument rises.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivjoin.expr.nodes import Node
from ivjoin.functions.records.direction import Direction, firm, together
from ivjoin.functions.rules.domain import Dom
from ivjoin.functions.table import direction_of
from ivjoin.propagation.dag import Propagator
from ivjoin.propagation.linear import arguments
from ivjoin.propagation.polynomial import normal_forms

__all__ = ["Direction", "ordering"]


SAME, NO = Direction.CONSTANT, Direction.NONE


def ordering(node: Node, orders: Mapping[Node, Direction], known: Mapping[Node, Dom] | None = None) -> Direction:
    """Return the direction of an expression, or NONE if no direction can be proved.

    ``known`` are known domains, such as bounds. For example, a product of rising values rises if no factor is negative.
    """
    p = Propagator((), (node,))
    domains = [Dom(n.type, d) for n, d in zip(p.nodes, p.upward(known or {}))]
    sums = normal_forms(p.nodes, arguments(p.nodes), 1)
    found: list[Direction] = []
    for i, n in enumerate(p.nodes):
        direction = orders.get(n)
        if direction is None:
            direction = _of(n, [found[p.index[a]] for a in n.args], [domains[p.index[a]] for a in n.args], domains[i])
        if direction is NO and (s := sums[i]) is not None and (i,) not in s.terms:
            # In a linear form, repeated atoms cancel: (a + b) - b has the direction of a.
            direction = together([found[m[0]] if c > 0 else -found[m[0]] for m, c in s.terms.items() if m])
        found.append(direction)
    return found[p.index[node]]


def _of(n: Node, directions: list[Direction], args: list[Dom], result: Dom) -> Direction:
    if n.op == "literal" or (not result.is_empty and result.lo is not None and result.lo == result.hi):
        # The expression has only one value, apart from NULL and NaN, which have no place in the order.
        return SAME
    if not n.args:
        return NO
    if all(d is SAME for d in directions) and all(firm(a) for a in args):
        return SAME
    rule = direction_of(n)
    return NO if rule is None else rule(n, directions, args)
