"""Propagation for the join: from what is known of expressions to what is left of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from ivjoin.expr.nodes import Node
from ivjoin.operators.domain import Dom
from ivjoin.propagation.dag import Outcome, Propagator

__all__ = ["contract_nodes", "forward", "propagator"]

_LIMIT = 128
_made: dict[Any, Propagator] = {}
_lock = Lock()


def propagator(conjuncts: tuple[Node, ...], also: tuple[Node, ...]) -> Propagator:
    """A propagator of some conjuncts that ``also`` may be asked of; one that was made before, if it is kept.

    Where conjuncts are TRUE nothing they evaluate divided by zero, which errs in a join. A value by itself, without
    conjuncts, may be of a row that errs.
    """
    key = (conjuncts, also)
    found = _made.get(key)
    if found is None:
        found = Propagator(conjuncts, also, zero_gives_null=not conjuncts)
        with _lock:
            while len(_made) >= _LIMIT:  # the oldest goes
                del _made[next(iter(_made))]
            _made[key] = found
    return found


def forward(node: Node, known: Mapping[Node, Dom]) -> Dom:
    """A domain that holds every value of an expression.

    Parameters
    ----------
    node : Node
    known : mapping of Node to Dom
        What is known of sub-expressions; a column that is not in it can be anything of its type.
    """
    found = known.get(node)
    if found is not None:
        return found
    return propagator((), (node,)).forward(known, node)


def contract_nodes(
    conjuncts: Sequence[Node], known: Mapping[Node, Dom], want: Sequence[Node], also: Sequence[Node] | None = None,
    rounds: int = 2,
) -> tuple[Outcome, dict[Node, Dom]]:
    """What is left of some expressions at the points where every conjunct is TRUE.

    Parameters
    ----------
    conjuncts : sequence of Node
        Conditions.
    known : mapping of Node to Dom
        What is known of expressions; all of it holds at once.
    want : sequence of Node
        The expressions asked for.
    also : sequence of Node, optional
        All that will ever be asked for, so that one propagator serves several questions.
    rounds : int
        How often to propagate up and down at most, if there is news: a bound may pass one conjunct a round.

    Returns
    -------
    Outcome
        INFEASIBLE if no point is left, CONTRACTED if a wanted domain got smaller than what was known of it.
    dict of Node to Dom
        The domain of each wanted expression.
    """
    return propagator(tuple(conjuncts), tuple(want if also is None else also)).contract(known, want, rounds)
