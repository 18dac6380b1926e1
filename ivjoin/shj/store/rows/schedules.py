"""Allocate the schedules that find the rows below a bound: the registers of ``expiry_kernels`` and their heaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.kernels.push import expiry_kernels
from ivjoin.shj.kernels.push.upkeep_kernels import SOME_ENTRIES
from ivjoin.shj.registers import EXPIRY
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import in_memory, resized

__all__ = ["Schedules"]

I64_MIN = -(2**63)
_USED, _LAST, _BOUND = map(at.words_of(EXPIRY).__getitem__, ("used", "last", "bound"))


@cache
def _blank(axes: int) -> np.ndarray:
    words = np.zeros((axes, 2, at.words_in(EXPIRY)), dtype=np.int64)
    words[..., _LAST] = words[..., _BOUND] = I64_MIN
    return words


class Schedules:
    """The rising and falling schedule of each axis of a side, as ``table`` : EXPIRY[axes, 2] at ``address``."""

    def __init__(self, side: int, n_axes: int, account: Account) -> None:
        self._words = _blank(max(n_axes, 1)).copy()
        self.table = self._words.view(EXPIRY)[..., 0]
        self.address = address(self._words)
        self._side = side
        self._account = account
        self._heaps: dict[tuple[int, int], np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + sum(in_memory(h) for h in [*self._heaps.values()])

    def used(self) -> Iterator[tuple[int, int]]:
        for axis, kept in enumerate(self.table["used"].tolist()):
            for falling in (0, 1):
                if kept[falling]:
                    yield axis, falling

    def is_used(self, axis: int, falling: int) -> bool:
        return self._words.item(axis, falling, _USED) != 0

    def laden(self, live: int) -> Iterator[tuple[int, int]]:
        for axis, falling in np.argwhere(self.table["size"] > 2 * live + 1024):
            yield int(axis), int(falling)

    def start(self, axis: int, falling: int, operator: int, values: Callable[[int], np.ndarray] | None) -> bool:
        """Start a schedule if it fits the memory limit.

        Return whether it does. Without stored rows, pass None as ``values``.
        """
        d = self.table[axis, falling]
        if values is not None and not self._account.fits(16 * _behind(values(axis) ^ -falling)):
            return False
        d["used"] = 1
        if values is not None:  # without stored rows, avoid loading the kernel
            self.anew(axis, falling, operator, values(axis))
        return True

    def anew(self, axis: int, falling: int, operator: int, values: np.ndarray) -> None:
        """Rebuild a schedule from the stored rows, which have these values."""
        behind, room = _behind(values ^ -falling), int(self.table[axis, falling]["room"])
        if behind > room or (room > 8 * behind + SOME_ENTRIES and in_memory(self._heaps[axis, falling])):
            self._room(axis, falling, behind)
        expiry_kernels.reschedule(operator, self._side, axis, falling)

    def empty(self, first: int) -> None:
        """Reset all schedules when no row is stored. ``first`` is the id of the next row."""
        table = self.table
        table["last"], table["size"], table["cursor"] = I64_MIN, 0, first

    def clear(self, account: Account) -> None:
        """Stop all schedules, as in the initial state, for another account."""
        self._account = account
        heaps = self._heaps
        self._words[...] = _blank(len(self._words))
        for key, heap in heaps.items():
            self.place(key, heap)
            self.table[key]["room"] = len(heap)

    def make_room(self, n: int) -> None:
        """Reserve capacity for n out-of-order rows in every schedule, in one request."""
        wanted = []
        for axis, falling in self.used():
            d = self.table[axis, falling]
            size = int(d["size"])
            if size + n > d["room"]:
                wanted.append((axis, falling, size + n + (size >> 1)))
        if wanted:
            self._account.want(lambda: sum(self._more(*heap) for heap in wanted))
            for heap in wanted:
                self._room(*heap)

    def fit(self, n: int) -> bool:
        """Shrink heaps that are much too large even with n more rows. Return whether any heap was shrunk."""
        given = False
        for axis, falling in self.used():
            d = self.table[axis, falling]
            need = int(d["size"]) + n
            if d["room"] > 8 * need + SOME_ENTRIES and in_memory(self._heaps[axis, falling]):
                self._room(axis, falling, 2 * need)
                given = True
        return given

    def heaps(self) -> list[tuple[tuple[int, int], np.ndarray]]:
        return list(self._heaps.items())

    def place(self, key: tuple[int, int], heap: np.ndarray) -> None:
        self._heaps[key] = heap
        self.table[key]["heap"] = address(heap)

    def _more(self, axis: int, falling: int, room: int) -> int:
        old = self._heaps.get((axis, falling))
        if old is not None and not in_memory(old):
            return 0
        return 16 * (room - int(self.table[axis, falling]["room"]))

    def _room(self, axis: int, falling: int, room: int) -> None:
        d = self.table[axis, falling]
        old = self._heaps.get((axis, falling))
        used = min(int(d["size"]), room)
        heap = np.empty((room, 2), dtype=np.int64) if old is None else resized(old, room, used)
        self._heaps[axis, falling] = heap
        d["heap"], d["room"] = address(heap), room


def _behind(values: np.ndarray) -> int:
    """Return how many values follow a greater one."""
    return int(np.count_nonzero(values[1:] < np.maximum.accumulate(values)[:-1])) if len(values) else 0
