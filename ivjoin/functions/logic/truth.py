"""AND, OR, NOT, and the tests for NULL and NaN."""

from __future__ import annotations

from ivjoin.expr import build
from ivjoin.expr.kernels import truth as ops_truth
from ivjoin.functions.records import direction
from ivjoin.functions.records.record import NO_NUMBER, NO_ORDER, Absent, Operator, never, one, quiet
from ivjoin.functions.records.writing import ADD, AND, COMPARE, NOT, OR, Arg, Node, called, infix
from ivjoin.functions.rules import rules_truth
from ivjoin.interval import truth

__all__ = ["OPERATORS", "SPELLINGS"]

_NO_NULL = Absent("SymPy does not have NULL or NaN")


def _not(n: Node, arg: Arg) -> tuple[str, int]:
    if n.args[0].op == "is_null":
        return arg(0)[: -len("NULL")] + "NOT NULL", COMPARE
    return f"NOT {arg(0, NOT)}", NOT


def _is_null(n: Node, arg: Arg) -> tuple[str, int]:
    return f"{arg(0, ADD)} IS NULL", COMPARE


OPERATORS = (
    Operator(
        "and", {"*": quiet(ops_truth.connective(False), rules_truth.connective(truth.FALSE))},
        ("l.k AND r.o", "l.a < 3 AND r.x > 2"),
        infix("AND", AND), direction.all_, NO_NUMBER, lambda a, z: build.and_(*a), sympy="And", warns=False,
        passes_null=never, lazy=True,
    ),
    Operator(
        "or", {"*": quiet(ops_truth.connective(True), rules_truth.connective(truth.TRUE))},
        ("l.k OR r.o", "l.a < 3 OR r.x > 2"),
        infix("OR", OR), direction.all_, NO_NUMBER, lambda a, z: build.or_(*a), sympy="Or", warns=False,
        passes_null=never, lazy=True,
    ),
    Operator(
        "not", {"*": quiet(ops_truth.not_, rules_truth.not_)}, ("NOT l.k", "NOT (l.a < r.b)"),
        _not, direction.falls, NO_NUMBER, lambda a, z: build.not_(a[0]), sympy="Not", warns=False,
    ),
    Operator(
        "is_null", {"*": quiet(ops_truth.is_null, rules_truth.is_null)},
        ("l.a IS NULL", "l.k IS NULL", "l.s IS NULL", "l.x IS NULL"),
        _is_null, NO_ORDER, NO_NUMBER, lambda a, z: build.is_null(a[0]), calls=(one("isnull", build.is_null),),
        sympy=_NO_NULL, warns=False, passes_null=never,
    ),
    Operator(
        "is_nan", {"*": quiet(ops_truth.is_nan, rules_truth.is_nan)}, ("isnan(l.x)",),
        called("isnan"), NO_ORDER, NO_NUMBER, lambda a, z: build.is_nan(a[0]), calls=(one("isnan", build.is_nan),),
        sympy=_NO_NULL, warns=False, passes_null=never,
    ),
)  # fmt: skip
SPELLINGS = (one("isnotnull", build.is_not_null),)
