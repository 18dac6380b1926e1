"""Which rule an operator has, by its name and the type it works on."""

from __future__ import annotations

from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node
from ivjoin.propagation import (
    rules_cast,
    rules_choice,
    rules_compare,
    rules_float,
    rules_function,
    rules_integer,
    rules_text,
    rules_time,
    rules_truth,
)
from ivjoin.propagation.rule import Maker, Place, Rule, nothing

__all__ = ["rule_of"]

_ANY: dict[str, Maker] = (
    rules_truth.RULES | rules_choice.RULES | rules_compare.RULES | rules_cast.RULES | rules_text.RULES
)
_TIMES = frozenset({"date", "time", "timestamp", "duration", "months"})
_FLOAT = rules_float.RULES | rules_function.RULES


def rule_of(node: Node, i: int, at: tuple[int, ...]) -> Rule:
    """The rule of a node; an operator without one, or with arguments its rule does not know, says nothing."""
    maker = _ANY.get(node.op)
    if maker is None and node.args:
        kinds = {a.type.kind for a in node.args}
        if kinds & _TIMES:
            maker = rules_time.RULES.get(node.op)
        elif kinds == {"float"}:
            maker = _FLOAT.get(node.op)
        elif kinds == {"int"}:
            maker = rules_integer.INTEGER.get(node.op)
        elif kinds == {"decimal"}:
            maker = rules_integer.DECIMAL.get(node.op)
    place = Place(node, i, at)
    if maker is None:
        return nothing(place)
    try:
        return maker(place) or nothing(place)
    except (IvjoinError, KeyError):
        # A zone or unit that is unknown: the evaluator will say so, to prune nothing is enough here.
        return nothing(place)
