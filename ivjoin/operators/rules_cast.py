"""Rules of casts: rounding, truncation and changes of unit, as the machine carries them out."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import inf
from typing import Any

from ivjoin.expr.nodes import is_met
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.interval import machine as m
from ivjoin.interval import truth
from ivjoin.operators.domain import NAN, NULL
from ivjoin.operators.rule import Pair, Place, Rule, strict_unary
from ivjoin.operators.rules_float import ENTIRE, above, at_least, below, format_of
from ivjoin.operators.rules_function import preimage
from ivjoin.operators.rules_integer import half_up, rounded, unrounded
from ivjoin.operators.rules_time import DAY, clock, floored, scaled, stepwise
from ivjoin.operators.state import State
from ivjoin.operators.zones import clock_of

__all__ = ["cast"]


def cast(p: Place) -> Rule | None:
    t, u = p.node.args[0].type, p.node.type
    if is_met(p.node):
        return _met(p, t, u)
    if t == u:
        return _same(p)
    make = _CASTS.get((t.kind, u.kind))
    # A cast from or to text is strict like all others.
    return make(p, t, u) if make is not None else Rule(None, None)


def _same(p: Place, *_: Type) -> Rule:
    limits = ENTIRE if p.node.type.kind == "float" else p.node.type.physical_range()
    return strict_unary(p, lambda x: x, lambda z, x: z, limits)


# Between numbers


def _int_to_decimal(p: Place, t: Type, u: Type) -> Rule:
    return scaled(p, 10**u.scale)


def _decimal_to_decimal(p: Place, t: Type, u: Type) -> Rule:
    if u.scale >= t.scale:
        return scaled(p, 10 ** (u.scale - t.scale))
    unit = 10 ** (t.scale - u.scale)
    return strict_unary(p, lambda x: rounded(x, unit), lambda z, x: unrounded(z, unit), u.physical_range())


def _cut(n: int, unit: int) -> int:
    return n // unit if n >= 0 else -(-n // unit)


def _truncated(p: Place, unit: int, limits: Pair) -> Rule:
    """Division by a positive constant, truncated."""
    return strict_unary(
        p, lambda x: (_cut(x[0], unit), _cut(x[1], unit)), lambda z, x: m.div_rev_dividend(z, (unit, unit), x), limits
    )


def _decimal_to_int(p: Place, t: Type, u: Type) -> Rule:
    return _truncated(p, 10**t.scale, u.physical_range())


_EXACT = 1 << 53


def _to_float(p: Place, t: Type, u: Type) -> Rule:
    """From an int or decimal: the nearest float."""
    unit = 10**t.scale
    f = format_of(u)

    def near(n: int) -> float:
        return f.near(n / unit)

    # Through a double to a float32 is rounding twice; the machine rounds once.
    exact = u.bits == 64 or (unit == 1 and t.bits <= 32)

    def low(n: int) -> float:
        x = near(n)
        return x if exact or (-_EXACT <= n <= _EXACT and unit == 1) else f.down(x)

    def high(n: int) -> float:
        return -low(-n)

    def back(z: Pair, x: Pair) -> Pair:
        lo = m.first_true(lambda n: high(n) >= z[0], x[0], x[1], _whole(z[0], unit))
        if lo > x[1]:
            return m.EMPTY
        return lo, m.last_true(lambda n: low(n) <= z[1], lo, x[1], _whole(z[1], unit))

    return strict_unary(p, lambda x: (low(x[0]), high(x[1])), back, ENTIRE)


def _whole(x: float, unit: int) -> int | None:
    return int(x) * unit if x - x == 0 else None


def _float_to_float(p: Place, t: Type, u: Type) -> Rule:
    if u.bits == 64:
        f = format_of(t)
        return strict_unary(p, lambda x: x, lambda z, x: (f.ceil(z[0]), f.floor(z[1])), ENTIRE)
    f = format_of(u)

    def back(z: Pair, x: Pair) -> Pair:
        return preimage(f.near, f.near, z, x, lambda c: c)

    return strict_unary(p, lambda x: (f.near(x[0]), f.near(x[1])), back, ENTIRE)


def _float_to_int(p: Place, t: Type, u: Type) -> Rule:
    f = format_of(t)
    least, most = u.physical_range()

    def cut(x: float) -> int:
        if x - x != 0:
            return 1 << 1100 if x > 0 else -(1 << 1100)
        n = int(x)
        # As in Java, 2**63 itself becomes the greatest int64.
        return most if u.bits == 64 and n == most + 1 else n

    def back(z: Pair, x: Pair) -> Pair:
        lo, hi = z
        low = at_least(f, lo) if lo > 0 else above(f, lo - 1)
        high = -at_least(f, -hi) if hi < 0 else below(f, hi + 1)
        return low, (float(most + 1) if u.bits == 64 and hi == most else high)

    return strict_unary(p, lambda x: (cut(x[0]), cut(x[1])), back, (least, most), nan_errs=True)


def _float_to_decimal(p: Place, t: Type, u: Type) -> Rule:
    top = 10**u.precision

    def convert(x: float) -> int:
        if x - x != 0 or abs(x) >= 1e39:
            return top if x > 0 else -top
        sign, digits, exponent = Decimal(repr(x)).as_tuple()
        assert isinstance(exponent, int)
        n, shift = int("".join(map(str, digits))), exponent + u.scale
        n = n * 10**shift if shift >= 0 else 0 if shift < -400 else half_up(n, 10**-shift)
        return -n if sign else n

    def back(z: Pair, x: Pair) -> Pair:
        return preimage(convert, convert, z, x, lambda c: c / 10**u.scale)

    # Infinities and NaN are NULL, numbers with too many digits err.
    def infinite(x: Pair) -> int:
        return NULL if x[0] == -inf or x[1] == inf else 0

    return strict_unary(
        p, lambda x: (convert(x[0]), convert(x[1])), back, u.physical_range(), infinite, nan_null=True
    )


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
    limits = ENTIRE if u.kind == "float" else u.physical_range()

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


def _ticks(p: Place, t: Type, u: Type) -> Rule:
    have, want = TICKS_PER_SECOND[t.unit], TICKS_PER_SECOND[u.unit]
    return scaled(p, want // have) if want >= have else floored(p, have // want)


def _timestamp_to_timestamp(p: Place, t: Type, u: Type) -> Rule:
    c = clock(p.node, 1)
    if bool(t.tz) == bool(u.tz) or c.fixed == 0:
        return _ticks(p, t, u)
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
    if c.fixed is not None:
        shift, width = c.fixed * per, DAY * per
        return strict_unary(
            p, lambda x: ((x[0] + shift) // width, (x[1] + shift) // width),
            lambda z, x: (z[0] * width - shift, (z[1] + 1) * width - 1 - shift), u.physical_range(),
        )  # fmt: skip
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
    """What compares with a time of another unit: kept within the range."""
    have, want = TICKS_PER_SECOND.get(t.unit, 0), TICKS_PER_SECOND[u.unit]
    least, most = u.physical_range()
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


def _timestamp_to_int(p: Place, t: Type, u: Type) -> Rule:
    return floored(p, TICKS_PER_SECOND[t.unit])


def _timestamp_to_float(p: Place, t: Type, u: Type) -> Rule:
    per, f = float(TICKS_PER_SECOND[t.unit]), format_of(u)

    def convert(n: int) -> float:
        return f.near(float(n) / per)

    def back(z: Pair, x: Pair) -> Pair:
        lo = m.first_true(lambda n: convert(n) >= z[0], x[0], x[1], _whole(z[0] * per, 1))
        if lo > x[1]:
            return m.EMPTY
        return lo, m.last_true(lambda n: convert(n) <= z[1], lo, x[1], _whole(z[1] * per, 1))

    return strict_unary(p, lambda x: (convert(x[0]), convert(x[1])), back, ENTIRE)


def _timestamp_to_decimal(p: Place, t: Type, u: Type) -> Rule:
    digits = len(str(TICKS_PER_SECOND[t.unit])) - 1
    if u.scale >= digits:
        return scaled(p, 10 ** (u.scale - digits))
    unit = 10 ** (digits - u.scale)
    return strict_unary(p, lambda x: rounded(x, unit), lambda z, x: unrounded(z, unit), u.physical_range())


def _int_to_timestamp(p: Place, t: Type, u: Type) -> Rule:
    return scaled(p, TICKS_PER_SECOND[u.unit])


def _decimal_to_timestamp(p: Place, t: Type, u: Type) -> Rule:
    digits = len(str(TICKS_PER_SECOND[u.unit])) - 1
    if digits >= t.scale:
        return scaled(p, 10 ** (digits - t.scale))
    return _truncated(p, 10 ** (t.scale - digits), u.physical_range())


def _float_to_timestamp(p: Place, t: Type, u: Type) -> Rule:
    per, top = float(TICKS_PER_SECOND[u.unit]), (1 << 63) - 1

    def convert(x: float) -> int:
        y = x * per
        if y - y != 0:
            return 1 << 70 if y > 0 else -(1 << 70)
        n = int(y)
        return top if n == top + 1 else n

    def back(z: Pair, x: Pair) -> Pair:
        return preimage(convert, convert, z, x, lambda c: c / per)

    return strict_unary(p, lambda x: (convert(x[0]), convert(x[1])), back, u.physical_range(), nan_errs=True)


_CASTS: dict[tuple[str, str], Callable[[Place, Type, Type], Rule]] = {
    ("int", "int"): _same, ("int", "float"): _to_float, ("int", "decimal"): _int_to_decimal, ("int", "bool"): _to_bool,
    ("int", "timestamp"): _int_to_timestamp, ("float", "int"): _float_to_int, ("float", "float"): _float_to_float,
    ("float", "decimal"): _float_to_decimal, ("float", "bool"): _to_bool, ("float", "timestamp"): _float_to_timestamp,
    ("decimal", "int"): _decimal_to_int, ("decimal", "float"): _to_float, ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "bool"): _to_bool, ("decimal", "timestamp"): _decimal_to_timestamp,
    ("bool", "int"): _from_bool, ("bool", "float"): _from_bool, ("bool", "decimal"): _from_bool,
    ("timestamp", "timestamp"): _timestamp_to_timestamp, ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "int"): _timestamp_to_int, ("timestamp", "float"): _timestamp_to_float,
    ("timestamp", "decimal"): _timestamp_to_decimal, ("date", "timestamp"): _date_to_timestamp,
    ("duration", "duration"): _ticks, ("time", "time"): _ticks,
}  # fmt: skip
