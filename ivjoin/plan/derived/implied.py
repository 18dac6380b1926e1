"""Derive the order of a column from a declared order of a linear expression of it, such as ``-t`` or ``2 * t + 5``."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinal_of, value_of
from ivjoin.frontier.order import Order
from ivjoin.separation.linear import Forms, Number

__all__ = ["with_columns", "with_edges"]

_KINDS = {"int", "decimal", "date", "timestamp", "duration"}


def with_columns(orders: tuple[Order, ...], wanted: Container[Node]) -> tuple[Order, ...]:
    """Return the orders, followed by the derived orders of the ``wanted`` columns.

    A band over ``t + 5`` or ``-t`` becomes a band over ``t``, so the order of ``t`` must be known. ``k * t + c`` falls
    by at most s if and only if t falls (k < 0: rises) by at most ``s / |k|``. Callers do not see derived orders.
    """
    out = list(orders)
    forms = Forms()
    for o in orders:
        found = _following(o, forms)
        if found is not None and found[0].node in wanted and not any(x.node is found[0].node for x in out):
            out.append(found[0])
    return tuple(out)


def with_edges(orders: Sequence[Order], edges: Sequence[int | None]) -> list[int | None]:
    """Return how far each order has advanced, including the derived orders.

    ``edges`` has an entry for each declared order: the greatest ordinal so far, or None. For a falling order, it is
    ``~ordinal`` of the least value.
    """
    out = list(edges)
    forms = Forms()
    known = [(edge, o, _following(o, forms)) for edge, o in zip(edges, orders, strict=False)]
    for o in orders[len(edges) :]:
        edge, by, (_, k, c) = next((edge, by, found) for edge, by, found in known if found and found[0] == o)
        own: int | None = None
        if edge is not None:
            value = Fraction(value_of(~edge if by.descending else edge, by.node.type), 10**by.node.type.scale)
            ticks = (value - c) / k * 10**o.node.type.scale
            # If the exact place is between two values, round to the weaker promise.
            whole = ceil(ticks) if o.descending else floor(ticks)
            least, most = o.node.type.limits
            if least <= whole <= most:
                at = ordinal_of(whole, o.node.type)
                own = ~at if o.descending else at
        out.append(own)
    return out


def _following(o: Order, forms: Forms) -> tuple[Order, Number, Number] | None:
    """Return the order of the column t that follows from an order of ``k * t + c``, with k and c."""
    form = forms.form(o.node) if o.node.op != "column" and o.node.type.kind in _KINDS else None
    if form is None or not form.exact or len(form.terms) != 1:
        return None
    ((column, k),) = form.terms.items()
    if column.op != "column" or not has_ordinal(column.type):
        return None
    if column.type.kind != o.node.type.kind or column.type.unit != o.node.type.unit:
        return None
    slack = o.slack
    if slack is not None and abs(k) != 1:
        if not (isinstance(slack, int) and isinstance(k, int)):
            return None
        slack = -(-slack // abs(k))  # rounded up, which is the weaker promise
    follows = replace(o, expr=column, descending=o.descending != (k < 0), slack=slack, follows=True)
    return follows, k, form.lo
