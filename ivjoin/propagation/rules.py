"""Which interval rule a node has: that of its operator's record."""

from __future__ import annotations

from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node
from ivjoin.operators.record import Absent
from ivjoin.operators.rule import Place, Rule, nothing, strict
from ivjoin.operators.table import meaning_of

__all__ = ["rule_of"]


def rule_of(node: Node, i: int, at: tuple[int, ...], zero_gives_null: bool = True) -> Rule:
    """The rule of a node; an operator without one, or with arguments its rule does not know, says nothing."""
    place, meaning = Place(node, i, at, zero_gives_null), meaning_of(node)
    if meaning is None:
        return nothing(place)
    if isinstance(meaning.bounds, Absent):
        return strict(place)
    try:
        return meaning.bounds(place) or nothing(place)
    except (IvjoinError, KeyError):
        # A zone or unit that is unknown: the evaluator will say so, to prune nothing is enough here.
        return nothing(place)
