"""Rules of operators that select one of several values: CASE, COALESCE, least and greatest.

CASE and COALESCE do not evaluate branches that are not selected. These may contain errors, so a rule cannot narrow
them. Least and greatest skip nulls, and NaN is the greatest number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from ivjoin.functions.rules.domain import NAN, NULL, is_void, may_null, met, none_of, united, without_null
from ivjoin.functions.rules.rule import Maker, Place, Rule
from ivjoin.functions.rules.state import Case, Forward, State
from ivjoin.interval import truth
from ivjoin.interval.typed.comparison import extreme as extreme_of_two

__all__ = ["case", "coalesce", "extreme"]

T = truth.TRUE
NOT_TRUE = truth.FALSE | truth.NULL


def _meets(a: Any, b: Any) -> bool:
    """Return whether two domains may have a value, NULL or NaN in common."""
    return not is_void(met(a, b))


def case(p: Place) -> Rule:
    i, at = p.i, p.at
    whens, values = at[:-1:2], (*at[1::2], at[-1])
    last = len(whens)

    def reachable(D: list[Any]) -> list[int]:
        """Return the branches that can be selected."""
        out = []
        for k, w in enumerate(whens):
            mask = D[w]
            if mask & T:
                out.append(k)
            if not mask & NOT_TRUE:
                return out
        return [*out, last]

    def up(D: list[Any]) -> Any:
        return reduce(united, (D[values[k]] for k in reachable(D)), none_of(p.node.type))

    def take(k: int) -> Case:
        def case(s: State) -> None:
            for w in whens[:k]:
                s.require(w)
                s.cut_mask(w, NOT_TRUE)
            if k < last:
                s.require(whens[k])
                s.cut_mask(whens[k], T)
            s.require(values[k])
            s.narrow(values[k], s.D[i])

        return case

    def possible(D: list[Any]) -> list[int]:
        z = D[i]
        return [k for k in reachable(D) if _meets(D[values[k]], z)]

    def some(s: State, first: int) -> None:
        # The tests before the first possible branch are not TRUE. Later tests may not be evaluated.
        for w in whens[:first]:
            s.require(w)
            s.cut_mask(w, NOT_TRUE)

    return _one_of(p, up, possible, take, some)


def _one_of(
    p: Place, up: Forward, possible: Callable[[list[Any]], list[int]], take: Callable[[int], Case],
    some: Callable[[State, int], None],
) -> Rule:
    """Return the rule of an operator that selects a value. ``some`` narrows if several arguments are possible."""

    def down(s: State) -> None:
        branches = possible(s.D)
        if len(branches) == 1:
            take(branches[0])(s)
        elif branches:
            some(s, branches[0])
        else:
            s.narrow(p.i, none_of(p.node.type))

    def cases(s: State) -> list[Case] | None:
        branches = possible(s.D)
        return [take(k) for k in branches] if 1 < len(branches) <= 8 else None

    return Rule(up, down, p.at[:1], cases)


def coalesce(p: Place) -> Rule:
    i, at = p.i, p.at
    only_null = none_of(p.node.type, NULL)

    def up(D: list[Any]) -> Any:
        z = none_of(p.node.type)
        for j in at[:-1]:
            z = united(z, without_null(D[j]))
            if not may_null(D[j]):
                return z
        return united(z, D[at[-1]])

    def take(k: int) -> Case:
        def case(s: State) -> None:
            for j in at[:k]:
                s.require(j)
                s.narrow(j, only_null)
            j = at[k]
            s.require(j)
            z = s.D[i]
            s.narrow(j, z if k == len(at) - 1 else without_null(z))

        return case

    def possible(D: list[Any]) -> list[int]:
        z, out = D[i], []
        for k, j in enumerate(at):
            d = D[j]
            if _meets(d if k == len(at) - 1 else without_null(d), z):
                out.append(k)
            if not may_null(d):
                break
        return out

    return _one_of(p, up, possible, take, lambda s, first: None)


def extreme(greatest: bool) -> Maker:
    def make(p: Place) -> Rule | None:
        t = p.node.type
        if t.kind == "bool" or not (t.is_discrete or t.kind == "float"):
            return Rule(None, None)
        i, at = p.i, p.at

        def up(D: list[Any]) -> Any:
            return reduce(partial(extreme_of_two, greatest), [D[j] for j in at])

        def down(s: State) -> None:
            D = s.D
            zlo, zhi, zf = D[i]
            if zlo > zhi:
                if not (greatest and zf & NAN):
                    for j in at:
                        s.cut(j, 1, 0, NULL | (zf & NAN))
                return
            # Least skips NaN, so none of its numbers is below the result. Greatest may be NaN for any numbers.
            if not greatest:
                for j in at:
                    s.cut(j, zlo, D[j][1], NULL | NAN)
            elif not zf & NAN:
                for j in at:
                    s.cut(j, D[j][0], zhi, NULL)
            if zf:
                return
            able = [j for j in at if D[j][0] <= D[j][1] and (D[j][1] >= zlo if greatest else D[j][0] <= zhi)]
            if len(able) == 1:
                j = able[0]
                s.cut(j, zlo if greatest else D[j][0], D[j][1] if greatest else zhi, 0)

        def pick(k: int) -> Case:
            def case(s: State) -> None:
                zlo, zhi, _ = s.D[i]
                s.cut(at[k], zlo, zhi, 0)
                lo, hi, _ = s.D[at[k]]
                s.cut(i, lo, hi, 0)

            return case

        def cases(s: State) -> list[Case] | None:
            zlo, zhi, zf = s.D[i]
            if zf:
                return None
            able = [k for k, j in enumerate(at) if s.D[j][0] <= zhi and s.D[j][1] >= zlo]
            return [pick(k) for k in able] if 1 < len(able) <= 4 else None

        return Rule(up, down, None, cases)

    return make
