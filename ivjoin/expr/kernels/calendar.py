"""The calendar on int64 arrays: dates and days, months later, local times, and ticks as seconds.

The formulas are H. Hinnant's, "chrono-compatible low-level date algorithms".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ivjoin.expr.kernels.cells import Mask, combined
from ivjoin.expr.kernels.integers import add_wrapped, mul_wrapped
from ivjoin.expr.kernels.zones import Zone

__all__ = [
    "DAY_SECONDS", "civil", "days_from_civil", "days_of", "local_seconds", "months_later", "seconds_of", "split",
    "ticks_of", "wrapped",
]  # fmt: skip

DAY_SECONDS = 86_400


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


def civil(days: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return year, month (1-12) and day (1-31) of days since 1970-01-01, int64 each."""
    z = days.astype(np.int64) + 719_468
    era = z // 146_097
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = np.where(mp < 10, mp + 3, mp - 9)
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def days_from_civil(year: np.ndarray, month: np.ndarray, day: Any) -> np.ndarray:
    """Return days since 1970-01-01 of a date, int64."""
    y = year - (month <= 2)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def seconds_of(days: np.ndarray, rest: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ``days * 86400 + rest``, and where it leaves int64; ``rest`` is a part of a day."""
    # The least second lies on a day that starts past the range, so it is computed from the next day.
    low = days < 0
    r, bad = mul_wrapped(days + low, np.broadcast_to(np.int64(DAY_SECONDS), days.shape))
    r, over = add_wrapped(r, rest - low * np.int64(DAY_SECONDS))
    return r, over if bad is None else over | bad


def _month_length(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return np.where(month == 2, 28 + leap, 30 + ((month + (month > 7)) & 1))


def months_later(days: np.ndarray, months: np.ndarray) -> np.ndarray:
    year, month, day = civil(days)
    total = year * 12 + (month - 1) + months
    year = total // 12  # numpy divides by a constant ten times as fast as it takes the remainder
    month = total - year * 12 + 1
    return days_from_civil(year, month, np.minimum(day, _month_length(year, month)))


def local_seconds(x: np.ndarray, per: int, zone: Zone) -> tuple[np.ndarray, Mask]:
    """Return local times of timestamps in seconds, rounded down, and a mask of those that overflow int64, if any do."""
    seconds = x // per
    local = zone.local(seconds)
    return local, wrapped(seconds, local) if per == 1 and not zone.is_utc else None


def days_of(x: np.ndarray, per: int, zone: Zone) -> tuple[np.ndarray, Mask]:
    """Return local dates of timestamps, int64 days since 1970-01-01, and where they do not exist (None: nowhere)."""
    local, bad = local_seconds(x, per, zone)
    return local // DAY_SECONDS, bad
