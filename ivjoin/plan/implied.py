"""Orders that follow from declared ones: of a column that is moved, scaled or turned over, the column's own."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.frontier.order import Order
from ivjoin.separation.linear import Forms

__all__ = ["with_columns"]

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
        form = forms.form(o.node) if o.node.op != "column" and o.node.type.kind in _KINDS else None
        if form is None or not form.exact or len(form.terms) != 1:
            continue
        ((column, k),) = form.terms.items()
        if column.op != "column" or column not in wanted or any(x.node is column for x in out):
            continue
        if column.type.kind != o.node.type.kind or column.type.unit != o.node.type.unit or not has_ordinal(column.type):
            continue
        slack = o.slack
        if slack is not None and abs(k) != 1:
            if not (isinstance(slack, int) and isinstance(k, int)):
                continue
            slack = -(-slack // abs(k))  # a little more than it may be promises a little less
        out.append(replace(o, expr=column, descending=o.descending != (k < 0), slack=slack, follows=True))
    return tuple(out)
