"""Derive simpler comparisons from a comparison, from the intervals of the expressions inside it.

For example, ``(l.t - r.t) / 1000.0 <= 5`` is not a band. Propagation finds that it implies ``l.t - r.t <= 5000``.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, columns_of, make, sides_of, walk
from ivjoin.expr.types import BOOL

if TYPE_CHECKING:
    from ivjoin.propagation import Dom

__all__ = ["inner_bounds"]

_MOST_NODES = 64  # larger comparisons are not analysed


def inner_bounds(c: Node, never_null: Set[Node]) -> Iterator[Node]:
    """Return comparisons that follow from ``c``. Each compares a two-sided expression inside ``c`` with a literal."""
    inside = [n for n in walk(c) if n is not c and len(sides_of(n)) == 2 and n.op not in (ops.CASE, ops.COALESCE)]
    inside = [n for n in inside if (n.type.is_discrete or n.type.kind == "float") and n not in c.args]
    if not inside or len(inside) > _MOST_NODES:
        return
    from ivjoin.propagation import Dom, Outcome, contract_nodes, forward

    known = {x: Dom.of(x.type, null=False) for x in columns_of(c) if x in never_null}
    outcome, doms = contract_nodes((c,), known, tuple(inside))
    if outcome is Outcome.INFEASIBLE:
        return
    for n in inside:
        yield from _bounds(n, doms[n], forward(n, known))


def _bounds(n: Node, found: Dom, always: Dom) -> Iterator[Node]:
    """Return comparisons for the ends of ``found`` that are narrower than those in ``always``."""
    if found.may_null or found.is_empty:
        return
    if found.lo is not None and (always.lo is None or found.lo > always.lo):
        yield make(ops.GE, (n, make("literal", (), (found.lo,), n.type)), (), BOOL)
    if found.hi is not None and not found.may_nan and (always.hi is None or found.hi < always.hi or always.may_nan):
        yield make(ops.LE, (n, make("literal", (), (found.hi,), n.type)), (), BOOL)
