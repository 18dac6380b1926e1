"""Provide scratch memory for the batch of one push. Later pushes of any operator reuse it.

It is not read between two pushes, so an idle operator needs no scratch. A program may have many idle operators.
"""

from __future__ import annotations

from itertools import count

import numpy as np

from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.registers import OPERATOR, words_of

__all__ = ["Scratch", "borrowed", "give", "idle", "scratch_bytes"]

_MOST, _MOST_BYTES = 4, 1 << 18  # greatest number of cached arrays, and bytes of each; an operator retains larger ones
_ROW_BYTES = "marks", "usable", "matched"
_ROW_WORDS = "key_ids", "kept", "alone", "chosen"
_OPERATOR = words_of(OPERATOR)
_PLACES = np.array([_OPERATOR[n] for n in ("values", "absent", "every", *_ROW_BYTES, *_ROW_WORDS, "room_rows")])
_numbers = count(1)


def scratch_bytes(room: int, sources: int) -> int:
    return (9 * sources + 43) * room + 128


class Scratch:
    """Arrays for batches of up to ``room`` rows with up to ``sources`` sources."""

    __slots__ = ("_words", "arrays", "nbytes", "number", "room", "sources")

    def __init__(self, room: int, sources: int) -> None:
        self.room, self.sources, self.number = room, sources, next(_numbers)  # each scratch has a unique number
        self.arrays: dict[str, np.ndarray] = {
            "values": np.empty((sources, room), dtype=np.int64), "absent": np.zeros((sources, room), dtype=np.uint8),
            "every": np.arange(room + 1), **{name: np.zeros(room, dtype=np.uint8) for name in _ROW_BYTES},
            **{name: np.empty(room + 1, dtype=np.int64) for name in _ROW_WORDS},
        }
        self._words = np.array([*map(address, self.arrays.values()), room])
        self.nbytes = sum(a.nbytes for a in self.arrays.values()) + self._words.nbytes

    def point(self, operator: np.ndarray) -> None:
        operator[_PLACES] = self._words


idle: list[Scratch] = []  # a thread owns the scratch that it pops


def borrowed(room: int, sources: int) -> Scratch:
    """Return scratch of at least this size for exclusive use until :func:`give`."""
    try:
        found = idle.pop()
    except IndexError:
        return Scratch(room, sources)
    if found.room >= room and found.sources >= sources:
        return found
    rows, each = max(room, found.room), max(sources, found.sources)  # large enough for both requests
    return Scratch(rows, each) if scratch_bytes(rows, each) <= _MOST_BYTES else Scratch(room, sources)


def give(scratch: Scratch) -> bool:
    """Return scratch for the next push. If it is too large, return False, and the operator frees it itself."""
    if scratch.nbytes > _MOST_BYTES:
        return False
    if len(idle) < _MOST:
        idle.append(scratch)
    return True
