"""Bounds of local times and instants near changes of a zone's offset.

Local time does not always rise with the instant: in autumn, an hour occurs twice. The ``low`` functions bound the
conversion of an argument and of all later ones from below. The ``high`` functions bound the conversion of an argument
and of all earlier ones from above. The bounds are exact if no change of the offset is near.
"""

from __future__ import annotations

import numpy as np

from ivjoin.expr.kernels.zones import Zone, zone_of

__all__ = ["Clock", "clock_of"]

_HOUR = 3600
# Hours to search. The offsets of a place differ by at most a day (Samoa and Alaska crossed the date line).
_REACH = 27
# The tables are used only up to _FAR seconds from the epoch. Beyond it, the offset is at most _ANY.
_FAR = 1 << 62
_ANY = 24 * _HOUR


class Clock:
    """The conversions of one zone, in seconds since the epoch. ``fixed`` is the offset if it never changes, or None."""

    __slots__ = ("_zone", "fixed")

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self.fixed = zone.fixed

    def _offsets(self, start: int, hours: int) -> tuple[int, int]:
        """Return the least and greatest offset, sampled every hour from ``start``."""
        if not -_FAR < start < _FAR:
            return -_ANY, _ANY
        found = self._zone.offsets(np.arange(start, start + hours * _HOUR + 1, _HOUR, dtype=np.int64))
        return int(found.min()), int(found.max())

    def local_low(self, second: int) -> int:
        """Return a lower bound of the local times at and after an instant."""
        if self.fixed is not None:
            return second + self.fixed
        return second + self._offsets(second, _REACH)[0]

    def local_high(self, second: int) -> int:
        """Return an upper bound of the local times at and before an instant."""
        if self.fixed is not None:
            return second + self.fixed
        return second + self._offsets(second - _REACH * _HOUR, _REACH)[1]

    def instant_low(self, local: int) -> int:
        """Return a lower bound of the instants of a local time and all later ones."""
        if self.fixed is not None:
            return local - self.fixed
        return local - self._offsets(local - _REACH * _HOUR, 2 * _REACH)[1]

    def instant_high(self, local: int) -> int:
        """Return an upper bound of the instants of a local time and all earlier ones."""
        if self.fixed is not None:
            return local - self.fixed
        return local - self._offsets(local - _REACH * _HOUR, 2 * _REACH)[0]


def clock_of(name: str | None) -> Clock:
    return Clock(zone_of(name))


