"""Find the interval rule of a node in the record of its operator."""

from __future__ import annotations

from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node
from ivjoin.functions.records.record import Absent
from ivjoin.functions.rules.rule import Place, Rule, nothing, strict
from ivjoin.functions.table import meaning_of

__all__ = ["rule_of"]


def rule_of(node: Node, i: int, at: tuple[int, ...], zero_gives_null: bool = True) -> Rule:
    """Return the rule of a node, or an empty rule if the operator lacks one for these arguments."""
    place, meaning = Place(node, i, at, zero_gives_null), meaning_of(node)
    if meaning is None:
        return nothing(place)
    if isinstance(meaning.bounds, Absent):
        return strict(place)
    try:
        return meaning.bounds(place) or nothing(place)
    except (IvjoinError, KeyError):
        # The evaluator will raise the error for an unknown zone or unit. Until then, prune nothing.
        return nothing(place)
