"""Convert int64 arrays of times: ticks to seconds, seconds to days, and instants to local times."""

from __future__ import annotations

from typing import Any

import numpy as np

from ivjoin.expr.kernels.cells import Mask, combined
from ivjoin.expr.kernels.integers import add_wrapped, mul_wrapped
from ivjoin.expr.kernels.zones import Zone
from ivjoin.expr.types import DAY

__all__ = [
    "DATE_UNITS", "TRUNC_UNITS", "UNIT_MONTHS", "UNIT_NANOS", "days_of", "local_seconds", "seconds_of", "split",
    "ticks_of", "trunc_width", "wrapped",
]  # fmt: skip

#: Units of intervals with a fixed length, in nanoseconds. Longer units follow, in months.
UNIT_NANOS = {
    "nanosecond": 1, "microsecond": 10**3, "millisecond": 10**6, "second": 10**9, "minute": 60 * 10**9,
    "hour": 3600 * 10**9, "day": DAY * 10**9, "week": 7 * DAY * 10**9,
}  # fmt: skip
UNIT_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# The units of date_trunc.
TRUNC_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
DATE_UNITS = ("year", "quarter", "month", "week")


def trunc_width(unit: str, per: int, fixed: int | None) -> int | None:
    """Return the number of ticks in a unit if date_trunc rounds down to a multiple of it, else None.

    ``per`` is the number of ticks in a second. ``fixed`` is the offset of the zone, or None if it changes. The result
    is 0 for a unit that is finer than a tick.
    """
    seconds = 0 if unit in DATE_UNITS else UNIT_NANOS[unit] // 10**9
    if unit in DATE_UNITS or (seconds > 1 and (fixed is None or fixed % seconds)):
        return None
    return per * UNIT_NANOS[unit] // 10**9


def wrapped(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return bool[n]: whether a small step from ``before`` to ``after`` wrapped around at an end of int64."""
    step = after - before
    return ((step > 0) & (after < before)) | ((step < 0) & (after > before))


def split(x: np.ndarray, per: int) -> tuple[np.ndarray, np.ndarray]:
    """Split ticks into seconds, rounded down, and the remaining ticks."""
    if per == 1:
        return x, np.zeros(len(x), dtype=np.int64)
    seconds = x // per
    return seconds, x - seconds * per


def ticks_of(seconds: np.ndarray, below: np.ndarray, per: int) -> tuple[np.ndarray, Mask]:
    """Invert :func:`split`. Return the ticks, and a mask of the rows that do not fit int64 (None: no row)."""
    if per == 1:
        return seconds, None
    # Start from the second nearer to zero, because the ticks of the least timestamp's own second are out of range.
    low = seconds < 0
    seconds, below = seconds + low, below - low * np.int64(per)
    r, bad = mul_wrapped(seconds, np.broadcast_to(np.int64(per), seconds.shape))
    r, over = add_wrapped(r, below)
    return r, combined(over, bad)


def seconds_of(days: np.ndarray, rest: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ``days * 86400 + rest``, and a mask of the rows that do not fit int64. ``rest`` is less than a day."""
    # Start from the next day if negative, because the day of the least second begins outside the range.
    low = days < 0
    r, bad = mul_wrapped(days + low, np.broadcast_to(np.int64(DAY), days.shape))
    r, over = add_wrapped(r, rest - low * np.int64(DAY))
    return r, over if bad is None else over | bad


def local_seconds(x: np.ndarray, per: int, zone: Zone) -> tuple[np.ndarray, Mask]:
    """Return the local times of timestamps in seconds, rounded down, and a mask of those that overflow (or None)."""
    seconds = x // per
    local = zone.local(seconds)
    return local, wrapped(seconds, local) if per == 1 and not zone.is_utc else None


def days_of(x: np.ndarray, per: int, zone: Zone) -> tuple[np.ndarray, Mask]:
    """Return local dates of timestamps as int64 days since 1970-01-01, and a mask of those that overflow (or None)."""
    local, bad = local_seconds(x, per, zone)
    return local // DAY, bad
