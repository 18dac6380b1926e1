"""Compute ranges of sums over unbounded integers where machine integers would overflow.

A band term contains sums that the condition does not compute. For example, ``l.a + r.a <= 0`` becomes ``l.a <= -r.a``.
For the least value of the type, ``-r.a`` overflows although the condition does not. The domain of ``-r.a`` covers only
rows without errors, so it excludes this row. Over unbounded integers, the band is also true for this row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from ivjoin.expr import ops
from ivjoin.expr.form import Form, Number, scale_of
from ivjoin.expr.nodes import Node
from ivjoin.separation.linear import Opened, span

if TYPE_CHECKING:
    from ivjoin.propagation import Dom

__all__ = ["Unclipped"]


class Unclipped:
    """An expression of a band, opened into the sum of the expressions in ``known``."""

    def __init__(self, node: Node, known: Collection[Node]) -> None:
        self._rest: int | None = None
        if node.op == ops.COALESCE and len(node.args) == 2 and node.args[1].op == "literal":
            node, self._rest = node.args[0], node.args[1].params[0]
        self._form: Form | None = None
        self._scale = scale_of(node.type)
        # The form and the range of the type for each sum inside.
        self._inside: list[tuple[Form, Number, Number]] = []
        if not node.type.is_discrete:
            return
        forms = Opened(known)
        self._form = forms.form(node)
        stack = [node]
        while stack:
            n = stack.pop()
            form = forms.form(n)
            if form is not None and n not in form.terms and n.op != "literal":
                self._inside.append((form, *span(n.type)))
                stack.extend(n.args)

    def range(self, domain: Callable[[Node], Dom]) -> tuple[int, int] | None:
        """Return the range of physical values if a row may overflow. None if no row does, or the node has no value."""
        if self._form is None or not self._inside:
            return None
        ends: dict[Node, tuple[Number, Number]] = {}
        null = False
        for form, _, _ in self._inside:
            for n in form.terms:
                if n not in ends:
                    dom = domain(n)
                    if dom.is_empty:
                        return None
                    scale = scale_of(n.type)
                    ends[n] = (dom.lo, dom.hi) if scale == 1 else (Fraction(dom.lo, scale), Fraction(dom.hi, scale))
                    null = null or dom.may_null
        if not any(self._overflows(*x, ends) for x in self._inside):
            return None
        low, high = _ends(self._form, ends)
        least, most = floor(low * self._scale), ceil(high * self._scale)
        if self._rest is not None and null:
            least, most = min(least, self._rest), max(most, self._rest)
        return least, most

    @staticmethod
    def _overflows(form: Form, least: Number, most: Number, ends: Mapping[Node, tuple[Number, Number]]) -> bool:
        low, high = _ends(form, ends)
        return low < least or high > most


def _ends(form: Form, ends: Mapping[Node, tuple[Number, Number]]) -> tuple[Number, Number]:
    low, high = form.lo, form.hi
    for n, c in form.terms.items():
        a, b = ends[n]
        low, high = (low + c * a, high + c * b) if c > 0 else (low + c * b, high + c * a)
    return low, high
