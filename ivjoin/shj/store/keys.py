"""Map each distinct join key to one dense id, shared by both sides.

A key of one column with an ordinal (ints, floats, times, bools, short decimals) is one word. Several such columns, and
null-safe ones, form several words. Other keys, such as strings, are packed into bytes without ambiguity. Words or bytes
decide whether keys are equal. A hash alone never does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivjoin.shj import registers
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels.keys import byte_key_kernels, key_kernels, word_key_kernels
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import fresh, in_memory, resized
from ivjoin.shj.store.key_table import KeyTable

__all__ = ["ByteKeys", "IntKeys", "KeyTable", "NoKeys", "WordKeys", "pack"]

_NONE_U8 = np.empty(0, dtype=np.uint8)
_SPANS, _ARENA, _ARENA_ROOM, _REST = map(
    registers.words_of(registers.OPERATOR).__getitem__, ("spans", "arena", "arena_room", "rest")
)


class NoKeys(KeyTable):
    """A table for joins without keys: every row has id 0."""

    kind = registers.NO_KEY

    def __init__(self, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        super().__init__(operator, account)
        self.n_ids = 1

    def clear(self, account: Account) -> None:
        super().clear(account)
        self.n_ids = 1

    def reserve(self, n: int, slots: bool = True) -> None:
        pass

    def more(self, n: int, nbytes: int) -> int:
        return 0

    def sweep(self, n: int = 0, part: int = 4) -> bool:
        return False

    def ids(self, n: int, usable: np.ndarray | None) -> np.ndarray:
        if usable is None:
            return np.zeros(n, dtype=np.int64)
        return usable.astype(np.int64) - 1


class IntKeys(KeyTable):
    kind = registers.INT

    def keys_of(self, key_ids: np.ndarray) -> np.ndarray:
        return self.slots.view(np.int64).reshape(-1).take(4 * key_ids.astype(np.int64) + key_kernels.KEY_WORD)

    @property
    def keys_at(self) -> int:
        return address(self.slots) + 8 * key_kernels.KEY_WORD

    def ids(self, keys: np.ndarray, usable: np.ndarray | None) -> np.ndarray:
        """Return the id of each key : int64[n], or -1 where ``usable`` is False."""
        out = np.empty(len(keys), dtype=np.int64)
        for cut in self._pieces(len(keys)):
            some = keys[cut]
            self.reserve(len(some))
            mask = _NONE_U8 if usable is None else usable[cut].view(np.uint8)
            self.point()
            places = np.empty(len(some), dtype=np.int64)
            key_kernels.intern_ints(self.operator_address, some, mask, out[cut], places)
        return out


class WordKeys(IntKeys):
    """Keys of several words. The slots have a hash of all words, and a second array has all words except the last."""

    kind = registers.INTS

    def __init__(self, words: int, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        super().__init__(operator, account)
        self._others = words - 1
        self._id_bytes = 32 + 8 * self._others
        self._rest = np.zeros(self._others * len(self.slots), dtype=np.int64)

    def point(self) -> None:
        super().point()
        self._registers[_REST] = address(self._rest)

    @property
    def nbytes(self) -> int:
        return super().nbytes + in_memory(self._rest)

    def ids(self, keys: np.ndarray, usable: np.ndarray | None) -> np.ndarray:
        """Return the id of each key, given as words : int64[words, n], or -1 where ``usable`` is False."""
        n = keys.shape[1]
        self.reserve(n)
        out = np.empty(n, dtype=np.int64)
        mask = _NONE_U8 if usable is None else usable.view(np.uint8)
        rows = np.repeat(np.arange(self._others + 1), 3)  # a KEY_WORD table; the kernel reads only its row
        self.point()
        word_key_kernels.intern_words(self.operator_address, keys, rows, mask, out, np.empty(n, dtype=np.int64))
        return out

    def _grow_ids(self, cap: int) -> None:
        n = min(self._others * cap, len(self._rest))
        self._rest = resized(self._rest, self._others * cap, n)
        self._rest[n:] = 0


class ByteKeys(KeyTable):
    """Keys that are byte strings, each stored once in an arena."""

    kind = registers.GIVEN
    _id_bytes = 48

    _top = registers.Register(registers.OPERATOR, "arena_top")

    def __init__(self, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        super().__init__(operator, account)
        self._spans = np.zeros(32, dtype=np.int64)
        self._arena = np.empty(256, dtype=np.uint8)
        self._top = 0

    def clear(self, account: Account) -> None:
        super().clear(account)
        self._top = 0

    def point(self) -> None:
        super().point()
        r = self._registers
        r[_SPANS], r[_ARENA], r[_ARENA_ROOM] = address(self._spans), address(self._arena), len(self._arena)

    def make_room(self, n: int, size: int, slots: bool = True) -> None:
        """Reserve capacity for n new keys of ``size`` bytes in total. ``slots`` is as in :meth:`reserve`."""
        self.reserve(n, slots)
        if self._top + size > len(self._arena):
            self._account.want(lambda: self._more_arena(size))  # `on_full` may rebuild the arena
            if (need := self._top + size) > len(self._arena):
                self._arena = resized(self._arena, need + need // 4, self._top)
                self.point()

    def _more_arena(self, size: int) -> int:
        """Return the bytes of memory that keys of ``size`` more bytes need, including temporary copies."""
        need, there = self._top + size, in_memory(self._arena)
        if not there or need <= len(self._arena):
            return 0
        return need + need // 4 - len(self._arena) + self._account.beyond(there)

    def more(self, n: int, nbytes: int) -> int:
        need = self._top + nbytes + 16 * n
        arena = need + need // 4 - len(self._arena) if need > len(self._arena) else 0
        return super().more(n, nbytes) + arena

    @property
    def nbytes(self) -> int:
        return super().nbytes + in_memory(self._spans) + in_memory(self._arena)

    def ids(self, keys: Bytes, usable: np.ndarray | None) -> np.ndarray:
        """Return the id of each packed key, or -1 where ``usable`` is False."""
        n = len(keys.offsets) - 1
        out = np.empty(n, dtype=np.int64)
        for cut in self._pieces(n):
            offsets = keys.offsets[cut.start : cut.stop + 1]
            rows = len(offsets) - 1
            self.make_room(rows, int(offsets[-1] - offsets[0]) + 8 * rows)
            mask = _NONE_U8 if usable is None else usable[cut].view(np.uint8)
            self.point()
            byte_key_kernels.intern_bytes(self.operator_address, offsets, address(keys.buffer), mask, out[cut])
        return out

    def _beside(self) -> tuple[np.ndarray, ...]:
        return (self._arena,)

    def piece_of(self, key_ids: np.ndarray, piece: int, pieces: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where a piece of each key begins, its length : int64[n] each, and the arena that contains it."""
        starts, sizes = self._spans.take(2 * key_ids), self._spans.take(2 * key_ids + 1)
        heads = self._arena[: len(self._arena) & ~3].view(np.int32)  # a key starts with the lengths of its pieces
        begins, ends = np.full(len(starts), 4 * (pieces - 1)), sizes
        if piece:
            begins = heads.take(starts // 4 + (pieces - 1 - piece)) + np.int64(4 * (pieces - piece))
        if piece < pieces - 1:
            ends = heads.take(starts // 4 + (pieces - 2 - piece)) + np.int64(4 * (pieces - 1 - piece))
        return starts + begins, ends - begins, self._arena

    def _grow_ids(self, cap: int) -> None:
        n = min(2 * cap, len(self._spans))
        self._spans = resized(self._spans, 2 * cap, n)
        self._spans[n:] = 0

    def _compact(self) -> None:
        sizes = self._spans[1 : 2 * self.n_ids : 2]
        used = (self.slots[: self.n_ids, [0, 3]] >= 0).any(axis=1)
        total = int((sizes[used] + 7 & ~7).sum())
        arena = fresh(self._arena, min(max(256, total + total // 4), len(self._arena)))
        self._top = 0
        if self.n_ids:
            self.point()
            byte_key_kernels.compact(self.operator_address, address(arena))
        self._arena = arena


def pack(pieces: Sequence[Bytes]) -> Bytes:
    """Join several pieces per row into one unambiguous byte string per row."""
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = whole.then(piece)
    return whole
