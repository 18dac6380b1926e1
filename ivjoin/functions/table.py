"""The tables of operators: records by node name, and functions by SQL name."""

from __future__ import annotations

from itertools import chain
from typing import Final

from ivjoin.expr.nodes import Node
from ivjoin.functions.logic import attempts, casts, choice, comparison, truth
from ivjoin.functions.numbers import arithmetic, bits, hashes, rounding
from ivjoin.functions.numbers import elementary as functions
from ivjoin.functions.records.direction import DirectionRule
from ivjoin.functions.records.linear import Linear
from ivjoin.functions.records.record import Absent, Call, Meaning, Operator
from ivjoin.functions.values import clocks, nested, patterns, spans, texts, times

__all__ = [
    "FAMILIES", "FUNCTIONS", "OPERATORS", "direction_of", "is_lazy", "kind_of", "linear_of", "meaning_of", "never_errs",
    "operator_of", "passes_nan", "passes_null", "skips_null",
]  # fmt: skip

FAMILIES: Final = {
    "arithmetic": arithmetic, "rounding": rounding, "functions": functions, "comparison": comparison, "truth": truth,
    "choice": choice, "casts": casts, "times": times, "spans": spans, "texts": texts, "clocks": clocks,
    "patterns": patterns, "bits": bits, "attempts": attempts, "nested": nested, "hashes": hashes,
}  # fmt: skip
_TIMES = frozenset({"date", "time", "timestamp", "duration", "months"})

OPERATORS: dict[str, Operator] = {}
FUNCTIONS: dict[str, Call] = {}
for _family in FAMILIES.values():
    for _operator in _family.OPERATORS:
        assert _operator.name not in OPERATORS, f"two records of {_operator.name}"
        OPERATORS[_operator.name] = _operator
    for _call in chain(_family.SPELLINGS, *(o.calls for o in _family.OPERATORS)):
        for _name in _call.names:
            assert _name not in FUNCTIONS, f"two functions {_name}()"
            FUNCTIONS[_name] = _call


def operator_of(node: Node) -> Operator | None:
    """Return the record of a node. None for leaves, and for unknown operators from a damaged snapshot."""
    return OPERATORS.get(node.params[0] if node.op == "function" else node.op)


def kind_of(node: Node) -> str:
    """Return the kind of the arguments, which selects the meaning of an operator. It is ``time`` if one is a time."""
    kinds = [a.type.kind for a in node.args]
    return "time" if not _TIMES.isdisjoint(kinds) else kinds[0] if kinds else ""


def meaning_of(node: Node) -> Meaning | None:
    """Return the meaning of the node's operator for its arguments, or None if it is not defined for them."""
    operator = operator_of(node)
    if operator is None:
        return None
    return operator.meanings.get("*") or operator.meanings.get(kind_of(node))


def never_errs(node: Node) -> bool:
    """Return whether the node itself has no error for any values of the argument types."""
    meaning = meaning_of(node)
    return node.op in ("column", "literal") or (meaning is not None and meaning.never_errs(node))


def passes_null(node: Node) -> bool:
    """Return whether the node is NULL, or has an error, exactly if an argument does."""
    operator = operator_of(node)
    return operator is not None and operator.passes_null(node)


def passes_nan(node: Node) -> bool:
    """Return whether the node is NaN, NULL or an error if an argument is NaN or NULL."""
    operator = operator_of(node)
    return operator is not None and operator.passes_nan(node)


def skips_null(node: Node) -> bool:
    """Return whether the node is NULL only if all arguments are NULL."""
    operator = operator_of(node)
    return operator is not None and operator.skips_null


def is_lazy(node: Node) -> bool:
    """Return whether the node may evaluate only its first argument."""
    operator = operator_of(node)
    return operator is not None and operator.lazy


def direction_of(node: Node) -> DirectionRule | None:
    operator = operator_of(node)
    return None if operator is None or isinstance(operator.direction, Absent) else operator.direction


def linear_of(node: Node) -> Linear | None:
    operator = OPERATORS.get(node.op)
    return None if operator is None or isinstance(operator.linear, Absent) else operator.linear
