"""Time zones as tables, to convert whole arrays of seconds.

The transitions of a zone are read from its TZif file (RFC 8536), because ``zoneinfo`` converts one datetime at a time.
The yearly rule after the last transition is expanded to a table of 400 years, which is one cycle of the calendar.

A local time that the clocks skip moves forward by the length of the gap. A local time that occurs twice is the earlier
instant, unless the caller prefers an offset that is valid there. java.time has the same rules.
"""

from __future__ import annotations

import datetime as dt
import struct
import zoneinfo
from functools import lru_cache
from pathlib import Path

import numpy as np

from ivjoin.expr.literals import zone_named
from ivjoin.expr.types import DAY

__all__ = ["Zone", "is_fixed", "zone_of"]

_CYCLE = 146_097 * DAY  # seconds in 400 Gregorian years, a whole number of weeks


class Zone:
    """The offsets of a time zone, in seconds east of UTC.

    ``first`` is the offset before the first transition. ``at`` (int64[k]) are the transitions in ascending seconds
    since the epoch. ``offset`` (int64[k]) is valid from each transition on. After the last transition, the rule of
    ``yearly`` repeats every 400 years.
    """

    def __init__(self, first: int, at: np.ndarray, offset: np.ndarray, yearly: zoneinfo.ZoneInfo | None = None) -> None:
        self._before = np.concatenate((np.array([first], dtype=np.int64), offset))
        self._at = at
        self._yearly = yearly
        self._last = int(at[-1]) if len(at) else -(1 << 62)
        self._tail: Zone | None = None
        self.fixed = int(first) if not len(at) and yearly is None else None
        # The offset before a transition is valid up to this local time, which is the end of a gap, or the end of a time
        # that occurs twice. If transitions are close together, these times are made ascending.
        steps = np.maximum(self._before[:-1], self._before[1:])
        self._until = np.maximum.accumulate(at + steps) if len(at) else at

    @property
    def is_utc(self) -> bool:
        return self.fixed == 0

    def offsets(self, seconds: np.ndarray) -> np.ndarray:
        """Return the offsets (int64[n] seconds east of UTC) at instants (int64[n] seconds since the epoch)."""
        if self.fixed is not None:
            return np.full(len(seconds), self.fixed, dtype=np.int64)
        out = self._between(self._at, seconds)
        if self._yearly is not None:
            late = seconds >= self._last
            if np.count_nonzero(late):
                turned = self._last + (seconds[late] - self._last) % _CYCLE
                out[late] = self._beyond().offsets(turned)
        return out

    def _between(self, changes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the offset that is valid at each x. Each entry of ``changes`` starts the next offset."""
        if len(x):
            # If a batch does not contain a change, as usual, two searches are enough for all rows.
            low, high = changes.searchsorted((x.min(), x.max()), side="right")
            if low == high:
                return np.full(len(x), self._before[low])
        return self._before[changes.searchsorted(x, side="right")]

    def local(self, seconds: np.ndarray) -> np.ndarray:
        """Return the local times of instants."""
        return seconds + self.offsets(seconds)

    def instants(self, local: np.ndarray, preferred: np.ndarray | None = None) -> np.ndarray:
        """Return the instants of local times as int64 seconds since the epoch.

        If a ``preferred`` offset is valid at a local time, it is used.
        """
        if self.fixed is not None:
            return local - self.fixed
        out = local - self._between(self._until, local)
        if self._yearly is not None:
            late = local >= self._last + 2 * DAY
            if np.count_nonzero(late):
                rest = local[late]
                turned = self._last + (rest - self._last) % _CYCLE
                # The table is longer than a cycle, so it is also correct shortly after the end of the cycle.
                out[late] = self._beyond().instants(turned) + (rest - turned)
        if preferred is not None:
            kept = local - preferred
            out = np.where(self.offsets(kept) == preferred, kept, out)
        return out

    def _beyond(self) -> Zone:
        if self._tail is None:
            assert self._yearly is not None
            self._tail = _probed(self._yearly, self._last)
        return self._tail


def _probed(tz: zoneinfo.ZoneInfo, start: int) -> Zone:
    """Return the transitions of a yearly rule over one cycle and one year, beginning at ``start``."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

    def offset(second: int) -> int:
        found = (epoch + dt.timedelta(seconds=second)).astimezone(tz).utcoffset()
        assert found is not None
        return found.days * DAY + found.seconds

    # The two transitions of a year are weeks apart, so a probe every ten days finds both.
    step = 10 * DAY
    at, after = [], []
    low, before = start, offset(start)
    first = before
    while low < start + _CYCLE + 370 * DAY:
        high = low + step
        now = offset(high)
        if now != before:
            a, b = low, high
            while b - a > 1:
                middle = (a + b) // 2
                a, b = (middle, b) if offset(middle) == before else (a, middle)
            at.append(b)
            after.append(now)
        low, before = high, now
    return Zone(first, np.array(at, dtype=np.int64), np.array(after, dtype=np.int64))


@lru_cache(maxsize=128)
def zone_of(name: str | None) -> Zone:
    """Return the table of a named zone. None is UTC. An unknown name raises a ConditionError."""
    none = np.zeros(0, dtype=np.int64)
    tz = zone_named(name) if name else dt.UTC
    if isinstance(tz, zoneinfo.ZoneInfo):
        return _read(tz)
    found = tz.utcoffset(None)
    assert found is not None
    return Zone(found.days * DAY + found.seconds, none, none)


def is_fixed(name: str | None) -> bool:
    """Return whether the offset of a zone never changes, so that each local time is exactly one instant."""
    return zone_of(name).fixed is not None


def _octets(key: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        path = Path(folder, *key.split("/"))
        if path.is_file():
            return path.read_bytes()
    from importlib import resources

    *package, name = key.split("/")
    return resources.files(".".join(["tzdata.zoneinfo", *package])).joinpath(name).read_bytes()


def _read(tz: zoneinfo.ZoneInfo) -> Zone:
    octets = _octets(tz.key)
    version, counts = octets[4:5], struct.unpack(">6l", octets[20:44])
    width, code, start = 4, "l", 44
    if version >= b"2":
        # The second block contains the same data with 64-bit times.
        utc, std, leaps, times, kinds, chars = counts
        start = 44 + times * 5 + kinds * 6 + chars + leaps * 8 + std + utc
        counts = struct.unpack(">6l", octets[start + 20 : start + 44])
        width, code, start = 8, "q", start + 44
    utc, std, leaps, times, kinds, chars = counts
    at = np.array(struct.unpack(f">{times}{code}", octets[start : start + times * width]), dtype=np.int64)
    start += times * width
    which = octets[start : start + times]
    start += times
    offsets = [struct.unpack(">lbb", octets[start + 6 * i : start + 6 * i + 6])[0] for i in range(kinds)]
    start += 6 * kinds + chars + leaps * (width + 4) + std + utc
    rule = octets[start:].strip().decode() if version >= b"2" else ""
    offset = np.array([offsets[i] for i in which], dtype=np.int64)
    yearly = tz if "," in rule else None
    if not times and yearly is None:
        return Zone(offsets[0], at, offset)
    # Entries that change only the abbreviation are dropped.
    moves = np.concatenate(([offsets[0]], offset[:-1])) != offset if times else np.zeros(0, dtype=bool)
    if times:
        moves[-1] = True  # the yearly rule begins at this transition
    return Zone(offsets[0], at[moves], offset[moves], yearly)
