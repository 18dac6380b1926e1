"""Comparisons, and IN with a list of constants."""

from __future__ import annotations

from ivjoin.expr import build
from ivjoin.expr.kernels.compare import compare_rule
from ivjoin.expr.kernels.truth import in_
from ivjoin.expr.words import literal_text
from ivjoin.functions.records import direction
from ivjoin.functions.records.direction import DirectionRule
from ivjoin.functions.records.record import BOTH_WAYS, NO_NUMBER, Absent, Operator, call, never, quiet
from ivjoin.functions.records.writing import ADD, COMPARE, Arg, Node, infix
from ivjoin.functions.rules import rules_compare

__all__ = ["OPERATORS", "SPELLINGS"]


def _comparison(name: str, symbol: str, node: str, direction: DirectionRule | Absent, sympy: str | Absent) -> Operator:
    def make(a: list[Node], zone: str) -> Node:
        return build.compare(name, a[0], a[1], zone)

    sides = (("a", "b"), ("x", "y"), ("p", "q"), ("s", "u"), ("t", "v"), ("k", "o"))
    return Operator(
        name, {"*": quiet(compare_rule, rules_compare.comparison)},
        tuple(f"l.{a} {symbol} r.{b}" for a, b in sides),
        infix(symbol, COMPARE), direction, NO_NUMBER, make, node, sympy=sympy, warns=False,
        passes_null=lambda n: n.op != "eq_null_safe",
    )  # fmt: skip


def _in(n: Node, arg: Arg) -> tuple[str, int]:
    return f"{arg(0, ADD)} IN ({', '.join(literal_text(v, n.args[0].type) for v in n.params)})", COMPARE


OPERATORS = (
    _comparison("eq", "=", "EQ", BOTH_WAYS, "Eq"),
    _comparison("ne", "<>", "NEQ", BOTH_WAYS, "Ne"),
    _comparison("lt", "<", "LT", direction.less, "Lt"),
    _comparison("le", "<=", "LTE", direction.less, "Le"),
    _comparison("gt", ">", "GT", direction.more, "Gt"),
    _comparison("ge", ">=", "GTE", direction.more, "Ge"),
    _comparison("eq_null_safe", "<=>", "NullSafeEQ", BOTH_WAYS, Absent("SymPy does not have NULL")),
    Operator(
        "in", {"*": quiet(in_, rules_compare.in_)},
        ("l.a IN (1, 5, 9)", "l.x IN (0.5D, 2D)", "l.s IN ('a', 'bc')",
         "l.d IN (DATE '2024-01-31', DATE '2024-02-29')"),
        _in, BOTH_WAYS, NO_NUMBER, lambda a, z: build.in_(a[0], a[1:], z), sympy="Contains", warns=False,
        passes_null=never,
    ),
)  # fmt: skip
SPELLINGS = (call("equal_null", 2, 2, lambda a, z: build.eq_null_safe(a[0], a[1], z)),)
