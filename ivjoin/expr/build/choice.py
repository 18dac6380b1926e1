"""Constructors of AND, OR, NOT, IS NULL, COALESCE and CASE."""

from __future__ import annotations

from ivjoin.errors import ConditionError
from ivjoin.expr.build.coerce import as_bool, meet_all
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BOOL

__all__ = ["and_", "case", "coalesce", "if_", "is_not_null", "is_null", "not_", "or_"]


def and_(*args: Node) -> Node:
    """Return the AND of ``args``. Nested ANDs are flattened, and TRUE is dropped."""
    return _connected("and", args, True)


def or_(*args: Node) -> Node:
    """Return the OR of ``args``. Nested ORs are flattened, and FALSE is dropped."""
    return _connected("or", args, False)


def _connected(op: str, args: tuple[Node, ...], neutral: bool) -> Node:
    flat: list[Node] = []
    for a in args:
        a = as_bool(a, op.upper())
        flat.extend(a.args if a.op == op else () if is_literal(a) and a.params[0] is neutral else (a,))
    if not flat:
        return literal(neutral)
    # A constant that decides the result stops the evaluation of later arguments.
    if is_literal(flat[0]) and flat[0].params[0] is (not neutral):
        return flat[0]
    return flat[0] if len(flat) == 1 else make(op, tuple(flat), (), BOOL)


def not_(a: Node) -> Node:
    a = as_bool(a, "NOT")
    if a.op == "not":
        return a.args[0]
    if is_literal(a):
        return literal(None if a.params[0] is None else not a.params[0], BOOL)
    return make("not", (a,), (), BOOL)


def is_null(a: Node) -> Node:
    return literal(a.params[0] is None) if is_literal(a) else make("is_null", (a,), (), BOOL)


def is_not_null(a: Node) -> Node:
    return not_(is_null(a))


def coalesce(*args: Node, zone: str = "UTC") -> Node:
    """Return the first argument that is not null."""
    if not args:
        raise ConditionError("coalesce needs an argument")
    met = meet_all(list(args), zone, "coalesce")
    return met[0] if len(met) == 1 else make("coalesce", tuple(met), (), met[0].type)


def case(whens: list[tuple[Node, Node]], otherwise: Node | None = None, zone: str = "UTC") -> Node:
    """Return ``CASE WHEN c THEN v ... ELSE otherwise END``. Without ELSE, the default value is NULL."""
    if not whens:
        raise ConditionError("CASE needs a WHEN")
    tests = [as_bool(c, "WHEN") for c, _ in whens]
    values = meet_all([v for _, v in whens] + [literal(None) if otherwise is None else otherwise], zone, "CASE")
    flat = [n for pair in zip(tests, values) for n in pair]
    return make("case", (*flat, values[-1]), (), values[-1].type)


def if_(test: Node, then: Node, otherwise: Node, zone: str = "UTC") -> Node:
    return case([(test, then)], otherwise, zone)
