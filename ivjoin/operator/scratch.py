"""Scratch for the batch of one push and its pairs: held while it goes on, and lent to the next push, of any operator.

Between two pushes nothing in it is read, so operators that wait, and a program may have many, hold none.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ivjoin.shj.kernels.memory import address_of as address
from ivjoin.shj.registers import OPERATOR, words_of

__all__ = ["Scratch", "borrowed", "give", "give_pairs", "idle", "pair_room", "scratch_bytes"]

_MOST = 4  # that wait
_LEAST_BYTES, _MOST_BYTES = 1 << 13, 1 << 18  # of those that are given back
_SHARED_NUMBERS = 1 << 16  # 0, 1, ... up to here all share, and no more of it is kept for good
_BY_SOURCE = "values", "absent"
_ROW_BYTES = "marks", "usable", "matched"
_ROW_WORDS = "key_ids", "kept", "left", "chosen"
_OPERATOR = words_of(OPERATOR)
_PLACES = np.array([_OPERATOR[name] for name in (*_BY_SOURCE, *_ROW_BYTES, *_ROW_WORDS, "every", "room_rows")])
_numbers: dict[int, np.ndarray] = {}  # by their length: rooms are powers of two, so these are few


def scratch_bytes(room: int, sources: int) -> int:
    """Bytes of scratch for batches of so many rows."""
    return (9 * sources + (35 if room < _SHARED_NUMBERS else 43)) * room + 128


def _first_numbers(n: int) -> np.ndarray:
    """0, 1, ... : int64[n], which all share and none writes to."""
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
        What those registers hold; :meth:`point` writes them.
    goes_round : bool
        Whether it is given back after each push: neither so small that it may stay with its operator, nor so large
        that it should not wait for another.
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
        """Tell an operator's registers, words, where it is."""
        operator[_PLACES] = self.words


Pairs = tuple[np.ndarray, np.ndarray]  # rows and places, int64[n] each
idle_pairs: list[Pairs] = []


def pair_room(n: int) -> Pairs:
    """Scratch for n pairs, which nobody else uses until it is given back (:func:`give_pairs`)."""
    with suppress(IndexError):
        for _ in range(_MOST):
            found = idle_pairs.pop()
            if len(found[0]) == n:
                return found
            if len(idle_pairs) < _MOST - 1:  # else it makes way
                idle_pairs.insert(0, found)
    return np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)


def give_pairs(rows: np.ndarray, places: np.ndarray) -> None:
    """Let the next push have it."""
    if len(idle_pairs) < _MOST:
        idle_pairs.append((rows, places))


idle: list[Scratch] = []  # what waits for a push; of whoever pops it


def borrowed(room: int, sources: int) -> Scratch:
    """Scratch of that size or larger, which nobody else uses until it is given back (:func:`give`)."""
    if _LEAST_BYTES < scratch_bytes(room, sources) <= _MOST_BYTES:
        with suppress(IndexError):
            for _ in range(_MOST):
                found = idle.pop()
                if found.room >= room and found.sources >= sources:
                    return found
                rows, each = max(room, found.room), max(sources, found.sources)
                if scratch_bytes(rows, each) <= _MOST_BYTES:
                    return Scratch(rows, each)  # of use to both
                if len(idle) < _MOST - 1:  # else it makes way
                    idle.insert(0, found)
    return Scratch(room, sources)


def give(scratch: Scratch) -> None:
    """Let the next push have it."""
    if len(idle) < _MOST:
        idle.append(scratch)
