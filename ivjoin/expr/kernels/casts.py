"""Cast numbers, bools and times as in Spark's ANSI mode: a value that does not fit is an error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ivjoin.expr.kernels import casttext as ops_casttext
from ivjoin.expr.kernels.calendar import days_of, split, ticks_of, wrapped
from ivjoin.expr.kernels.cells import (
    Cell,
    Consts,
    Kernel,
    Mask,
    checked,
    combined,
    count,
    dtype_of,
    flagged,
    met,
    narrowest,
    objects,
    of_values,
    unsupported,
)
from ivjoin.expr.kernels.columns import nothing
from ivjoin.expr.kernels.decimals import as_objects, fitted, rescaled, scaled_up
from ivjoin.expr.kernels.integers import mul_wrapped, narrowed, whole_quotient
from ivjoin.expr.kernels.times import as_dates
from ivjoin.expr.kernels.zones import Zone, zone_of
from ivjoin.expr.nodes import Node, is_met
from ivjoin.expr.types import DAY, INT64, TICKS_PER_SECOND, UUID, Type

__all__ = ["cast_rule", "has_cast"]

_I64_MAX = (1 << 63) - 1


def cast_rule(node: Node, _: Consts) -> Kernel:
    """Return the kernel of a cast. The params are (target type, zone)."""
    t, u = node.args[0].type, node.type
    if is_met(node):
        return _met(t, u, zone_of(node.params[1]))
    if t == u:
        return lambda a: a
    if t.kind == "null" and u.kind != "opaque":
        return lambda a: nothing(len(a[0]), u)
    if UUID in (t, u):
        if {t.kind, u.kind} == {"binary"}:
            return lambda a: a
        return ops_casttext.uuid_texts if t == UUID else ops_casttext.uuids_of
    zone = zone_of(node.params[1]) if len(node.params) > 1 else zone_of(None)
    make = _CASTS.get((t.kind, u.kind)) or ops_casttext.CASTS.get((t.kind, u.kind))
    if make is None:
        raise unsupported(node)
    return make(t, u, zone)


def has_cast(t: Type, u: Type) -> bool:
    """Return whether values of a type can be cast to another one."""
    kinds = t.kind, u.kind
    return kinds in _CASTS or kinds in ops_casttext.CASTS or kinds == ("binary", "binary")


Values = tuple[np.ndarray, Mask]  # values, and a mask of the rows that have an error


def _int_to_int(t: Type, u: Type, zone: Zone) -> Kernel:
    return checked(lambda v: narrowed(v, u))


def _to_float(t: Type, u: Type, zone: Zone) -> Kernel:
    dtype = dtype_of(u)
    return of_values(lambda v: v.astype(dtype))


def _int_to_decimal(t: Type, u: Type, zone: Zone) -> Kernel:
    def scaled(v: np.ndarray) -> Values:
        wide = v.dtype == np.uint64 and count(v > np.uint64(_I64_MAX))
        return fitted(scaled_up(objects(v.tolist()) if wide else v.astype(np.int64), u.scale), u)

    return checked(scaled)


def cut_floats(v: np.ndarray, u: Type) -> Values:
    """Truncate floats to an integer type. As in Java, 2**63 becomes the greatest int64, and 2**64 overflows."""
    dtype = dtype_of(u)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = v.astype(np.float64, copy=False)
    past = float(high + 1)
    inside = ((x <= past) if high == _I64_MAX else (x < past)) & (np.ceil(x) >= float(low))
    if count(inside) != len(inside):
        x = np.where(inside, x, 0.0)
    top = x == past
    if count(top):
        return np.where(top, dtype.type(high), np.where(top, 0.0, x).astype(dtype)), ~inside
    return x.astype(dtype), ~inside


def _float_to_int(t: Type, u: Type, zone: Zone) -> Kernel:
    return checked(lambda v: cut_floats(v, u))


def _float_to_decimal(t: Type, u: Type, zone: Zone) -> Kernel:
    """Convert floats by the text of the double, as Spark does. A float32 is widened first. NaN and inf become NULL."""
    parse = ops_casttext.decimal_parser(u, zone)

    def kernel(a: Cell) -> Cell:
        v, ok, err = a
        finite = np.isfinite(v)
        found = [parse(repr(x)) for x in v.tolist()]
        bad = finite & np.array([n is None for n in found], dtype=bool)
        return narrowest([n or 0 for n in found]), met(ok, finite), flagged(err, bad, ok)

    return kernel


def _decimal_to_int(t: Type, u: Type, zone: Zone) -> Kernel:
    unit = 10**t.scale

    def truncated(v: np.ndarray) -> Values:
        if v.dtype == object or unit > _I64_MAX:
            v = as_objects(v)
            return narrowed(np.where(v < 0, -(-v // unit), v // unit), u)
        return narrowed(whole_quotient(v, np.asarray(unit)), u)

    return checked(truncated)


def _decimal_to_float(t: Type, u: Type, zone: Zone) -> Kernel:
    unit = 10**t.scale

    def divided(v: np.ndarray) -> np.ndarray:
        if v.dtype != object and t.scale <= 22 and not count(np.abs(v) > 1 << 53):
            r = v / float(unit)  # both are exact doubles, so the quotient is the nearest double
        else:
            r = np.array([n / unit for n in v.tolist()], dtype=np.float64)  # true division of ints rounds correctly
        return _to_float32(r, v, unit) if u.bits == 32 else r

    return of_values(divided)


def _to_float32(r: np.ndarray, v: np.ndarray, unit: int) -> np.ndarray:
    out = r.astype(np.float32)
    # If the double is half-way between two floats, it may itself be rounded. Then the exact value decides.
    middle = (r.view(np.int64) & 0x1FFF_FFFF) == 0x1000_0000
    for i in np.flatnonzero(middle):
        n, (a, b) = int(v[i]), r[i].as_integer_ratio()
        excess = n * b - a * unit
        if excess:
            down, up = (np.nextafter(out[i], np.float32(s)) for s in (-np.inf, np.inf))
            low, high = (down, out[i]) if out[i] > r[i] else (out[i], up)
            out[i] = high if excess > 0 else low
    return out


def _decimal_to_decimal(t: Type, u: Type, zone: Zone) -> Kernel:
    return checked(lambda v: fitted(rescaled(v, t.scale, u.scale), u))


def _bool_to_number(t: Type, u: Type, zone: Zone) -> Kernel:
    return _to_float(t, u, zone) if u.kind != "decimal" else _int_to_decimal(t, u, zone)


def _number_to_bool(t: Type, u: Type, zone: Zone) -> Kernel:
    return of_values(lambda v: v != 0)


# -- times ---------------------------------------------------------------------------------------------------------


def _rescale_ticks(have: int, want: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]:
    """Convert ticks to another unit. A coarser unit rounds down, and a finer unit may overflow."""
    if want <= have:
        width = np.array(have // want)
        return lambda v: (v if want == have else v // width, None)
    factor = np.array([want // have])
    return lambda v: mul_wrapped(v, factor)


def _ticks_to_ticks(t: Type, u: Type, zone: Zone) -> Kernel:
    return checked(_rescale_ticks(TICKS_PER_SECOND[t.unit], TICKS_PER_SECOND[u.unit]))


def _timestamp_to_timestamp(t: Type, u: Type, zone: Zone) -> Kernel:
    if bool(t.tz) == bool(u.tz) or zone.is_utc:
        return _ticks_to_ticks(t, u, zone)
    have, want = TICKS_PER_SECOND[t.unit], TICKS_PER_SECOND[u.unit]
    convert = _rescale_ticks(have, want)
    move = zone.local if t.tz else zone.instants

    def converted(v: np.ndarray) -> Values:
        seconds, below = split(v, have)
        moved = move(seconds)
        r, bad = ticks_of(moved, convert(below)[0], want)
        return r, combined(bad, wrapped(seconds, moved)) if have == 1 else bad

    return checked(converted)


def _timestamp_to_date(t: Type, u: Type, zone: Zone) -> Kernel:
    per = TICKS_PER_SECOND[t.unit]
    zone = zone if t.tz else zone_of(None)

    def dated(v: np.ndarray) -> Values:
        days, bad = days_of(v, per, zone)
        dates, over = as_dates(days)
        return dates, combined(bad, over)

    return checked(dated)


def _date_to_timestamp(t: Type, u: Type, zone: Zone) -> Kernel:
    per = TICKS_PER_SECOND[u.unit]
    zone = zone if u.tz else zone_of(None)
    return checked(lambda v: ticks_of(zone.instants(v.astype(np.int64) * DAY), np.zeros(len(v), np.int64), per))


def _met(t: Type, u: Type, zone: Zone) -> Kernel:
    """Convert a time for a comparison with a time of another unit. See ``ivjoin.expr.nodes.is_met``."""
    low, high = u.limits
    if t.kind == "string" and u.unit == "ns":
        return ops_casttext.to_met_timestamp(t, u, zone)
    plain = (_CASTS.get((t.kind, u.kind)) or ops_casttext.CASTS[t.kind, u.kind])(t, u, zone)
    if t.kind != "string" and t.unit != u.unit:

        def ended(a: Cell) -> Cell:
            r, ok, over = plain((a[0], a[1], None))
            return r if over is None else np.where(over, np.where(a[0] < 0, low, high), r), ok, a[2]

        return ended

    def inside(a: Cell) -> Cell:
        r, ok, err = plain(a)
        return np.clip(r, low + 1, high - 1), ok, err

    return inside


def _timestamp_to_int(t: Type, u: Type, zone: Zone) -> Kernel:
    per = np.array(TICKS_PER_SECOND[t.unit])
    return checked(lambda v: narrowed(v // per, u))


def _timestamp_to_float(t: Type, u: Type, zone: Zone) -> Kernel:
    per, dtype = float(TICKS_PER_SECOND[t.unit]), dtype_of(u)
    return of_values(lambda v: (v / per).astype(dtype))


def _timestamp_to_decimal(t: Type, u: Type, zone: Zone) -> Kernel:
    digits = len(str(TICKS_PER_SECOND[t.unit])) - 1
    return checked(lambda v: fitted(rescaled(v, digits, u.scale), u))


def _int_to_timestamp(t: Type, u: Type, zone: Zone) -> Kernel:
    factor = np.array([TICKS_PER_SECOND[u.unit]])

    def scaled(v: np.ndarray) -> Values:
        wide, bad = narrowed(v, INT64)
        r, over = mul_wrapped(wide, factor)
        return r, combined(bad, over)

    return checked(scaled)


def _float_to_timestamp(t: Type, u: Type, zone: Zone) -> Kernel:
    per = float(TICKS_PER_SECOND[u.unit])
    return checked(lambda v: cut_floats(v.astype(np.float64) * per, INT64))


def _decimal_to_timestamp(t: Type, u: Type, zone: Zone) -> Kernel:
    digits = len(str(TICKS_PER_SECOND[u.unit])) - 1
    ticks = _decimal_to_int(Type("decimal", precision=38, scale=max(t.scale - digits, 0)), INT64, zone)
    return lambda a: ticks((scaled_up(a[0], max(digits - t.scale, 0)), a[1], a[2]))


def _to_decimal256(t: Type, u: Type, zone: Zone) -> Kernel:
    """Convert to a decimal with any number of digits, which is used only in comparisons."""
    factor = 10 ** (u.scale - t.scale)
    return of_values(lambda v: objects([int(n) * factor for n in v.tolist()]))


Make = Callable[[Type, Type, Zone], Kernel]
_CASTS: dict[tuple[str, str], Make] = {
    ("int", "int"): _int_to_int, ("int", "float"): _to_float, ("int", "decimal"): _int_to_decimal,
    ("int", "bool"): _number_to_bool, ("int", "timestamp"): _int_to_timestamp,
    ("float", "int"): _float_to_int, ("float", "float"): _to_float, ("float", "decimal"): _float_to_decimal,
    ("float", "bool"): _number_to_bool, ("float", "timestamp"): _float_to_timestamp,
    ("decimal", "int"): _decimal_to_int, ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): _decimal_to_decimal, ("decimal", "bool"): _number_to_bool,
    ("decimal", "timestamp"): _decimal_to_timestamp,
    ("bool", "int"): _bool_to_number, ("bool", "float"): _bool_to_number, ("bool", "decimal"): _bool_to_number,
    ("timestamp", "timestamp"): _timestamp_to_timestamp, ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "int"): _timestamp_to_int, ("timestamp", "float"): _timestamp_to_float,
    ("timestamp", "decimal"): _timestamp_to_decimal, ("date", "timestamp"): _date_to_timestamp,
    ("int", "decimal256"): _to_decimal256, ("decimal", "decimal256"): _to_decimal256,
    ("decimal256", "decimal256"): _to_decimal256,
    ("duration", "duration"): _ticks_to_ticks, ("time", "time"): _ticks_to_ticks,
}  # fmt: skip
