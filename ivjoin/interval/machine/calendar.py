"""Dates as days since 1970-01-01, and months added to them; the day is clamped to the end of a shorter month.

The functions of dates take ints and int64 arrays. The others, which bound sums with months, take ints. The sum rises
with the months and with the day, but not with the instant: Jan 30 23:00 and Jan 31 01:00 both become Feb
28. It has no inverse: up to four days become Feb 28, and adding one month never gives Mar 31. The civil-date formulas
    are from H. Hinnant, "chrono-compatible low-level date algorithms".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivjoin.interval.machine.bisection import first_true, last_true, preimage
from ivjoin.interval.machine.pairs import EMPTY, Pair, hull, meet, shaved

__all__ = [
    "days_from_civil", "first_day", "months_later", "shifted", "shifted_rev1", "shifted_rev2", "year_month_day",
]  # fmt: skip

Whole = Any  # an int, or an int64 array


def year_month_day(days: Whole) -> tuple[Whole, Whole, Whole]:
    """Return the civil date of days since 1970-01-01."""
    z = days + 719_468
    era = z // 146_097
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 - 12 * (mp >= 10)
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def days_from_civil(year: Whole, month: Whole, day: Whole) -> Whole:
    """Return the days from 1970-01-01 to a civil date."""
    early = month <= 2
    y = year - early
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month - 3 + 12 * early) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def _month_length(year: Whole, month: Whole) -> Whole:
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return 30 + ((month + (month > 7)) & 1) - (month == 2) * (2 - leap)


def months_later(days: Whole, months: Whole) -> Whole:
    """Return a date moved by months, clamped to the month's end."""
    year, month, day = year_month_day(days)
    total = year * 12 + month - 1 + months
    year = total // 12  # numpy divides by a constant ten times as fast as it takes the remainder
    month = total - year * 12 + 1
    length = _month_length(year, month)
    return days_from_civil(year, month, day - (day > length) * (day - length))


def first_day(unit: str) -> Callable[[Whole], Whole]:
    """Return a function to the first day of the week, month, quarter or year of a day."""
    if unit == "week":
        return lambda days: days - (days + 3) % 7  # 1970-01-01 is a Thursday, weeks start on Monday

    def first(days: Whole) -> Whole:
        year, month, _ = year_month_day(days)
        if unit != "month":
            month = 1 if unit == "year" else month - (month - 1) % 3
        return days_from_civil(year, month, 1)

    return first


def _at(ticks: int, months: int, day: int) -> int:
    days, rest = divmod(ticks, day)
    return months_later(days, months) * day + rest


def shifted(a: Pair, b: Pair, day: int = 1) -> Pair:
    """Return the dates or timestamps in ``a`` moved by the months in ``b``; ``day`` is the number of ticks in a day."""
    lo, hi = _at(a[0], b[0], day), _at(a[1], b[1], day)
    if day > 1:
        # The next midnight may come earlier than the first instant, the last one before today later than the last.
        midnight, evening = (a[0] // day + 1) * day, a[1] // day * day - 1
        if midnight <= a[1]:
            lo = min(lo, _at(midnight, b[0], day))
        if evening >= a[0]:
            hi = max(hi, _at(evening, b[1], day))
    return lo, hi


def _months_between(start: int, z: Pair) -> Pair:
    """Return the months that move a day into the days of ``z``; empty if it jumps over them."""
    y, mo, _ = year_month_day(start)
    ends = []
    for target, least in ((z[0], True), (z[1], False)):
        ty, tm, _ = year_month_day(target)
        n = (ty - y) * 12 + tm - mo
        moved = months_later(start, n)
        # Within its month a day may lie before or after the target's.
        if least and moved < target:
            n += 1
        if not least and moved > target:
            n -= 1
        ends.append(n)
    return (ends[0], ends[1]) if ends[0] <= ends[1] else EMPTY


def _times_of_day(days: int, z: Pair, b: Pair, within: Pair, day: int) -> Pair:
    """Return the hull of the times of one day, within ``within``, that months in ``b`` move into ``z``."""
    reach = meet(_months_between(days, (z[0] // day, z[1] // day)), b)
    if reach[0] > reach[1]:
        return EMPTY
    out = EMPTY
    # Only the first and the last day can lose part of the day; a day between them is complete.
    for n in {reach[0], min(reach[0] + 1, reach[1]), reach[1]}:
        moved = months_later(days, n) * day
        out = hull(out, meet((z[0] - moved, z[1] - moved), within))
    return out


# Only a few days in a row can miss the wanted days; after more, the bound stays as it is.
_WALK = 64


def _end(z: Pair, b: Pair, x: Pair, day: int, up: bool) -> int | None:
    """Return the least (``up``) or greatest member of ``x`` that months in ``b`` move into ``z``, or None."""
    low, high = x[0] // day, x[1] // day
    first, last = z[0] // day, z[1] // day
    if up:
        days = first_true(lambda n: months_later(n, b[1]) >= first, low, high, first - b[1] * 30)
    else:
        days = last_true(lambda n: months_later(n, b[0]) <= last, low, high, last - b[0] * 30)
    for _ in range(_WALK):
        if not low <= days <= high or (months_later(days, b[0]) > last if up else months_later(days, b[1]) < first):
            return None
        within = meet((0, day - 1), (x[0] - days * day, x[1] - days * day))
        lo, hi = _times_of_day(days, z, b, within, day)
        if lo <= hi:
            return days * day + (lo if up else hi)
        days += 1 if up else -1
    return days * day if up else days * day + day - 1


def shifted_rev1(z: Pair, b: Pair, x: Pair, day: int = 1) -> Pair:
    """Return the members of ``x`` that some number of months in ``b`` moves into ``z``."""
    lo, hi = _end(z, b, x, day, True), _end(z, b, x, day, False)
    return (lo, hi) if lo is not None and hi is not None and lo <= hi else EMPTY


def shifted_rev2(z: Pair, a: Pair, x: Pair, day: int = 1) -> Pair:
    """Return the members of ``x``, months, that move some member of ``a`` into ``z``."""
    out = preimage(lambda n: shifted(a, (n, n), day)[0], lambda n: shifted(a, (n, n), day)[1], z, x)
    return shaved(out, lambda n: shifted_rev1(z, (n, n), a, day) != EMPTY, _WALK)
