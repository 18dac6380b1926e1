"""Rounding to whole numbers and to digits, and the neighbours of a float."""

from __future__ import annotations

import numpy as np

from ivjoin.expr.build import numeric
from ivjoin.expr.build.strings import constant_int
from ivjoin.expr.kernels import decimals as ops_decimal
from ivjoin.expr.kernels import floats as ops_float
from ivjoin.expr.kernels.rounding import round_rule
from ivjoin.expr.nodes import Node
from ivjoin.functions.records import direction, linear
from ivjoin.functions.records.record import NOT_LINEAR, Absent, Meaning, Operator, call, one, quiet
from ivjoin.functions.records.writing import Arg, Written, called, written_call
from ivjoin.functions.rules import rules_float, rules_integer
from ivjoin.functions.rules.rule import unary

__all__ = ["OPERATORS", "SPELLINGS"]

_ROUNDED = Absent("the value is rounded, so it is not a multiple of the argument")
_INNER = Absent("it occurs only in the bands that ivjoin creates over floats")


def _rounding(name: str) -> Written:
    return lambda n, arg: written_call(name, [arg(0)], [n.params[0] or None])


def _digits(a: list[Node], what: str) -> int:
    return constant_int(a[1], f"the second argument of {what}") if len(a) > 1 else 0


def _neighbour(n: Node, arg: Arg) -> tuple[str, int]:
    return written_call(n.op, [arg(0)])


OPERATORS = (
    Operator(
        "floor",
        {
            "float": Meaning(ops_float.whole_floats(np.floor), unary("floor")),
            "decimal": Meaning(ops_decimal.whole(False), unary("floor")),
        },
        ("floor(l.x)", "floor(l.p)"),
        called("floor"), direction.rises_if_firm, linear.FLOOR,
        lambda a, z: numeric.floor(a[0]), calls=(one("floor", numeric.floor),), sympy="floor",
    ),
    Operator(
        "ceil",
        {
            "float": Meaning(ops_float.whole_floats(np.ceil), unary("ceil")),
            "decimal": Meaning(ops_decimal.whole(True), unary("ceil")),
        },
        ("ceil(l.x)", "ceil(l.p)"),
        called("ceil"), direction.rises_if_firm, linear.FLOOR,
        lambda a, z: numeric.ceil(a[0]), calls=(one("ceil ceiling", numeric.ceil),), sympy="ceiling",
    ),
    Operator(
        "round",
        {
            "int": Meaning(round_rule, rules_integer.round_),
            "float": Meaning(round_rule, rules_float.round_),
            "decimal": Meaning(round_rule, rules_integer.round_),
        },
        ("round(l.a, -2)", "round(l.x, 1)", "round(l.p)", "round(l.x, -2)", "round(l.p, -1)"),
        _rounding("round"), direction.rises, _ROUNDED,
        calls=(call("round", 1, 2, lambda a, z: numeric.round_(a[0], _digits(a, "round"))),), warns=True,
    ),
    Operator(
        "bround",
        {
            "int": Meaning(round_rule, rules_integer.round_),
            "float": Meaning(round_rule, rules_float.round_),
            "decimal": Meaning(round_rule, rules_integer.round_),
        },
        ("bround(l.a, -1)", "bround(l.x)", "bround(l.p, 1)"),
        _rounding("bround"), direction.rises, _ROUNDED,
        calls=(call("bround", 1, 2, lambda a, z: numeric.bround(a[0], _digits(a, "bround"))),), warns=True,
    ),
    Operator(
        "next_up", {"float": quiet(ops_float.unary_(ops_float.neighbour(np.inf)), rules_float.neighbour(True))}, (),
        _neighbour, direction.rises, NOT_LINEAR, sympy=_INNER, inner=True,
    ),
    Operator(
        "next_down", {"float": quiet(ops_float.unary_(ops_float.neighbour(-np.inf)), rules_float.neighbour(False))},
        (), _neighbour, direction.rises, NOT_LINEAR, sympy=_INNER, inner=True,
    ),
)  # fmt: skip
SPELLINGS = (one("rint", numeric.rint),)
