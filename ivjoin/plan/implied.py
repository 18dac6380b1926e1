"""Orders that follow from declared ones: of a column that is moved, scaled or turned over, the column's own."""

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
    """The orders, and after them those of ``wanted`` columns that say the same.

    Conditions over ``t + 5``, ``2 * t`` or ``-t`` are compared by ``t``, so that is what must be known to rise or fall.
    They say nothing of what a promise about the column means, nor is one asked how far they have come.
    ``k * t + c`` falls by at most s exactly where t falls, or with k below 0 rises, by at most ``s / |k|``.
    """
    out = list(orders)
    forms = Forms()
    for o in orders:
        found = _following(o, forms)
        if found is not None and found[0].node in wanted and not any(x.node is found[0].node for x in out):
            out.append(found[0])
    return tuple(out)


def with_edges(orders: Sequence[Order], edges: Sequence[int | None]) -> list[int | None]:
    """How far each order has come, by how far the declared ones have; those that follow from these stand behind them.

    Parameters
    ----------
    orders : sequence of Order
        All of a side.
    edges : sequence of int or None
        Of each declared one: the greatest ordinal of the rows seen, of the least, as ``~ordinal``, where the order
        falls; None where no value was seen.
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
            # Between two values, if no row had it: the one that promises less.
            whole = ceil(ticks) if o.descending else floor(ticks)
            least, most = o.node.type.limits
            if least <= whole <= most:
                at = ordinal_of(whole, o.node.type)
                own = ~at if o.descending else at
        out.append(own)
    return out


def _following(o: Order, forms: Forms) -> tuple[Order, Number, Number] | None:
    """The order of the column t that follows from one of ``k * t + c``, with k and c."""
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
        slack = -(-slack // abs(k))  # a little more than it may be promises a little less
    follows = replace(o, expr=column, descending=o.descending != (k < 0), slack=slack, follows=True)
    return follows, k, form.lo
