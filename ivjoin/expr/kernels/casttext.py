"""Cast from and to text.

Text is trimmed and parsed strictly, and each distinct text is parsed once. Values are written in Java's format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import ConditionError
from ivjoin.expr.kernels.calendar import split
from ivjoin.expr.kernels.cells import Cell, Kernel, checked, dtype_of, narrowest, of_values
from ivjoin.expr.kernels.zones import Zone, zone_of
from ivjoin.expr.literals import CLOCK, clock_of, decimal_text, uuid_bytes, uuid_text
from ivjoin.expr.types import DAY, STRING, TICKS_PER_SECOND, Type
from ivjoin.interval.machine.calendar import days_from_civil, year_month_day
from ivjoin.interval.machine.decimals import half_up

__all__ = ["CASTS", "decimal_parser", "java_double", "to_met_timestamp", "uuid_texts", "uuids_of"]

# White space and control characters, which UTF8String.trimAll removes.
_BLANK = "".join(map(chr, [*range(33), *range(127, 160)]))
Parse = Callable[[str], Any]  # returns None if the text is malformed or does not fit


def _distinct(v: Any, parse: Parse) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Parse each distinct text. Return the results, the index of each row's result, and a mask of malformed rows."""
    encoded = v.dictionary_encode()
    parsed = [None if s is None else parse(s.strip(_BLANK)) for s in encoded.dictionary.to_pylist()] or [None]
    at = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return parsed, at, np.array([p is None for p in parsed])[at]


def _parsing(make: Callable[[Type, Zone], Parse]) -> Callable[[Type, Type, Zone], Kernel]:
    def cast(t: Type, u: Type, zone: Zone) -> Kernel:
        parse = make(u, zone)

        def parsed_all(v: Any) -> tuple[np.ndarray, np.ndarray]:
            parsed, at, bad = _distinct(v, parse)
            zeros: list[Any] = [0 if p is None else p for p in parsed]
            distinct = narrowest(zeros) if u.kind == "decimal" else np.array(zeros, dtype=dtype_of(u))
            return distinct[at], bad

        return checked(parsed_all)

    return cast


_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "infinity": float("inf")}


def _int_parser(u: Type, _: Zone) -> Parse:
    low, high = u.limits

    def parse(s: str) -> int | None:
        if not _WHOLE.fullmatch(s) or len(s) > 4000:
            return None
        n = int(s)
        return n if low <= n <= high else None

    return parse


def _float_parser(u: Type, _: Zone) -> Parse:
    def parse(s: str) -> float | None:
        if _NUMBER.fullmatch(s[:-1] if s[-1:] in "dDfF" else s):
            return float(s.rstrip("dDfF"))
        bare = s[1:] if s[:1] in ("+", "-") else s
        special = _SPECIAL.get(bare.lower())
        if special is None or (special != special and bare != s and bare != "NaN"):
            return None
        return -special if s.startswith("-") else special

    return parse


def decimal_parser(u: Type, _: Zone) -> Parse:
    top = 10**u.precision

    def parse(s: str) -> int | None:
        if not _NUMBER.fullmatch(s):
            return None
        try:
            sign, digits, exponent = Decimal(s).as_tuple()
        except InvalidOperation:  # the exponent is outside Python's range
            return None
        assert isinstance(exponent, int)
        # Only 38 digits and the next one matter. Python cannot convert thousands of digits to an int.
        kept = digits[:200]
        number, shift = int("".join(map(str, kept))), exponent + len(digits) - len(kept) + u.scale
        if number == 0 or shift < -len(kept) - 1:
            return 0
        if shift > 80:
            return None
        n = number * 10**shift if shift >= 0 else half_up(number, 10**-shift)
        return None if n >= top else -n if sign else n

    return parse


_TRUTHS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(("f", "false", "n", "no", "0"), False)


def _bool_parser(u: Type, _: Zone) -> Parse:
    return lambda s: _TRUTHS.get(s.lower())


_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ].*)?)?)?", re.DOTALL)
_STAMP = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?\s*(\S.*)?)?)?)?)?"
)


def _days(year: int, month: int, day: int) -> int | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    days = int(days_from_civil(year, month, day))
    return days if year_month_day(days)[1] == month else None


def _date_parser(u: Type, _: Zone) -> Parse:
    low, high = u.limits

    def parse(s: str) -> int | None:
        m = _DATE.fullmatch(s)
        days = _days(int(m[1]), int(m[2] or 1), int(m[3] or 1)) if m else None
        return days if days is not None and low <= days <= high else None

    return parse


def _timestamp_parser(u: Type, session: Zone, ends: bool = False) -> Parse:
    """Return a parser of timestamps. With ``ends``, a time outside the range becomes an end of the range.

    Otherwise it is an error.
    """
    low, high = u.limits
    per = TICKS_PER_SECOND[u.unit]
    # Spark reads at most six fractional digits.
    grain = 10**9 // per

    def parse(s: str) -> int | None:
        m = _STAMP.fullmatch(s)
        days = _days(int(m[1]), int(m[2] or 1), int(m[3] or 1)) if m else None
        clock = clock_of(m[4], m[5], m[6], m[7]) if m else None
        if m is None or days is None or clock is None:
            return None
        seconds = days * DAY + clock[0]
        zone = session
        if m[8]:
            try:
                zone = zone_of(m[8])
            except ConditionError:
                return None
        if u.tz:
            seconds = int(zone.instants(np.array([seconds]))[0])
        ticks = seconds * per + clock[1] // grain
        return ticks if low <= ticks <= high else None if not ends else high if ticks > 0 else low

    return parse


def _time_parser(u: Type, _: Zone) -> Parse:
    per = TICKS_PER_SECOND[u.unit]

    def parse(s: str) -> int | None:
        m = CLOCK.fullmatch(s)
        clock = clock_of(*m.groups()) if m else None
        return None if clock is None else clock[0] * per + clock[1] // (10**9 // per)

    return parse


# -- to text -------------------------------------------------------------------------------------------------------


Format = Callable[[np.ndarray], list[str]]


def _formatting(make: Callable[[Type, Zone], Format]) -> Callable[[Type, Type, Zone], Kernel]:
    def cast(t: Type, u: Type, zone: Zone) -> Kernel:
        texts = make(t, zone)

        def kernel(a: Cell) -> Cell:
            v, ok, err = a
            mask = None if ok is None else np.broadcast_to(~ok, len(v))
            return pa.array(np.array(texts(v), dtype=object), type=pa.large_string(), mask=mask), ok, err

        return kernel

    return cast


def java_double(x: float, digits: str | None = None) -> str:
    """Return a float in the format of Java's ``Double.toString``, with the shortest digits that identify it.

    Numbers from 0.001 up to 10**7 have no exponent, and all others have one.
    """
    if 1e-3 <= abs(x) < 1e7 and digits is None:
        return repr(x)  # Python and Java have the same format in this range
    if x != x:
        return "NaN"
    if x in (float("inf"), float("-inf")):
        return "Infinity" if x > 0 else "-Infinity"
    text = digits or repr(x)
    if abs(x) < 1e-320 and float(f"{x:.1e}") == x:
        text = f"{x:.1e}"  # Java writes at least two digits, such as 4.9E-324
    sign, figures, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    figure = "".join(map(str, figures)).rstrip("0") or "0"
    minus = "-" if sign else ""
    if x == 0:
        return minus + "0.0"
    point = len(figures) + exponent  # digits before the point
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{figure}"
        figure = figure.ljust(point + 1, "0")
        return f"{minus}{figure[:point]}.{figure[point:]}"
    return f"{minus}{figure[0]}.{figure[1:] or '0'}E{point - 1}"


def _float_texts(t: Type, _: Zone) -> Format:
    if t.bits == 64:
        return lambda v: [java_double(x) for x in v.tolist()]
    return lambda v: [java_double(float(x), str(x)) if np.isfinite(x) else java_double(float(x)) for x in v]


def _decimal_texts(t: Type, _: Zone) -> Format:
    return lambda v: [decimal_text(n, t.scale) for n in v.tolist()]


def _date_text(year: int, month: int, day: int) -> str:
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _date_texts(days: np.ndarray) -> list[str]:
    return [_date_text(*ymd) for ymd in zip(*(part.tolist() for part in year_month_day(days.astype(np.int64))))]


def _clock_texts(seconds: np.ndarray, below: np.ndarray, per: int) -> list[str]:
    places = len(str(per)) - 1
    out = []
    for s, f in zip(seconds.tolist(), below.tolist()):
        fraction = f".{f:0{places}}".rstrip("0") if f else ""
        out.append(f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}{fraction}")
    return out


def _timestamp_texts(t: Type, session: Zone) -> Format:
    per, zone = TICKS_PER_SECOND[t.unit], session if t.tz else zone_of(None)

    def texts(v: np.ndarray) -> list[str]:
        seconds, below = split(v, per)
        local = zone.local(seconds)
        days = local // DAY
        clocks = _clock_texts(local - days * DAY, below, per)
        return [f"{d} {c}" for d, c in zip(_date_texts(days), clocks)]

    return texts


def _time_texts(t: Type, _: Zone) -> Format:
    per = TICKS_PER_SECOND[t.unit]
    return lambda v: _clock_texts(*split(v, per), per)


def _reinterpreted(t: Type, u: Type, zone: Zone) -> Kernel:
    # Bytes that are not UTF-8 are not changed, and are compared as bytes.
    import pyarrow.compute as pc

    options = pc.CastOptions(pa.large_string() if u == STRING else pa.large_binary(), allow_invalid_utf8=True)
    return of_values(lambda v: pc.cast(v, options=options))


def _uuid_texts(v: Any) -> Any:
    return pa.array([None if b is None else uuid_text(b) for b in v.to_pylist()], pa.large_string())


def _uuids_of(v: Any) -> tuple[Any, np.ndarray]:
    """Parse texts as UUIDs. Any other text is an error."""
    parsed, at, bad = _distinct(v, uuid_bytes)
    return pa.array([p or b"" for p in parsed], pa.large_binary()).take(pa.array(at)), bad


uuid_texts, uuids_of = of_values(_uuid_texts), checked(_uuids_of)

_TO_TEXT: dict[str, Any] = {
    "int": _formatting(lambda t, z: lambda v: list(map(str, v.tolist()))),
    "bool": _formatting(lambda t, z: lambda v: ["true" if x else "false" for x in v.tolist()]),
    "float": _formatting(_float_texts), "decimal": _formatting(_decimal_texts),
    "date": _formatting(lambda t, z: _date_texts), "timestamp": _formatting(_timestamp_texts),
    "time": _formatting(_time_texts), "binary": _reinterpreted,
}
_FROM_TEXT: dict[str, Any] = {
    "int": _parsing(_int_parser), "float": _parsing(_float_parser), "decimal": _parsing(decimal_parser),
    "bool": _parsing(_bool_parser), "date": _parsing(_date_parser), "timestamp": _parsing(_timestamp_parser),
    "time": _parsing(_time_parser), "binary": _reinterpreted,
}
to_met_timestamp = _parsing(lambda u, z: _timestamp_parser(u, z, True))
CASTS: dict[tuple[str, str], Callable[[Type, Type, Zone], Kernel]] = {
    **{(kind, "string"): make for kind, make in _TO_TEXT.items()},
    **{("string", kind): make for kind, make in _FROM_TEXT.items()},
}
