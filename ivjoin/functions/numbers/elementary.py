"""Elementary functions of doubles: roots, exponentials, logarithms, powers and trigonometric functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from ivjoin.expr import build
from ivjoin.expr.build.coerce import as_double
from ivjoin.expr.build.numeric import real
from ivjoin.expr.kernels import floats as ops_float
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node
from ivjoin.functions.records import direction
from ivjoin.functions.records.direction import DirectionRule
from ivjoin.functions.records.record import (
    BOTH_WAYS,
    LIBRARY,
    NOT_LINEAR,
    Absent,
    Build,
    Meaning,
    Operator,
    always,
    call,
    never,
    one,
    quiet,
)
from ivjoin.functions.records.writing import called
from ivjoin.functions.rules.domain import NAN
from ivjoin.functions.rules.rule import Maker
from ivjoin.functions.rules.rules_float import ENTIRE
from ivjoin.functions.rules.rules_function import (
    HALF_PI,
    atan2,
    cosh,
    hypot,
    logarithm,
    lower,
    rising,
    sqrt,
    tan,
    total,
    upper,
    waved,
)
from ivjoin.functions.rules.rules_power import pow_

__all__ = ["OPERATORS", "SPELLINGS"]

_UNKNOWN = Absent("SymPy writes it with other functions, which ivjoin can read")


def _function(
    name: str, f: Callable[[Any], Any], bounds: Maker, direction: DirectionRule | Absent = LIBRARY,
    sympy: str | Absent = _UNKNOWN, pole: float | None = None,
) -> Operator:  # fmt: skip
    """Return the record of a function of one double. A logarithm is NULL at and below ``pole``."""
    exact = ops_float.unary_(f) if pole is None else ops_float.logarithm(f, pole)
    build = _made(name)
    return Operator(
        name, {"float": quiet(exact, bounds)}, (f"{name}(l.x)",),
        called(name), direction, NOT_LINEAR, build, calls=(call(name, 1, 1, build),), sympy=sympy,
        passes_null=always if pole is None else never, passes_nan=always,
    )  # fmt: skip


def _made(name: str) -> Build:
    return lambda a, z: real(name, *a)


def _cube_root(x: Any) -> Any:
    """Return the cube root, computed with long doubles. Some libraries return more than 3 for 27 with doubles."""
    return np.cbrt(np.asarray(x, dtype=np.longdouble)).astype(np.float64)


def _log(a: list[Node], zone: str) -> Node:
    return real("ln", a[0]) if len(a) == 1 else build.div(real("ln", a[1]), real("ln", a[0]))


def _is_power(n: Node) -> bool:
    """Return whether the exponent is a nonzero constant. Otherwise NaN can give 1: ``NaN ** 0`` is 1."""
    exponent = n.args[1]
    return is_literal(exponent) and bool(exponent.params[0])


OPERATORS = (
    _function("sqrt", np.sqrt, sqrt, direction.rises, "Pow"),
    _function("cbrt", _cube_root, rising(math.cbrt, lambda c: float(c**3), ENTIRE, ENTIRE)),
    _function("exp", np.exp, rising(total(math.exp, 0.0, inf), math.log, ENTIRE, (0.0, inf)), sympy="exp"),
    _function("expm1", np.expm1, rising(total(math.expm1, -1.0, inf), math.log1p, ENTIRE, (-1.0, inf))),
    _function("ln", np.log, logarithm(math.log, total(math.exp, 0.0, inf), 0.0), sympy="log", pole=0.0),
    _function("log10", np.log10, logarithm(math.log10, lambda c: float(10.0**c), 0.0), pole=0.0),
    _function("log2", np.log2, logarithm(math.log2, lambda c: float(2.0**c), 0.0), pole=0.0),
    _function("log1p", np.log1p, logarithm(math.log1p, total(math.expm1, -1.0, inf), -1.0), pole=-1.0),
    _function("sinh", np.sinh, rising(total(math.sinh, -inf, inf), math.asinh, ENTIRE, ENTIRE), sympy="sinh"),
    _function("cosh", np.cosh, cosh, BOTH_WAYS, "cosh"),
    _function("tanh", np.tanh, rising(math.tanh, math.atanh, ENTIRE, (lower(-1.0), upper(1.0))), sympy="tanh"),
    _function("asin", np.arcsin, rising(math.asin, math.sin, (-1.0, 1.0), ENTIRE, NAN), sympy="asin"),
    _function("acos", np.arccos, rising(math.acos, None, (-1.0, 1.0), ENTIRE, NAN, falls=True), sympy="acos"),
    _function("atan", np.arctan, rising(math.atan, math.tan, ENTIRE, ENTIRE), sympy="atan"),
    _function("sin", np.sin, waved(0.0), BOTH_WAYS, "sin"),
    _function("cos", np.cos, waved(HALF_PI), BOTH_WAYS, "cos"),
    _function("tan", np.tan, tan, BOTH_WAYS, "tan"),
    Operator(
        "pow", {"float": Meaning(ops_float.binary(ops_float.power), pow_)},
        ("pow(l.x, 2)", "pow(l.x, 3)", "pow(l.x, r.y)", "pow(l.x, 0.5D)"),
        called("pow"), LIBRARY, NOT_LINEAR, _made("pow"), calls=(call("pow power", 2, 2, _made("pow")),), sympy="Pow",
        passes_nan=_is_power,
    ),
    Operator(
        "hypot", {"float": Meaning(ops_float.binary(np.hypot), hypot)},
        ("hypot(l.x, r.y)", "hypot(l.x - r.x, l.y - r.y)"), called("hypot"), BOTH_WAYS, NOT_LINEAR,
        _made("hypot"), calls=(call("hypot", 2, 2, _made("hypot")),), sympy=_UNKNOWN,
    ),
    Operator(
        "atan2",
        {"float": Meaning(ops_float.binary(np.arctan2), atan2)},
        ("atan2(l.x, r.y)",), called("atan2"), BOTH_WAYS, NOT_LINEAR, _made("atan2"),
        calls=(call("atan2", 2, 2, _made("atan2")),), sympy=_UNKNOWN, passes_nan=always,
    ),
)  # fmt: skip
SPELLINGS = (
    call("log", 1, 2, _log),
    one("radians", lambda a: build.mul(as_double(a, "radians"), literal(math.pi / 180))),
    one("degrees", lambda a: build.mul(as_double(a, "degrees"), literal(180 / math.pi))),
    call("pi", 0, 0, lambda a, z: literal(math.pi)),
)
