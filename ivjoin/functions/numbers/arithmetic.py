"""Sums, products, quotients, remainders and signs."""

from __future__ import annotations

import numpy as np

from ivjoin.expr.build import arith, numeric
from ivjoin.expr.kernels import decimals as ops_decimal
from ivjoin.expr.kernels import floats as ops_float
from ivjoin.expr.kernels import integers as ops_integer
from ivjoin.expr.kernels import times as ops_time
from ivjoin.expr.nodes import Node
from ivjoin.functions.records import direction, linear
from ivjoin.functions.records.record import NOT_LINEAR, Absent, Meaning, Operator, always, call, one, quiet
from ivjoin.functions.records.writing import ADD, ATOM, MUL, UNARY, Arg, by_width, called, infix, narrowed
from ivjoin.functions.rules import rules_float, rules_integer, rules_time
from ivjoin.functions.rules.rule import binary, unary

__all__ = ["OPERATORS", "SPELLINGS"]

_QUOTIENT = Absent("the quotient is rounded, so it is not a multiple of an argument")
_REMAINDER = Absent("the value returns to zero at each multiple of the divisor")


def _neg(n: Node, arg: Arg) -> tuple[str, int]:
    return f"-{arg(0, ATOM)}", UNARY


OPERATORS = (
    Operator(
        "add",
        {
            "int": Meaning(ops_integer.arith, rules_integer.arithmetic("add")),
            "float": quiet(ops_float.binary(np.add), binary("add")),
            "decimal": Meaning(ops_decimal.sum_(ops_decimal.plus), rules_integer.arithmetic("add")),
            "time": Meaning(ops_time.sum_, rules_time.sum_),
        },
        ("l.a + r.b", "l.x + r.y", "l.p + r.q", "l.i + r.j", "l.t + r.i", "l.a + l.a"),
        infix("+", ADD), direction.add, linear.ADD,
        lambda a, z: arith.add(a[0], a[1], z), "Add", sympy="Add", passes_nan=always,
    ),
    Operator(
        "sub",
        {
            "int": Meaning(ops_integer.arith, rules_integer.arithmetic("sub")),
            "float": quiet(ops_float.binary(np.subtract), rules_float.sub),
            "decimal": Meaning(ops_decimal.sum_(ops_decimal.minus), rules_integer.arithmetic("sub")),
            "time": Meaning(ops_time.sum_, rules_time.sum_),
        },
        ("l.a - r.b", "l.x - r.y", "l.p - r.q", "l.t - r.v", "l.t - r.i", "l.x - l.x"),
        infix("-", ADD), direction.sub, linear.ADD,
        lambda a, z: arith.sub(a[0], a[1], z), "Sub", sympy="Add", passes_nan=always,
    ),
    Operator(
        "mul",
        {
            "int": Meaning(ops_integer.arith, rules_integer.arithmetic("mul")),
            "float": quiet(ops_float.binary(np.multiply), rules_float.mul),
            "decimal": Meaning(ops_decimal.mul, rules_integer.arithmetic("mul")),
            "time": Meaning(ops_time.scaled, rules_integer.arithmetic("mul")),
        },
        ("l.a * r.b", "l.x * r.y", "l.p * r.q", "l.i * r.n", "l.a * l.a"),
        by_width("*", MUL), direction.mul, linear.MUL,
        lambda a, z: arith.mul(a[0], a[1]), "Mul", sympy="Mul", passes_nan=always,
    ),
    Operator(
        "div",
        {
            "float": Meaning(ops_float.dividing(np.divide), binary("div")),
            "decimal": Meaning(ops_decimal.div, rules_integer.arithmetic("div")),
        },
        ("l.x / r.y", "l.p / r.q"),
        by_width("/", MUL), direction.div, _QUOTIENT,
        lambda a, z: arith.div(a[0], a[1]), "Div", sympy="Pow", warns=True, passes_nan=always,
    ),
    Operator(
        "intdiv",
        {
            "int": Meaning(ops_integer.intdiv, rules_integer.intdiv),
            "decimal": Meaning(ops_decimal.division(lambda q, r, y: q, True), rules_integer.intdiv),
        },
        ("l.a div r.b", "l.p div r.q", "l.a div 7"),
        by_width("div", MUL), direction.div, linear.INTDIV,
        lambda a, z: arith.intdiv(a[0], a[1]), "IntDiv", (call("div", 2, 2, lambda a, z: arith.intdiv(*a)),),
        Absent("SymPy divides only real numbers, and floor rounds differently"), warns=True,
    ),
    Operator(
        "mod",
        {
            "int": Meaning(ops_integer.arith, rules_integer.remainder("rem")),
            "float": Meaning(ops_float.dividing(np.fmod), binary("rem")),
            "decimal": Meaning(ops_decimal.division(lambda q, r, y: r, False), rules_integer.remainder("rem")),
        },
        ("l.a % r.b", "l.x % r.y", "l.p % r.q"),
        narrowed(by_width("%", MUL)), _REMAINDER, NOT_LINEAR,
        lambda a, z: arith.mod(a[0], a[1]), "Mod", (call("mod", 2, 2, lambda a, z: arith.mod(*a)),),
        Absent("Mod of SymPy has the sign of the divisor, so it is read as pmod"), warns=True, passes_nan=always,
    ),
    Operator(
        "pmod",
        {
            "int": Meaning(ops_integer.arith, rules_integer.remainder("pmod")),
            "float": Meaning(ops_float.dividing(ops_float.pmod), binary("pmod")),
            "decimal": Meaning(ops_decimal.division(ops_decimal.positive, False), rules_integer.remainder("pmod")),
        },
        ("pmod(l.a, r.b)", "pmod(l.x, r.y)", "pmod(l.p, r.q)"),
        narrowed(called("pmod")), _REMAINDER, NOT_LINEAR,
        lambda a, z: arith.pmod(a[0], a[1]), calls=(call("pmod", 2, 2, lambda a, z: arith.pmod(*a)),), sympy="Mod",
        warns=True, passes_nan=always,
    ),
    Operator(
        "neg",
        {
            "int": Meaning(ops_integer.arith, unary("neg")),
            "float": quiet(ops_float.unary_(np.negative), unary("neg")),
            "decimal": Meaning(ops_decimal.magnitude(lambda v: -v), unary("neg")),
            "time": Meaning(ops_time.span, unary("neg")),
        },
        ("-l.a", "-l.x", "-l.p", "-l.i"),
        _neg, direction.falls, linear.NEG,
        lambda a, z: arith.neg(a[0]), "Neg", (one("negative", arith.neg),), "Mul", passes_nan=always,
    ),
    Operator(
        "abs",
        {
            "int": Meaning(ops_integer.arith, rules_integer.abs_),
            "float": quiet(ops_float.unary_(np.abs), unary("abs")),
            "decimal": Meaning(ops_decimal.magnitude(np.abs), rules_integer.abs_),
            "time": Meaning(ops_time.span, rules_integer.abs_),
        },
        ("abs(l.a)", "abs(l.x)", "abs(l.p)", "abs(l.i)"),
        called("abs"), direction.abs_, NOT_LINEAR,
        lambda a, z: numeric.abs_(a[0]), calls=(one("abs", numeric.abs_),), sympy="Abs", passes_nan=always,
    ),
    Operator(
        "sign",
        {"float": quiet(ops_float.unary_(ops_float.sign), unary("sign"))}, ("sign(l.x)",),
        called("sign"), direction.rises, NOT_LINEAR,
        lambda a, z: numeric.sign(a[0]), calls=(one("sign signum", numeric.sign),), sympy="sign",
        passes_nan=always,
    ),
)  # fmt: skip
SPELLINGS = (one("positive", lambda a: a),)
