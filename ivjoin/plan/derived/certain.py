"""Find expressions that are never NULL, and never NaN, in a match, from the condition and from declarations.

``greatest``, ``least`` and ``coalesce`` skip a NULL, so they bound an argument only if it is never NULL. NaN is the
greatest number, so a falling order of floats bounds only rows without NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, ordinal_of, value_of
from ivjoin.frontier.order import ordinal_range

__all__ = ["certain", "domain_of", "ordinals_of", "there"]


def domain_of(node: Node, interval: tuple[int, int, bool]) -> Any:
    """Return the domain of an expression. ``interval`` is (least ordinal, greatest ordinal, may be NULL)."""
    from ivjoin.propagation import Dom

    low, high, null = interval
    t = node.type
    least, most = ordinal_range(t)
    if low > high:
        return Dom.empty(t, null=null)
    nan = t.kind == "float" and high >= NAN_ORDINAL
    if t.kind == "float":
        most = ordinal_of(float("inf"), t)
        if low > most:
            return Dom.empty(t, null=null, nan=True)
    lo = None if low <= least else value_of(low, t)
    hi = None if high >= most else value_of(high, t)
    return Dom.of(t, lo, hi, null=null, nan=nan)


def ordinals_of(dom: Any, node: Node) -> tuple[int, int]:
    """Return a domain as a closed interval of ordinals; (1, 0) if it is empty. NaN has the greatest ordinal."""
    t = node.type
    least, most = ordinal_range(t)
    if dom.is_empty:
        return (1, 0) if not (t.kind == "float" and dom.may_nan) else (NAN_ORDINAL, NAN_ORDINAL)
    low = least if dom.lo is None else ordinal_of(dom.lo, t)
    if t.kind == "float":
        high = ordinal_of(float("inf"), t) if dom.hi is None else ordinal_of(dom.hi, t)
        return low, NAN_ORDINAL if dom.may_nan else high
    return low, most if dom.hi is None else ordinal_of(dom.hi, t)


def certain(
    conjuncts: Sequence[Node], never_null: Set[Node], bounds: Mapping[Node, tuple[int, int]], nodes: Iterable[Node]
) -> tuple[frozenset[Node], frozenset[Node]]:
    """Return the expressions that are not NULL, and the floats that are not NaN, if all conjuncts are TRUE.

    ``never_null`` contains columns. ``bounds`` are closed intervals of ordinals that contain every value.
    """
    from ivjoin.propagation import Dom, contract_nodes

    known = {c: Dom.of(c.type, null=False) for c in never_null}
    known |= {n: domain_of(n, (*span, n not in never_null)) for n, span in bounds.items()}
    wanted = tuple(dict.fromkeys(nodes))
    _, left = contract_nodes(conjuncts, known, wanted)
    present = frozenset(n for n in wanted if not left[n].may_null)
    return present, frozenset(n for n in wanted if n.type.kind == "float" and not left[n].may_nan)


def there(
    conjuncts: Sequence[Node], never_null: Set[Node], bounds: Mapping[Node, tuple[int, int]], nodes: Iterable[Node]
) -> tuple[Node, ...]:
    """Return ``IS NOT NULL`` for the computed expressions that :func:`certain` finds.

    A bound of such an expression also bounds its arguments. For example, with an order of ``unix_seconds(r.ts)``, no
    later row has a ``ts`` before the second that the order has reached. A row for which the expression raises an error
    is rejected.
    """
    computed = [n for n in nodes if n.op != "column"]
    present = certain(conjuncts, never_null, bounds, computed)[0] if computed else frozenset[Node]()
    return tuple(build.is_not_null(n) for n in computed if n in present)
