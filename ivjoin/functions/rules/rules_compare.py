"""Rules of comparisons: Spark's order, in which NaN equals itself and is above +inf, and -0.0 equals 0.0.

Bounds treat NaN as a number above all others. ``<`` moves a bound to the next value of the compared type: the next
integer or double, or a text followed by a zero character. Most texts have no previous text.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from ivjoin.expr.nodes import FLIPPED, NEGATED, make
from ivjoin.expr.types import Type
from ivjoin.functions.rules.domain import NAN, NULL, none_of
from ivjoin.functions.rules.rule import Place, Rule
from ivjoin.functions.rules.rules_text import compare_texts
from ivjoin.functions.rules.rules_truth import compare_truths
from ivjoin.functions.rules.state import Case, State
from ivjoin.interval import truth
from ivjoin.interval.machine.floats import Format
from ivjoin.interval.typed.comparison import compared, held, some

__all__ = ["comparison", "in_"]

T, F, N = truth.TRUE, truth.FALSE, truth.NULL
_POINT = (0, 0, 0)


def comparison(p: Place) -> Rule | None:
    kinds = {a.type.kind for a in p.node.args}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind == "bool":
        return compare_truths(p)
    if kind == "decimal256":
        return None
    if kind == "decimal" and len({a.type.scale for a in p.node.args}) > 1:
        return None
    if p.node.op == "eq_null_safe":
        return _null_safe(p, kind)
    if kind in ("string", "binary"):
        return compare_texts(p)
    if kind == "float" or p.node.args[0].type.is_discrete:
        return _of_numbers(p)
    return None


def _format(t: Type) -> Format | None:
    return t.format if t.kind == "float" else None


def _of_numbers(p: Place) -> Rule:
    i, (a, b), op = p.i, p.at, p.node.op
    t = p.node.args[0].type
    on_true, on_false = _narrowing(op, a, b, t), _narrowing(NEGATED[op], a, b, t)

    def up(D: list[Any]) -> int:
        x, y = D[a], D[b]
        if a == b:
            return (N if x[2] & NULL else 0) | (compared(op, _POINT, _POINT) if some(x) else 0)
        return compared(op, x, y)

    def down(s: State) -> None:
        mask = s.D[i]
        if mask & N:
            return
        if mask == T:
            on_true(s)
        elif mask == F:
            on_false(s)
        else:
            s.drop_flags(a, ~NULL)
            s.drop_flags(b, ~NULL)

    if op in ("eq", "ne"):
        return Rule(up, down, None, _apart(i, a, b, T if op == "ne" else F, t))
    return Rule(up, down)


def _narrowing(op: str, a: int, b: int, t: Type) -> Callable[[State], None]:
    """Return a function that narrows both arguments if ``a op b`` is TRUE."""
    if a == b:
        holds = compared(op, _POINT, _POINT) == T
        return lambda s: s.drop_flags(a, ~NULL) if holds else s.cut(a, 1, 0, 0)
    flipped = FLIPPED[op]

    def narrow(s: State) -> None:
        D = s.D
        s.cut(a, *held(op, t, D[a], D[b]))
        s.cut(b, *held(flipped, t, D[b], D[a]))

    return narrow


def _apart(i: int, a: int, b: int, when: int, t: Type) -> Callable[[State], list[Case] | None]:
    """Return the two cases of ``a <> b``: ``a < b`` and ``a > b``."""
    less, more = _narrowing("lt", a, b, t), _narrowing("gt", a, b, t)

    def cases(s: State) -> list[Case] | None:
        if s.D[i] != when or a == b:
            return None
        alo, ahi, _ = s.D[a]
        blo, bhi, _ = s.D[b]
        return [less, more] if alo <= bhi and blo <= ahi else None

    return cases


# Null-safe equality and lists


def _null_safe(p: Place, kind: str) -> Rule | None:
    i, (a, b) = p.i, p.at
    text = kind in ("string", "binary")
    equal = Place(make("eq", p.node.args, (), p.node.type), i, p.at)
    equals = compare_texts(equal) if text else _of_numbers(equal)
    assert equals.forward is not None
    assert equals.backward is not None
    values, narrow = equals.forward, equals.backward

    def up(D: list[Any]) -> int:
        (alo, ahi, af), (blo, bhi, bf) = D[a], D[b]
        out = values(D) & truth.KNOWN
        if af & bf & NULL:
            out |= T
        a_value = alo is None or ahi is None or alo <= ahi or af & NAN
        b_value = blo is None or bhi is None or blo <= bhi or bf & NAN
        if (af & NULL and b_value) or (bf & NULL and a_value):
            out |= F
        return out

    def down(s: State) -> None:
        mask = s.D[i]
        (_, _, af), (_, _, bf) = s.D[a], s.D[b]
        if mask == T:
            both = af & bf & NULL
            for x, y in ((a, b), (b, a)):
                ylo, yhi, yf = s.D[y]
                s.narrow(x, (ylo, yhi, yf & NAN | both))
        elif mask == F and not (af | bf) & NULL:
            narrow(s)

    return Rule(up, down)


def in_(p: Place) -> Rule | None:
    i, x = p.i, p.at[0]
    t = p.node.args[0].type
    items = p.node.params
    if t.kind in ("bool", "opaque", "null"):
        return None
    with_null = any(v is None for v in items)
    nan = any(v != v for v in items)
    text, f = t.kind in ("string", "binary"), _format(t)
    known = sorted({v for v in items if v is not None and v == v})

    def inside(d: Any) -> list[Any]:
        lo, hi, _ = d
        return [v for v in known if (lo is None or lo <= v) and (hi is None or v <= hi)]

    def up(D: list[Any]) -> int:
        d = D[x]
        lo, hi, flags = d
        out = N if flags & NULL else 0
        has_values = lo is None or hi is None or lo <= hi
        hits = inside(d) if has_values else []
        if hits or (nan and flags & NAN):
            out |= T
        point = lo is not None and lo == hi and bool(hits)
        whole = f is None and not text and has_values and len(hits) == hi - lo + 1
        if (has_values and not point and not whole) or (flags & NAN and not nan):
            out |= N if with_null else F
        return out

    def down(s: State) -> None:
        mask = s.D[i]
        if mask & N:
            return
        keep = NAN if nan or mask != T else 0
        s.drop_flags(x, keep if mask == T else NAN)
        if mask == T:
            hits = inside(s.D[x])
            s.narrow(x, (hits[0], hits[-1], keep) if hits else none_of(t, keep))
        elif mask == F and not text:
            _shave(s, x, set(known), f, nan)

    def cases(s: State) -> list[Case] | None:
        if s.D[i] != T or text:
            return None
        hits = inside(s.D[x])
        if not 1 < len(hits) <= 16:
            return None
        return [lambda s, v=v: s.cut(x, v, v, NAN if nan else 0) for v in hits]  # type: ignore[misc]

    return Rule(up, down, (0,), cases)


def _shave(s: State, x: int, values: set[Any], f: Format | None, nan: bool) -> None:
    """Move each end of x inward while it is one of ``values``."""
    lo, hi, _ = s.D[x]
    while lo <= hi and lo in values and lo != inf:
        lo = lo + 1 if f is None else f.up(lo)
    while lo <= hi and hi in values and hi != -inf:
        hi = hi - 1 if f is None else f.down(hi)
    s.cut(x, lo, hi, 0 if nan else NAN)
