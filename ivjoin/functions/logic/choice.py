"""Operators that select one of several values."""

from __future__ import annotations

from ivjoin.expr import build
from ivjoin.expr.kernels import truth as ops_truth
from ivjoin.expr.types import FLOAT32, FLOAT64
from ivjoin.functions.records import direction, linear
from ivjoin.functions.records.record import ANY, NOT_LINEAR, Absent, Operator, call, never, quiet
from ivjoin.functions.records.writing import ATOM, Arg, Node, called
from ivjoin.functions.rules import rules_choice

__all__ = ["OPERATORS", "SPELLINGS"]


def _case(n: Node, arg: Arg) -> tuple[str, int]:
    whens = [f"WHEN {arg(i)} THEN {arg(i + 1)}" for i in range(0, len(n.args) - 1, 2)]
    return f"CASE {' '.join(whens)} ELSE {arg(len(n.args) - 1)} END", ATOM


def _pairs(a: list[Node]) -> list[tuple[Node, Node]]:
    return list(zip(a[::2], a[1::2]))


def _nanvl(a: list[Node], zone: str) -> Node:
    t = FLOAT32 if a[0].type == a[1].type == FLOAT32 else FLOAT64
    x, y = (build.cast(n, t) for n in a)
    return build.if_(build.is_nan(x), y, x)


_GAP = "the interval rules do not handle Boolean arguments"

OPERATORS = (
    Operator(
        "case", {"*": quiet(ops_truth.case, rules_choice.case)},
        ("CASE WHEN l.a < 3 THEN r.b ELSE l.a END", "CASE WHEN l.k THEN l.x WHEN r.o THEN r.y ELSE NULL END",
         "CASE WHEN l.a < 3 THEN l.k ELSE r.o END", "CASE WHEN l.a < 3 THEN l.s ELSE r.u END"),
        _case, Absent("the chosen branch may change in either direction"), NOT_LINEAR,
        lambda a, z: build.case(_pairs(a[:-1]), a[-1], z), sympy="Piecewise", warns=False, passes_null=never,
        lazy=True,
        calls=(call("if iff", 3, 3, lambda a, z: build.if_(a[0], a[1], a[2], z)),),
    ),
    Operator(
        "coalesce", {"*": quiet(ops_truth.coalesce, rules_choice.coalesce)},
        ("coalesce(l.a, r.b, 0)", "coalesce(l.x, r.y)", "coalesce(l.k, r.o)", "coalesce(l.s, r.u)"),
        called("coalesce"), direction.coalesce, linear.ONE_OF, lambda a, z: build.coalesce(*a, zone=z),
        calls=(call("coalesce", 1, ANY, lambda a, z: build.coalesce(*a, zone=z)),),
        sympy=Absent("SymPy does not have NULL"), warns=False, passes_null=never, skips_null=True, lazy=True,
    ),
    Operator(
        "least", {"*": quiet(ops_truth.extreme(False), rules_choice.extreme(False), _GAP, _GAP)},
        ("least(l.a, r.b)", "least(l.x, r.y, 1D)", "least(l.t, r.v)", "least(l.k, r.o)"),
        called("least"), direction.all_, linear.ONE_OF, lambda a, z: build.least(*a, zone=z),
        calls=(call("least", 2, ANY, lambda a, z: build.least(*a, zone=z)),), sympy="Min", warns=False,
        passes_null=never, skips_null=True,
    ),
    Operator(
        "greatest", {"*": quiet(ops_truth.extreme(True), rules_choice.extreme(True), _GAP, _GAP)},
        ("greatest(l.a, r.b)", "greatest(l.x, r.y, 1D)", "greatest(l.t, r.v)", "greatest(l.k, r.o)"),
        called("greatest"), direction.all_, linear.ONE_OF, lambda a, z: build.greatest(*a, zone=z),
        calls=(call("greatest", 2, ANY, lambda a, z: build.greatest(*a, zone=z)),), sympy="Max", warns=False,
        passes_null=never, skips_null=True,
    ),
)  # fmt: skip
SPELLINGS = (
    call("nvl ifnull", 2, 2, lambda a, z: build.coalesce(*a, zone=z)),
    call("nvl2", 3, 3, lambda a, z: build.if_(build.is_not_null(a[0]), a[1], a[2], z)),
    call("nullif", 2, 2, lambda a, z: build.nullif(a[0], a[1], z)),
    call("nanvl", 2, 2, _nanvl),
)
