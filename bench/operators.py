"""The operators that bench.tightness enumerates, each computed by plain Python in a line of its own.

``python -m bench.operators`` prints the table of all operators of conditions (``bench.operator_table``).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import numpy as np

from bench.enumeration import Operator, against
from ivjoin import interval as iv

__all__ = ["casts", "decimals", "integers", "months"]


def truncated(a: int, b: int) -> int | None:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int | None:
    q = truncated(a, b)
    return None if q is None else a - b * q


def positive_remainder(a: int, b: int) -> int | None:
    r = remainder(a, b)
    if r is None or r >= 0:
        return r
    return remainder(r + b, b)


_BINARY: list[tuple[str, Callable[[int, int], Any], Any, Any, Any]] = [
    ("add", lambda a, b: a + b, iv.add, iv.add_rev, iv.add_rev),
    ("sub", lambda a, b: a - b, iv.sub, iv.sub_rev1, iv.sub_rev2),
    ("mul", lambda a, b: a * b, iv.mul, iv.mul_rev, iv.mul_rev),
    ("div", truncated, iv.div, iv.div_rev1, iv.div_rev2),
    ("rem", remainder, iv.rem, iv.rem_rev1, iv.rem_rev2),
    ("pmod", positive_remainder, iv.pmod, iv.pmod_rev1, iv.pmod_rev2),
    ("min", min, iv.min, iv.min_rev, iv.min_rev),
    ("max", max, iv.max, iv.max_rev, iv.max_rev),
]
_UNARY: list[tuple[str, Callable[[int], Any], Any, Any]] = [
    ("neg", lambda a: -a, iv.neg, iv.neg_rev),
    ("abs", abs, iv.abs, iv.abs_rev),
    ("sign", lambda a: (a > 0) - (a < 0), iv.sign, iv.sign_rev),
    ("sqr", lambda a: a * a, iv.sqr, iv.sqr_rev),
    ("pown 3", lambda a: a**3, lambda x: iv.pown(x, 3), lambda c, x: iv.pown_rev(c, 3, x)),
    ("pown 4", lambda a: a**4, lambda x: iv.pown(x, 4), lambda c, x: iv.pown_rev(c, 4, x)),
]


def integers(domain: str) -> list[Operator]:
    """All operators of an int domain over all its values."""
    lo, hi = iv.domain(domain).limits
    values = range(lo, hi + 1)
    out = [against(n, (domain, domain), (values, values), f, g, *back) for n, f, g, *back in _BINARY]
    return out + [against(n, (domain,), (values,), f, g, back) for n, f, g, back in _UNARY]


# Decimals: by Python's decimal module, HALF_UP at the scale of the result

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)


def _decimal_binary(name: str, x: str, y: str) -> Operator:
    dx, dy = iv.domain(x), iv.domain(y)
    forward, *back = {n: rest for n, _, *rest in _BINARY}[name]
    scale = forward(iv.interval(x, 1, 1), iv.interval(y, 1, 1)).domain.scale
    plain = {"add": _EXACT.add, "sub": _EXACT.subtract, "mul": _EXACT.multiply, "div": _EXACT.divide}

    def compute(a: int, b: int) -> int | None:
        u, v = Decimal(a).scaleb(-dx.scale), Decimal(b).scaleb(-dy.scale)
        if name in plain:
            if name == "div" and b == 0:
                return None
            return int(_EXACT.quantize(plain[name](u, v), Decimal(1).scaleb(-scale)).scaleb(scale))
        j, k = 10 ** (scale - dx.scale), 10 ** (scale - dy.scale)
        return (remainder if name == "rem" else positive_remainder)(a * j, b * k)

    (lo, hi), (least, most) = dx.limits, dy.limits
    return against(name, (x, y), (range(lo, hi + 1), range(least, most + 1)), compute, forward, *back)


def _rounded(rounded: Callable[[Decimal], int], a: int) -> int:
    return rounded(Decimal(a).scaleb(-2))


def decimals() -> list[Operator]:
    """Operators of decimal(2,1) with decimal(2,1) or decimal(2,0), over all values, and casts between scales."""
    out = [_decimal_binary(n, "decimal(2,1)", "decimal(2,1)") for n in ("add", "sub", "mul", "div", "rem", "pmod")]
    out += [_decimal_binary(n, "decimal(2,1)", "decimal(2,0)") for n in ("add", "mul", "div", "rem")]
    out += [_decimal_cast("decimal(3,2)", t) for t in ("decimal(2,1)", "decimal(4,3)", "int8")]
    for name, forward, back in (("floor", iv.floor, iv.floor_rev), ("ceil", iv.ceil, iv.ceil_rev)):
        rounded = math.floor if name == "floor" else math.ceil
        lo, hi = iv.domain("decimal(3,2)").limits
        compute = partial(_rounded, rounded)
        out.append(against(name, ("decimal(3,2)",), (range(lo, hi + 1),), compute, forward, back))
    return out


def _decimal_cast(source: str, target: str) -> Operator:
    s, t = iv.domain(source), iv.domain(target)
    lo, hi = s.limits

    def compute(a: int) -> int:
        value = Decimal(a).scaleb(-s.scale)
        if t.kind == "int":
            return int(value)
        return int(_EXACT.quantize(value, Decimal(1).scaleb(-t.scale)).scaleb(t.scale))

    return _cast(source, target, range(lo, hi + 1), compute)


def _cast(source: str, target: str, values: Any, compute: Callable[[Any], Any]) -> Operator:
    return against(
        f"cast {source} to {target}", (source,), (values,), compute, lambda x: iv.cast(x, target), iv.cast_rev
    )


# Casts of ints and floats, by numpy

_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
HALVES = np.unique(_HALF[~np.isnan(_HALF)].astype(np.float64) + 0.0)


def _to_half(a: int) -> float:
    with np.errstate(over="ignore"):
        return float(np.float64(a).astype(np.float16)) + 0.0


def _to_int(x: float) -> int | None:
    return int(x) if math.isfinite(x) else None


def casts() -> list[Operator]:
    """Casts over all values of the narrower domain."""
    return [
        _cast("int8", "uint8", range(-128, 128), lambda a: a), _cast("int8", "int4", range(-128, 128), lambda a: a),
        _cast("int16", "float16", range(-(1 << 15), 1 << 15), _to_half), _cast("float16", "int8", HALVES, _to_int),
        _cast("float16", "int32", HALVES, _to_int), _cast("uint16", "float16", range(1 << 16), _to_half),
    ]  # fmt: skip


# Months

_EPOCH = dt.date(1970, 1, 1)


def _month_later(days: int, months: int) -> int:
    d = _EPOCH + dt.timedelta(days=days)
    at = d.year * 12 + d.month - 1 + months
    for day in range(d.day, 0, -1):
        try:
            return (dt.date(at // 12, at % 12 + 1, day) - _EPOCH).days
        except ValueError:
            continue
    raise AssertionError("no month without days")


def months() -> list[Operator]:
    """Dates of one winter, over a leap day and the end of February of a common year, plus and minus some months."""
    out = []
    for year in (2023, 2024):
        first = (dt.date(year, 1, 20) - _EPOCH).days
        days, steps = range(first, first + 45), range(-3, 4)
        out += [
            against(f"date + months ({year})", ("date", "months"), (days, steps), _month_later, iv.add, iv.add_rev,
                    iv.add_rev),
            against(f"date - months ({year})", ("date", "months"), (days, steps), lambda d, n: _month_later(d, -n),
                    iv.sub, iv.sub_rev1, iv.sub_rev2),
        ]  # fmt: skip
    return out

if __name__ == "__main__":
    from bench.operator_table import main

    raise SystemExit(main())
