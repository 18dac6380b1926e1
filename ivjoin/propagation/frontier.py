"""Propagation for joins: derive domains of expressions from known domains of other expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ivjoin.expr.nodes import Node
from ivjoin.functions.rules.domain import Dom
from ivjoin.propagation.dag import Outcome, Propagator

__all__ = ["contract_nodes", "forward", "forward_all", "propagator"]


@lru_cache(128)
def propagator(conjuncts: tuple[Node, ...], also: tuple[Node, ...]) -> Propagator:
    """Return a propagator of conjuncts that also contains the nodes ``also``. The last 128 propagators are cached.

    In a join, a division by zero is an error, so it cannot occur in conjuncts that are TRUE. Without conjuncts, a row
    may raise an error.
    """
    return Propagator(conjuncts, also, zero_gives_null=not conjuncts)


def forward(node: Node, known: Mapping[Node, Dom]) -> Dom:
    """Return a domain that contains every value of an expression. A column that is not in ``known`` has any value."""
    found = known.get(node)
    if found is not None:
        return found
    return propagator((), (node,)).forward(known, node)


def forward_all(nodes: Sequence[Node], known: Mapping[Node, Dom]) -> dict[Node, Dom]:
    """Return for each expression a domain that contains all of its values. See :func:`forward`."""
    of_all = Propagator((), nodes)
    doms = of_all.upward(known)
    return {n: known.get(n) or Dom(n.type, doms[of_all.index[n]]) for n in nodes}


def contract_nodes(
    conjuncts: Sequence[Node], known: Mapping[Node, Dom], want: Sequence[Node], also: Sequence[Node] | None = None,
    rounds: int = 2,
) -> tuple[Outcome, dict[Node, Dom]]:
    """Return the outcome, and the domains of the expressions ``want`` at the points where every conjunct is TRUE.

    The outcome is INFEASIBLE if no point satisfies the conjuncts, and CONTRACTED if a wanted domain is smaller than its
    known domain. ``also`` are all expressions that later calls want, so that one propagator serves all calls. In each
    of ``rounds`` passes, a bound may propagate through one more conjunct.
    """
    return propagator(tuple(conjuncts), tuple(want if also is None else also)).contract(known, want, rounds)
