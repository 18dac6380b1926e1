"""Forward and backward rules of comparisons, three-valued logic and choice, side by side.

A truth is a Dom of kind bool: [0, 0] FALSE, [1, 1] TRUE, plus NULL. NaN is equal to itself and above every number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivjoin.expr.nodes import Node
from ivjoin.expr.types import BOOL
from ivjoin.interim.domain import Dom, next_above, next_below

__all__ = ["RULES", "compare_backward"]

Contract = Callable[[Node, Dom], "dict[Node, Dom] | None"]


def truth(true: bool, false: bool, null: bool) -> Dom:
    """The truth domain that holds the named outcomes."""
    if not (true or false):
        return Dom.empty(BOOL, null)
    return Dom(BOOL, 0 if false else 1, 1 if true else 0, null, False)


def _can(d: Dom, value: int) -> bool:
    return not d.is_empty and d.lo <= value <= d.hi


# -- comparisons -------------------------------------------------------------------------------------------------


def _before(v: Any, d: Dom) -> Any:
    return next_below(v, d.type.bits) if d.type.kind == "float" else v - 1


def _after(v: Any, d: Dom) -> Any:
    return next_above(v, d.type.bits) if d.type.kind == "float" else v + 1


def at_most(a: Dom, b: Dom, strict: bool) -> tuple[Dom, Dom]:
    """Contract a <= b (a < b when strict) to TRUE."""
    a, b = a.known(), b.known()
    if a.lo is None or b.lo is None:
        return a, b
    # b bounds a from above; NaN is the greatest value
    if b.may_nan:
        new_a = a.number() if strict else a
    elif b.is_empty:
        new_a = Dom.empty(a.type)
    else:
        top = _before(b.hi, a) if strict and not (b.type.kind == "float" and b.hi == float("-inf")) else b.hi
        if strict and b.type.kind == "float" and b.hi == float("-inf"):
            new_a = Dom.empty(a.type)
        else:
            new_a = a.within(top if top < a.lo else a.lo, top).number() if not a.is_empty else Dom.empty(a.type)
    # a bounds b from below
    if a.is_empty:
        new_b = Dom.empty(b.type, False, b.may_nan and a.may_nan and not strict)
    elif strict and a.type.kind == "float" and a.lo == float("inf"):
        new_b = Dom.empty(b.type, False, b.may_nan)
    else:
        floor = _after(a.lo, b) if strict else a.lo
        new_b = Dom.empty(b.type, False, b.may_nan) if b.is_empty else b.within(floor, max(b.hi, floor))
        if not b.is_empty and floor > b.hi:
            new_b = Dom.empty(b.type, False, b.may_nan)
    return new_a, new_b


def compare_backward(op: str, a: Dom, b: Dom) -> tuple[Dom, Dom]:
    """Contract ``a op b`` to TRUE."""
    if op in ("le", "lt"):
        return at_most(a, b, op == "lt")
    if op in ("ge", "gt"):
        new_b, new_a = at_most(b, a, op == "gt")
        return new_a, new_b
    if op == "eq":
        met = a.known().meet(b.known()) if a.type == b.type else None
        return (met, met) if met is not None else (a.known(), b.known())
    if op == "eq_null_safe":
        met = a.meet(b)
        return met, met
    if op == "ne":
        a, b = a.known(), b.known()
        return _without(a, b), _without(b, a)
    return a, b


def _without(a: Dom, b: Dom) -> Dom:
    """a when b is one value: that value cut off where it is an end."""
    if a.lo is None or b.lo is None or a.is_empty or b.is_empty or b.may_nan or b.lo != b.hi or a.type.kind == "float":
        return a
    v = b.lo
    if a.lo == v == a.hi:
        return Dom.empty(a.type)
    if a.lo == v:
        return Dom(a.type, v + 1, a.hi, a.may_null, a.may_nan)
    if a.hi == v:
        return Dom(a.type, a.lo, v - 1, a.may_null, a.may_nan)
    return a


_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def _feasible(a: Dom, b: Dom) -> bool:
    return not (a.is_empty and not a.may_nan and not a.may_null) and not (
        b.is_empty and not b.may_nan and not b.may_null
    )


def compare_forward(node: Node, args: list[Dom]) -> Dom:
    a, b = args
    if node.op == "eq_null_safe":
        both_null = a.may_null and b.may_null
        true = both_null or _feasible(*compare_backward("eq", a, b))
        same = a.lo is not None and a.lo == a.hi == b.lo == b.hi and not (a.may_nan or b.may_nan)
        certain = same and not (a.may_null or b.may_null)
        return truth(true, not certain, False)
    null = a.may_null or b.may_null
    true = _feasible(*compare_backward(node.op, a, b))
    if node.op == "eq" and a.lo is not None:
        certain = a.lo == a.hi == b.lo == b.hi and not a.may_nan and not b.may_nan
        return truth(true, not certain, null)
    if node.op == "ne" and a.lo is not None:
        disjoint = not _feasible(*compare_backward("eq", a, b))
        return truth(true, not disjoint, null)
    if a.lo is None:
        return truth(True, True, null)
    return truth(true, _feasible(*compare_backward(_NEGATED[node.op], a, b)), null)


def compare_down(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a, b = args
    if out.may_null or (_can(out, 0) and _can(out, 1)) or out.is_empty:
        return args
    if _can(out, 1):
        return list(compare_backward(node.op, a, b))
    if node.op == "eq_null_safe":
        return args
    return list(compare_backward(_NEGATED[node.op], a, b))


# -- logic -------------------------------------------------------------------------------------------------------


def and_forward(node: Node, args: list[Dom]) -> Dom:
    true = all(_can(a, 1) for a in args)
    false = any(_can(a, 0) for a in args)
    null = any(a.may_null for a in args)
    return truth(true, false, null)


def or_forward(node: Node, args: list[Dom]) -> Dom:
    true = any(_can(a, 1) for a in args)
    false = all(_can(a, 0) for a in args)
    return truth(true, false, any(a.may_null for a in args))


def and_down(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    if out.may_null or _can(out, 0) or out.is_empty:
        return args
    yes = truth(True, False, False)
    return [a.meet(yes) for a in args]


def or_down(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    if out.may_null or out.is_empty:
        return args
    if not _can(out, 1):
        no = truth(False, True, False)
        return [a.meet(no) for a in args]
    if not _can(out, 0):
        open_ = [i for i, a in enumerate(args) if _can(a, 1)]
        if len(open_) == 1:
            return [a.meet(truth(True, False, False)) if i == open_[0] else a for i, a in enumerate(args)]
        if not open_:
            return [Dom.empty(BOOL) for _ in args]
    return args


def not_forward(node: Node, args: list[Dom]) -> Dom:
    a = args[0]
    return truth(_can(a, 0), _can(a, 1), a.may_null)


def not_down(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    return [args[0].meet(truth(_can(out, 0), _can(out, 1), out.may_null))]


def is_null_forward(node: Node, args: list[Dom]) -> Dom:
    a = args[0]
    return truth(a.may_null, not a.is_empty or a.may_nan, False)


def is_null_down(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a = args[0]
    if _can(out, 1) and not _can(out, 0):
        return [Dom.empty(a.type, a.may_null)]
    if _can(out, 0) and not _can(out, 1):
        return [a.known()]
    return args


def in_forward(node: Node, args: list[Dom]) -> Dom:
    x, rest = args[0], args[1:]
    true = any(_feasible(*compare_backward("eq", x, r)) for r in rest)
    return truth(true, True, any(a.may_null for a in args))


def in_down(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    x, rest = args[0], args[1:]
    if out.may_null or _can(out, 0) or out.is_empty:
        return args
    hull = Dom.empty(x.type)
    for r in rest:
        hull = hull.join(x.known().meet(r.known()))
    return [hull, *rest]


# -- choice ------------------------------------------------------------------------------------------------------


def coalesce_forward(node: Node, args: list[Dom]) -> Dom:
    out = Dom.empty(node.type)
    for a in args:
        out = out.join(a.known())
        if not a.may_null:
            return out
    return Dom(node.type, out.lo, out.hi, True, out.may_nan)


def case_forward(node: Node, args: list[Dom]) -> Dom:
    out = Dom.empty(node.type)
    for when, then in zip(args[:-1:2], args[1:-1:2], strict=True):
        if _can(when, 1):
            out = out.join(then)
        if not when.may_null and not _can(when, 0):
            return out
    return out.join(args[-1])


def extreme_forward(node: Node, args: list[Dom]) -> Dom:
    """least and greatest skip NULL; NaN is the greatest."""
    if any(a.lo is None for a in args):
        return Dom.of(node.type, null=all(a.may_null for a in args))
    sure = [a for a in args if not a.may_null]
    null = not sure
    some = [a for a in args if not a.is_empty]
    if not some:
        return Dom.empty(node.type, null, any(a.may_nan for a in args))
    nan = any(a.may_nan for a in args)
    if node.op == "least":
        lo = min(a.lo for a in some)
        capped = [a.hi for a in sure if not a.is_empty and not a.may_nan]
        hi = min(capped) if capped else max(a.hi for a in some)
        return Dom(node.type, lo, max(lo, hi), null, nan and not capped)
    floors = [a.lo for a in sure if not a.is_empty]
    lo = max(floors) if floors else min(a.lo for a in some)
    hi = max(a.hi for a in some)
    return Dom(node.type, min(lo, hi), hi, null, nan)


def extreme_down(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    if out.is_empty or out.lo is None or any(a.lo is None for a in args):
        return args
    done = []
    for a in args:
        if a.is_empty:
            done.append(a)
        elif node.op == "least":
            done.append(Dom.of(a.type, max(a.lo, out.lo), a.hi, a.may_null, a.may_nan))
        elif out.may_nan:
            done.append(a)
        else:
            done.append(Dom.of(a.type, a.lo, min(a.hi, out.hi), a.may_null, False))
    return done


def unchanged(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    return args


RULES: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"), (compare_forward, compare_down)),
    "and": (and_forward, and_down),
    "or": (or_forward, or_down),
    "not": (not_forward, not_down),
    "is_null": (is_null_forward, is_null_down),
    "in": (in_forward, in_down),
    "coalesce": (coalesce_forward, unchanged),
    "case": (case_forward, unchanged),
    "least": (extreme_forward, extreme_down),
    "greatest": (extreme_forward, extreme_down),
}
