"""Equations of linear forms: the bounds of a sum, and of each of its atoms from the bounds of the sum."""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

from ivjoin.expr import ops
from ivjoin.expr.nodes import NEGATED
from ivjoin.functions.rules.domain import NULL, met
from ivjoin.functions.rules.rule import Rule
from ivjoin.functions.rules.state import Backward, Forward, Infeasible, State
from ivjoin.interval import truth

__all__ = ["Equation", "Sum", "both", "comparison", "joined", "plus", "value"]

T, F, N = truth.TRUE, truth.FALSE, truth.NULL


class Sum(NamedTuple):
    """``constant + sum of terms``; ``repeats`` if an atom occurs more than once."""

    terms: dict[int, int]
    constant: int
    repeats: bool


def plus(a: Sum, b: Sum, sign: int) -> Sum:
    terms, repeats = dict(a.terms), a.repeats or b.repeats
    for x, c in b.terms.items():
        if x in terms:
            repeats = True
            c = terms.pop(x) + sign * c
            if c:
                terms[x] = c
        else:
            terms[x] = sign * c
    return Sum(terms, a.constant + sign * b.constant, repeats)


class Equation(NamedTuple):
    """The rule of one linear form, in addition to the rule of the node's operator."""

    atoms: tuple[int, ...]
    forward: Forward  # None if it narrows nothing
    backward: Backward


def joined(first: Equation | None, second: Equation | None) -> Equation | None:
    """Combine two equations of one node."""
    if first is None or second is None:
        return first if second is None else second
    a, b = first, second

    def forward(D: list[Any]) -> Any:
        x, y = a.forward(D), b.forward(D)
        return y if x is None else x if y is None else x & y

    def backward(s: State) -> None:
        a.backward(s)
        b.backward(s)

    return Equation(tuple(dict.fromkeys((*a.atoms, *b.atoms))), forward, backward)


def both(rule: Rule, e: Equation) -> Rule:
    """Combine an operator's rule and its node's equation, one after the other."""
    forward, backward = rule.forward, rule.backward
    if forward is None or backward is None:
        return rule

    def up(D: list[Any]) -> Any:
        new, also = forward(D), e.forward(D)
        return new if also is None else met(new, also)

    def down(s: State) -> None:
        backward(s)
        e.backward(s)

    return rule._replace(forward=up, backward=down)


def _range(D: list[Any], terms: tuple[tuple[int, int], ...]) -> tuple[int, int, int] | None:
    """Return the bounds of the sum and the flags of its atoms; None if an atom has no value."""
    low = high = flags = 0
    for x, c in terms:
        lo, hi, f = D[x]
        if lo > hi:
            return None
        flags |= f
        if c > 0:
            low += c * lo
            high += c * hi
        else:
            low += c * hi
            high += c * lo
    return low, high, flags


def _solve(s: State, terms: tuple[tuple[int, int], ...], least: Any, most: Any) -> None:
    """Narrow the atoms to ``least <= sum <= most``; None is unbounded."""
    D = s.D
    found = _range(D, terms)
    if found is None:
        return
    low, high, _ = found
    if (least is not None and high < least) or (most is not None and low > most):
        raise Infeasible
    if (least is None or least <= low) and (most is None or high <= most):
        return
    for x, c in terms:
        lo, hi, _ = D[x]
        if c > 0:
            # c * x <= most - (low of the others), and >= least - (high of the others)
            top = hi if most is None else (most - low + c * lo) // c
            bottom = lo if least is None else -((high - c * hi - least) // c)
        else:
            top = hi if least is None else (high - c * lo - least) // -c
            bottom = lo if most is None else -((most - low + c * hi) // -c)
        if top < hi or bottom > lo:
            s.cut(x, bottom, top, ~0)
            nlo, nhi, _ = D[x]
            if nlo > nhi:
                return
            if c > 0:
                low += c * (nlo - lo)
                high += c * (nhi - hi)
            else:
                low += c * (nhi - hi)
                high += c * (nlo - lo)


def comparison(i: int, op: str, d: Sum) -> Equation:
    g = gcd(*d.terms.values()) if d.terms else 1
    terms = tuple((x, c // g) for x, c in d.terms.items())
    # g * sum + constant compares with 0 like the sum with these: sum <= most is "<= 0", sum >= least is ">= 0".
    most, least = -d.constant // g, -(d.constant // g)
    whole = most == least
    bounds: dict[str, tuple[int | None, int | None]] = {
        ops.LE: (None, most), ops.GE: (least, None), ops.LT: (None, least - 1), ops.GT: (most + 1, None),
        ops.EQ: (least, most),
    }  # fmt: skip

    def forward(D: list[Any]) -> int | None:
        found = _range(D, terms)
        if found is None:
            return None
        low, high, _ = found
        if op in (ops.EQ, ops.NE):
            true, false = whole and low <= least <= high, not (low == high == least and whole)
        elif op in (ops.LE, ops.GT):
            true, false = low <= most, high > most
        else:
            true, false = low < least, high >= least
        if op in (ops.NE, ops.GT, ops.GE):
            true, false = false, true
        return N | (T if true else 0) | (F if false else 0)

    def backward(s: State) -> None:
        mask = s.D[i]
        true = op if mask == T else NEGATED[op] if mask == F else ""
        wanted = bounds.get(true)
        if wanted is None:
            found = _range(s.D, terms) if true == ops.NE else None
            if found is not None and whole and found[0] == found[1] == least:
                raise Infeasible
            return
        if true == ops.EQ and not whole:
            raise Infeasible
        _solve(s, terms, *wanted)

    return Equation(tuple(d.terms), forward, backward)


def value(i: int, d: Sum) -> Equation:
    terms, constant = tuple(d.terms.items()), d.constant

    def forward(D: list[Any]) -> Any:
        found = _range(D, terms)
        return None if found is None else (found[0] + constant, found[1] + constant, NULL)

    def backward(s: State) -> None:
        lo, hi, flags = s.D[i]
        if flags & NULL and any(s.D[x][2] & NULL for x, _ in terms):
            return
        if lo <= hi:
            _solve(s, terms, lo - constant, hi - constant)

    return Equation(tuple(d.terms), forward, backward)
