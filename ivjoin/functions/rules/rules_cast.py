"""Rules of casts: the casts of typed intervals, and casts of bools and of local times in a zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivjoin.expr.nodes import is_met
from ivjoin.expr.types import DAY, TICKS_PER_SECOND, Type
from ivjoin.functions.rules.domain import NAN, NULL
from ivjoin.functions.rules.rule import Place, Rule, of_unary, same, stepwise
from ivjoin.functions.rules.rules_time import clock
from ivjoin.functions.rules.state import State
from ivjoin.functions.rules.zones import clock_of
from ivjoin.interval import truth
from ivjoin.interval.machine.casts import conversion
from ivjoin.interval.machine.domains import HAVE_INTERVALS, domain

__all__ = ["cast"]


def cast(p: Place) -> Rule | None:
    t, u = p.node.args[0].type, p.node.type
    if is_met(p.node) and t.kind != "string":
        return _met(p, t, u)
    if t == u and t.kind in HAVE_INTERVALS:
        return same(p)
    make = _CASTS.get((t.kind, u.kind), _converted)
    return make(p, t, u)


def _converted(p: Place, t: Type, u: Type) -> Rule:
    """Return the rule of typed intervals. A cast from or to text narrows nothing, but evaluates its argument."""
    if not {t.kind, u.kind} <= HAVE_INTERVALS:
        return Rule(None, None)
    return of_unary(p, conversion(domain(t), domain(u)))


# Truths


def _to_bool(p: Place, t: Type, u: Type) -> Rule:
    i, a = p.i, p.at[0]
    whole = t.kind != "float"

    def up(D: list[Any]) -> int:
        lo, hi, flags = D[a]
        out = truth.NULL if flags & NULL else 0
        if lo <= 0 <= hi:
            out |= truth.FALSE
        if (lo <= hi and (lo < 0 or hi > 0)) or flags & NAN:
            out |= truth.TRUE
        return out

    def down(s: State) -> None:
        mask = s.D[i]
        if mask == truth.FALSE:
            s.cut(a, 0, 0, 0)
        elif not mask & truth.NULL:
            s.drop_flags(a, NAN)
            lo, hi, _ = s.D[a]
            if mask == truth.TRUE and lo == hi == 0:
                s.cut(a, 1, 0, NAN)
            elif mask == truth.TRUE and whole and lo <= hi:
                s.cut(a, lo if lo else 1, hi if hi else -1, 0)

    return Rule(up, down)


def _from_bool(p: Place, t: Type, u: Type) -> Rule:
    i, a = p.i, p.at[0]
    one = 10**u.scale if u.kind == "decimal" else 1 if u.kind == "int" else 1.0
    limits = u.limits

    def up(D: list[Any]) -> Any:
        mask = D[a]
        flags = NULL if mask & truth.NULL else 0
        lo = 0 * one if mask & truth.FALSE else one
        hi = one if mask & truth.TRUE else 0 * one
        hi = min(hi, limits[1])
        return (lo, hi, flags) if mask & truth.KNOWN and lo <= hi else (1, 0, flags)

    def down(s: State) -> None:
        lo, hi, flags = s.D[i]
        mask = truth.NULL if flags & NULL else 0
        if lo <= 0 <= hi:
            mask |= truth.FALSE
        if lo <= one <= hi:
            mask |= truth.TRUE
        s.cut_mask(a, mask)

    return Rule(up, down)


# Times


def _timestamp_to_timestamp(p: Place, t: Type, u: Type) -> Rule:
    c = clock(p.node, 1)
    if bool(t.tz) == bool(u.tz) or c.fixed == 0:
        return _converted(p, t, u)
    have, want = TICKS_PER_SECOND[t.unit], TICKS_PER_SECOND[u.unit]
    moves = (c.local_low, c.local_high) if t.tz else (c.instant_low, c.instant_high)

    def convert(move: Callable[[int], int], ticks: int) -> int:
        second, below = divmod(ticks, have)
        return move(second) * want + below * want // have

    guess: Callable[[int], int] = lambda z: z * have // want  # noqa: E731
    return stepwise(p, lambda x: convert(moves[0], x), lambda x: convert(moves[1], x), guess)


def _timestamp_to_date(p: Place, t: Type, u: Type) -> Rule:
    per = TICKS_PER_SECOND[t.unit]
    c = clock(p.node, 1) if t.tz else clock_of(None)
    if c.fixed == 0:
        return _converted(p, t, u)
    return stepwise(
        p, lambda x: c.local_low(x // per) // DAY, lambda x: c.local_high(x // per) // DAY, lambda z: z * DAY * per
    )


def _date_to_timestamp(p: Place, t: Type, u: Type) -> Rule:
    per = TICKS_PER_SECOND[u.unit]
    c = clock(p.node, 1) if u.tz else clock_of(None)
    return stepwise(
        p, lambda x: c.instant_low(x * DAY) * per, lambda x: c.instant_high(x * DAY) * per, lambda z: z // (DAY * per)
    )


def _met(p: Place, t: Type, u: Type) -> Rule:
    """Return the rule of a time that was converted for a comparison with another unit, within the range of the unit."""
    have, want = TICKS_PER_SECOND.get(t.unit, 0), TICKS_PER_SECOND[u.unit]
    least, most = u.limits
    if have == want:
        least, most = least + 1, most - 1
    c = clock(p.node, 1) if u.tz else clock_of(None)
    crosses = t.kind == "date" or bool(t.tz) != bool(u.tz)

    def convert(move: Callable[[int], int], n: int) -> int:
        if have:
            second, below = divmod(n, have)
            n = (move(second) if crosses else second) * want + below * want // have
        else:
            n = move(n * DAY) * want
        return min(max(n, least), most)

    return stepwise(
        p, lambda x: convert(c.instant_low, x), lambda x: convert(c.instant_high, x),
        lambda z: z * have // want if have else z // (DAY * want),
    )  # fmt: skip


_CASTS: dict[tuple[str, str], Callable[[Place, Type, Type], Rule]] = {
    ("int", "bool"): _to_bool, ("float", "bool"): _to_bool, ("decimal", "bool"): _to_bool,
    ("bool", "int"): _from_bool, ("bool", "float"): _from_bool, ("bool", "decimal"): _from_bool,
    ("timestamp", "timestamp"): _timestamp_to_timestamp, ("timestamp", "date"): _timestamp_to_date,
    ("date", "timestamp"): _date_to_timestamp,
}
