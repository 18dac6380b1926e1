"""Rules of AND, OR, NOT, IS NULL, of comparisons of bools, and of NaN tests.

AND and OR stop at the first argument that decides. An argument is certain to be evaluated only if no earlier argument
can decide. An OR that is TRUE has the alternatives "argument k is the first one that is TRUE".
"""

from __future__ import annotations

from typing import Any

from ivjoin.functions.rules.domain import NAN, NULL, none_of
from ivjoin.functions.rules.rule import Maker, Place, Rule
from ivjoin.functions.rules.state import Case, State, Taken
from ivjoin.interval import truth

__all__ = ["compare_truths", "connective", "is_nan", "is_null", "not_"]

T, F, N = truth.TRUE, truth.FALSE, truth.NULL
# Up to this number of arguments, the rule also uses that arguments before the deciding one do not decide. This work is
# quadratic.
_FEW = 16


def connective(decisive: int) -> Maker:
    """Return the rule of AND (decided by FALSE) or OR (decided by TRUE)."""
    other = F if decisive == T else T
    combine = truth.or_ if decisive == T else truth.and_

    def make(p: Place) -> Rule:
        i, at = p.i, p.at

        def up(D: list[Any]) -> int:
            return combine([D[j] for j in at])

        def down(s: State) -> None:
            D = s.D
            mask = D[i]
            if not mask & decisive:
                # No argument decides, so all arguments are evaluated.
                for j in at:
                    s.require(j)
                    s.cut_mask(j, ~decisive & truth.ANY)
                if mask == other:
                    for j in at:
                        s.cut_mask(j, other)
                elif mask == N:
                    able = [j for j in at if D[j] & N]
                    if len(able) == 1:
                        s.cut_mask(able[0], N)
                return
            if mask != decisive:
                return
            able = [j for j in at if D[j] & decisive]
            if len(able) == 1:
                for j in at:
                    s.require(j)
                    if j == able[0]:
                        break
                s.cut_mask(able[0], decisive)
            elif not able:
                s.cut_mask(i, 0)

        def cases(s: State) -> list[Case] | None:
            if s.D[i] != decisive:
                return None
            able = [j for j in at if s.D[j] & decisive]
            if len(able) < 2:
                return None
            few = len(at) <= _FEW
            return [Taken(k, decisive, at[: at.index(k)] if few else ()) for k in able]

        return Rule(up, down, at[:1], cases)

    return make


def not_(p: Place) -> Rule:
    i, a = p.i, p.at[0]
    return Rule(lambda D: truth.not_(D[a]), lambda s: s.cut_mask(a, truth.not_(s.D[i])))


def _has_value(d: Any) -> bool:
    lo, hi, flags = d
    return lo is None or hi is None or lo <= hi or bool(flags & NAN)


def is_null(p: Place) -> Rule:
    i, a = p.i, p.at[0]
    t = p.node.args[0].type
    if t.kind == "bool":

        def up_bool(D: list[Any]) -> int:
            d = D[a]
            return (T if d & N else 0) | (F if d & truth.KNOWN else 0)

        def down_bool(s: State) -> None:
            mask = s.D[i]
            s.cut_mask(a, (N if mask & T else 0) | (truth.KNOWN if mask & F else 0))

        return Rule(up_bool, down_bool)
    only_null = t.kind == "null"

    def up(D: list[Any]) -> int:
        d = D[a]
        return (T if d[2] & NULL else 0) | (F if not only_null and _has_value(d) else 0)

    def down(s: State) -> None:
        mask = s.D[i]
        if mask == F:
            s.drop_flags(a, NAN)
        elif mask == T:
            s.narrow(a, none_of(t, NULL))

    return Rule(up, down)


def is_nan(p: Place) -> Rule:
    i, a = p.i, p.at[0]

    def up(D: list[Any]) -> int:
        lo, hi, flags = D[a]
        return (T if flags & NAN else 0) | (F if lo <= hi or flags & NULL else 0)

    def down(s: State) -> None:
        mask = s.D[i]
        if mask == T:
            s.cut(a, 1, 0, NAN)
        elif mask == F:
            s.drop_flags(a, NULL)

    return Rule(up, down)


def compare_truths(p: Place) -> Rule:
    """Return the rule of a comparison of bools. FALSE is less than TRUE."""
    i, (a, b), op = p.i, p.at, p.node.op
    test = {
        "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y, "eq_null_safe": lambda x, y: x == y,
    }[op]  # fmt: skip
    values = ((T, 1), (F, 0), (N, None))

    def result(x: int | None, y: int | None) -> int:
        if op == "eq_null_safe":
            return T if x == y else F
        if x is None or y is None:
            return N
        return T if test(x, y) else F

    table = [(ma, mb, result(x, y)) for ma, x in values for mb, y in values]

    def up(D: list[Any]) -> int:
        x, y, out = D[a], D[b], 0
        for ma, mb, r in table:
            if x & ma and y & mb:
                out |= r
        return out

    def down(s: State) -> None:
        x, y, z = s.D[a], s.D[b], s.D[i]
        left = right = 0
        for ma, mb, r in table:
            if x & ma and y & mb and z & r:
                left |= ma
                right |= mb
        s.cut_mask(a, left)
        s.cut_mask(b, right)

    return Rule(up, down)
