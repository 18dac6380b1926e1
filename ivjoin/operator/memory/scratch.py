"""Scratch memory for the batch of one push, which passes from push to push, of any operator.

Nothing reads it between two pushes, so an idle operator needs no scratch. A program may have many idle operators.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ivjoin.shj.kernels.memory import address_of as address
from ivjoin.shj.registers import OPERATOR, words_of

__all__ = ["Scratch", "borrowed", "give", "idle", "scratch_bytes"]

_MOST = 4  # most arrays that wait
# Scratch of fewer bytes stays with its operator; scratch of more bytes is freed.
_LEAST_BYTES, _MOST_BYTES = 1 << 13, 1 << 18
_SHARED_NUMBERS = 1 << 16  # operators share the numbers 0, 1, ... up to here; longer arrays are not cached
_BY_SOURCE = "values", "absent"
_ROW_BYTES = "marks", "usable", "matched"
_ROW_WORDS = "key_ids", "kept", "left", "chosen"
_OPERATOR = words_of(OPERATOR)
_PLACES = np.array([_OPERATOR[name] for name in (*_BY_SOURCE, *_ROW_BYTES, *_ROW_WORDS, "every", "room_rows")])
_numbers: dict[int, np.ndarray] = {}  # by length: lengths are powers of two, so there are few


def scratch_bytes(room: int, sources: int) -> int:
    """Return the bytes of scratch for batches of ``room`` rows."""
    return (9 * sources + (35 if room < _SHARED_NUMBERS else 43)) * room + 128


def _first_numbers(n: int) -> np.ndarray:
    """Return 0, 1, ... : int64[n], a shared array that is read-only."""
    found = _numbers.get(n)
    if found is None:
        found = np.arange(n)
        found.flags.writeable = False
        _numbers[n] = found
    return found


class Scratch:
    """Arrays for batches of up to ``room`` rows with up to ``sources`` sources.

    Attributes
    ----------
    arrays : dict of str to np.ndarray
        By the name of the register that points to them.
    words : int64[n]
        The values of those registers; :meth:`point` writes them.
    goes_round : bool
        Whether the scratch is given back after each push: it is neither small enough to stay with its operator, nor
        too large to wait for another push.
    """

    __slots__ = ("__weakref__", "arrays", "goes_round", "nbytes", "room", "sources", "words")

    def __init__(self, room: int, sources: int) -> None:
        self.room, self.sources = room, sources
        arrays: dict[str, np.ndarray] = {
            "values": np.empty((sources, room), dtype=np.int64), "absent": np.zeros((sources, room), dtype=np.uint8)
        }
        for name in _ROW_BYTES:
            arrays[name] = np.zeros(room, dtype=np.uint8)
        for name in _ROW_WORDS:
            arrays[name] = np.empty(room + 1, dtype=np.int64)
        self.arrays = arrays
        self.nbytes = sum(a.nbytes for a in arrays.values())
        if room < _SHARED_NUMBERS:
            arrays["every"] = _first_numbers(room + 1)
        else:
            arrays["every"] = np.arange(room + 1)
            self.nbytes += arrays["every"].nbytes
        self.words = np.array([*(address(a) for a in arrays.values()), room])
        self.nbytes += self.words.nbytes
        self.goes_round = _LEAST_BYTES < self.nbytes <= _MOST_BYTES

    def point(self, operator: np.ndarray) -> None:
        """Write the addresses of the arrays to the registers of an operator."""
        operator[_PLACES] = self.words


idle: list[Scratch] = []  # a thread owns what it pops


def borrowed(room: int, sources: int) -> Scratch:
    """Return scratch of at least this size, exclusively until :func:`give`."""
    if _LEAST_BYTES < scratch_bytes(room, sources) <= _MOST_BYTES:
        with suppress(IndexError):
            for _ in range(_MOST):
                found = idle.pop()
                if found.room >= room and found.sources >= sources:
                    return found
                rows, each = max(room, found.room), max(sources, found.sources)
                if scratch_bytes(rows, each) <= _MOST_BYTES:
                    return Scratch(rows, each)  # large enough for both
                if len(idle) < _MOST - 1:  # otherwise it is freed
                    idle.insert(0, found)
    return Scratch(room, sources)


def give(scratch: Scratch) -> None:
    """Give scratch back for the next push."""
    if len(idle) < _MOST:
        idle.append(scratch)
