"""Times as int64 arrays: ticks as seconds, seconds as days, and local times."""

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

#: Units of intervals: of fixed lengths, in nanoseconds, and longer ones, in months.
UNIT_NANOS = {
    "nanosecond": 1, "microsecond": 10**3, "millisecond": 10**6, "second": 10**9, "minute": 60 * 10**9,
    "hour": 3600 * 10**9, "day": DAY * 10**9, "week": 7 * DAY * 10**9,
}  # fmt: skip
UNIT_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# The units of date_trunc.
TRUNC_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
DATE_UNITS = ("year", "quarter", "month", "week")


def trunc_width(unit: str, per: int, fixed: int | None) -> int | None:
    """Return the ticks of a unit, ``per`` to the second, if date_trunc rounds down to a multiple of it; else None.

    ``fixed`` is the offset of the zone, None if it changes. A unit finer than a tick has a width of 0.
    """
    seconds = 0 if unit in DATE_UNITS else UNIT_NANOS[unit] // 10**9
    if unit in DATE_UNITS or (seconds > 1 and (fixed is None or fixed % seconds)):
        return None
    return per * UNIT_NANOS[unit] // 10**9


def wrapped(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return bool[n]: where a step of some hours has wrapped past an end of int64."""
    step = after - before
    return ((step > 0) & (after < before)) | ((step < 0) & (after > before))


def split(x: np.ndarray, per: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ticks as seconds, rounded down, and the remaining ticks."""
    if per == 1:
        return x, np.zeros(len(x), dtype=np.int64)
    seconds = x // per
    return seconds, x - seconds * per


def ticks_of(seconds: np.ndarray, below: np.ndarray, per: int) -> tuple[np.ndarray, Mask]:
    """Return the inverse of :func:`split`, and the rows that do not fit an int64 (None: no row)."""
    if per == 1:
        return seconds, None
    # Computed from the second nearer to zero, because the least timestamp's own second is past the range.
    low = seconds < 0
    seconds, below = seconds + low, below - low * np.int64(per)
    r, bad = mul_wrapped(seconds, np.broadcast_to(np.int64(per), seconds.shape))
    r, over = add_wrapped(r, below)
    return r, combined(over, bad)


def seconds_of(days: np.ndarray, rest: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ``days * 86400 + rest``, and where it leaves int64; ``rest`` is a part of a day."""
    # The least second lies on a day that starts past the range, so it is computed from the next day.
    low = days < 0
    r, bad = mul_wrapped(days + low, np.broadcast_to(np.int64(DAY), days.shape))
    r, over = add_wrapped(r, rest - low * np.int64(DAY))
    return r, over if bad is None else over | bad


def local_seconds(x: np.ndarray, per: int, zone: Zone) -> tuple[np.ndarray, Mask]:
    """Return local times of timestamps in seconds, rounded down, and a mask of those that overflow int64, if any do."""
    seconds = x // per
    local = zone.local(seconds)
    return local, wrapped(seconds, local) if per == 1 and not zone.is_utc else None


def days_of(x: np.ndarray, per: int, zone: Zone) -> tuple[np.ndarray, Mask]:
    """Return local dates of timestamps, int64 days since 1970-01-01, and where they do not exist (None: nowhere)."""
    local, bad = local_seconds(x, per, zone)
    return local // DAY, bad
