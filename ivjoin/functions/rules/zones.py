"""Bounds of local times and instants where the clock is set back or forward.

Local time does not rise with the instant: in autumn an hour occurs twice. Each function bounds the conversion at an
argument and at every later one (``low``) or earlier one (``high``), for the search of preimages. Away from changes of
the clock they are exact.
"""

from __future__ import annotations

import numpy as np

from ivjoin.expr.kernels.zones import Zone, zone_of

__all__ = ["Clock", "clock_of"]

_HOUR = 3600
# The offsets of a place differ by at most a day (Samoa and Alaska crossed the date line).
_REACH = 27
# Seconds beyond which the tables are not used, and the greatest offset.
_FAR = 1 << 62
_ANY = 24 * _HOUR


class Clock:
    """The conversions of one zone, in seconds since the epoch; ``fixed`` is an offset that never changes, or None."""

    __slots__ = ("_zone", "fixed")

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self.fixed = zone.fixed

    def _offsets(self, start: int, hours: int) -> tuple[int, int]:
        """Least and greatest offset in use, seen every hour from a second on."""
        if not -_FAR < start < _FAR:
            return -_ANY, _ANY
        found = self._zone.offsets(np.arange(start, start + hours * _HOUR + 1, _HOUR, dtype=np.int64))
        return int(found.min()), int(found.max())

    def local_low(self, second: int) -> int:
        """Return a lower bound of the local times from an instant on."""
        if self.fixed is not None:
            return second + self.fixed
        return second + self._offsets(second, _REACH)[0]

    def local_high(self, second: int) -> int:
        """Return an upper bound of the local times up to an instant."""
        if self.fixed is not None:
            return second + self.fixed
        return second + self._offsets(second - _REACH * _HOUR, _REACH)[1]

    def instant_low(self, local: int) -> int:
        """Return a lower bound of the instants of the local times from one on."""
        if self.fixed is not None:
            return local - self.fixed
        return local - self._offsets(local - _REACH * _HOUR, 2 * _REACH)[1]

    def instant_high(self, local: int) -> int:
        """Return an upper bound of the instants of the local times up to one."""
        if self.fixed is not None:
            return local - self.fixed
        return local - self._offsets(local - _REACH * _HOUR, 2 * _REACH)[0]


def clock_of(name: str | None) -> Clock:
    return Clock(zone_of(name))


