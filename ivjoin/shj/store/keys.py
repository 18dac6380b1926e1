"""The key table: one dense id per distinct join key, shared by both sides.

A key column with an ordinal (ints, floats, times, bools, short decimals) is its own key. Several of them, and null-safe
ones, are as many words. Everything else, strings and what stands beside them, is packed into bytes without ambiguity,
and equality of the words or bytes is equality of the key: ids are never decided by a hash alone. Ids of keys that no
stored row uses any more are taken back when the table is rebuilt, so its size follows the live keys, not the keys ever
seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ivjoin.errors import CapacityError, MemoryLimitError
from ivjoin.shj import registers
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels import key_kernels, word_key_kernels
from ivjoin.shj.kernels.index_kernels import KEY, LIVE
from ivjoin.shj.kernels.memory import address_of as address
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.backing import extended, fresh, in_memory

if TYPE_CHECKING:
    from ivjoin.shj.store.side import SideStore

__all__ = ["ByteKeys", "IntKeys", "KeyTable", "NoKeys", "WordKeys", "pack"]

_NONE_U8 = np.empty(0, dtype=np.uint8)
_ROWS = 1 << 16  # looked at, at once
_NEAR_ROWS = 1 << 12  # from which on it is asked whether keys are near each other
_I64_MAX = 2**63 - 1
_MUCH = 1.25  # times the slots that are needed, where keys are numbered anew
_MOST_KEYS = 2**30  # ids are int32, and so are the table's entries
_SLOTS, _SLOTS_SIZE, _TABLE, _TABLE_SIZE, _FREE, _SPANS, _ARENA, _ARENA_ROOM, _REST = map(
    registers.words_of(registers.OPERATOR).__getitem__,
    ("slots", "slots_size", "table", "table_size", "free", "spans", "arena", "arena_room", "rest"),
)


def _table_size(entries: int) -> int:
    """Places of a hash table that is at most half full: each step beyond a key's first place is a branch gone wrong."""
    return max(64, 1 << (2 * entries - 1).bit_length())


def _longer(array: np.ndarray, n: int, used: int) -> np.ndarray:
    """Room for n rows, with the first ones as they are; the rest holds anything."""
    longer = extended(array, n) if n > len(array) else None
    if longer is None:
        longer = fresh(array, (n, *array.shape[1:]))
        longer[:used] = array[:used]
    return longer


_EMPTY_SLOTS = np.full((16, 8), -1, dtype=np.int32)


class KeyTable:
    """Slots of the keys: heads, tails and fingers of both sides, and the key where it is a word.

    Attributes
    ----------
    slots : int32[n, 8]
        See ``index_kernels``. Ids without rows form a list, which begins with ``_free``.
    """

    kind: int  # as the kernels know it
    _id_bytes = 32  # of arrays with a place for each id

    n_ids = registers.Register(registers.OPERATOR, "n_ids")
    live = registers.Register(registers.OPERATOR, "live_keys")
    _n_free = registers.Register(registers.OPERATOR, "n_free")
    _free = registers.Register(registers.OPERATOR, "free")

    def __init__(self, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        self._account = account or Account()
        self._operator = registers.blank(registers.OPERATOR, 1) if operator is None else operator
        self._registers = registers.as_words(self._operator)
        self.slots = _EMPTY_SLOTS.copy()
        self._cell = np.zeros(1, dtype=np.int64)
        self.n_ids = 0
        self.live = 0
        self._free = -1
        self._n_free = 0
        self._table = np.zeros(64, dtype=np.int32)

    @property
    def operator_address(self) -> int:
        return address(self._operator)

    def point(self) -> None:
        """Tell the operator's registers where the arrays are."""
        r = self._registers
        r[_SLOTS], r[_SLOTS_SIZE] = address(self.slots), len(self.slots)
        r[_TABLE], r[_TABLE_SIZE] = address(self._table), len(self._table)

    @property
    def nbytes(self) -> int:
        return in_memory(self.slots) + in_memory(self._table) + self._cell.nbytes

    def reserve(self, n: int) -> None:
        """Make room for n new keys, if there is none. No id may be in flight."""
        used = self.n_ids - self._n_free
        if 2 * (used + n) > len(self._table) or self.n_ids + max(0, n - self._n_free) > len(self.slots):
            if many := used > self._many():
                self._sweep(n)
            self._room(n, many)

    def _room(self, n: int, ahead: bool) -> None:
        """Slots and places of the table for n keys more; ``ahead``: with room for what comes until kernels sweep."""
        need, _ = self._needs(n, ahead)
        if need > _MOST_KEYS:
            raise CapacityError(
                f"{need:,} keys at once, expected {_MOST_KEYS:,} at most: narrow the window, or divide the rows"
            )
        self._account.want(lambda: self._more(*self._sizes(*self._needs(n, ahead))))  # who is asked may number ids anew
        cap, size = self._sizes(*self._needs(n, ahead))
        if self._account.files is not None:
            more = 0 if in_memory(self.slots) else (cap - len(self.slots)) * self._id_bytes
            self._account.want_disk(more + (0 if in_memory(self._table) else 4 * size))
        if cap > len(self.slots):
            slots = _longer(self.slots, cap, self.n_ids)
            slots[self.n_ids :] = -1
            self.slots = slots
            self._grow_ids(cap)
        if size > len(self._table):
            old, self._table = self._table, fresh(self._table, size)
            self._table[:] = 0
            if self.n_ids:
                self._regrow(old)
        self.point()

    def _pieces(self, n: int) -> Iterator[slice]:
        """Cuts n rows whose keys are to be named, so that not each row needs room for a key.

        All at once where room may be made by taking ids back: those of the first pieces are in no row yet.
        """
        step = _ROWS if self.n_ids + n <= self._many() else max(n, 1)
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def _needs(self, n: int, ahead: bool) -> tuple[int, int]:
        """Ids and entries of the table with n keys more."""
        need = self.n_ids + max(0, n - self._n_free)
        entries = self._many() + 2 * n if ahead else self.n_ids - self._n_free + n
        return max(need, entries) if ahead else need, entries

    def more_pages(self, n: int) -> int:
        """Bytes by which mapped arrays grow with n new keys, at most, and those of a table that lies there twice."""
        used, new, more = self.n_ids - self._n_free, max(0, n - self._n_free), 0
        if self.n_ids + new > len(self.slots) and not in_memory(self.slots):
            more = (new + self._slack()) * self._id_bytes
        if 2 * (used + n) > len(self._table) and not in_memory(self._table):
            more += 4 * _table_size(used + n + self._slack())
        return more

    def more(self, n: int, nbytes: int) -> int:
        """Bytes that n new keys take, of so many bytes together, if no id is taken back."""
        return self._more(*self._sizes(self.n_ids + max(0, n - self._n_free), self.n_ids - self._n_free + n))

    def _sizes(self, need: int, entries: int) -> tuple[int, int]:
        """How many slots there are to be for so many ids, and how many places of the table for so many entries."""
        slack = self._slack()
        cap = need + slack if need > len(self.slots) else len(self.slots)
        return cap, _table_size(entries + slack) if 2 * entries > len(self._table) else len(self._table)

    def _slack(self) -> int:
        """How many more ids a table that grows has room for: as many as there are, of many an eighth."""
        return max(self.n_ids // 8, min(self.n_ids, key_kernels.SOME_KEYS // 2))

    def _more(self, cap: int, size: int) -> int:
        """Bytes that so many slots and places of the table take beyond those that there are."""
        slots, table = in_memory(self.slots), in_memory(self._table)
        more = (cap - len(self.slots)) * self._id_bytes if slots else 0
        return more + (4 * (size - len(self._table)) + self._account.beyond(table) if table else 0)

    def sweep(self, n: int = 0, part: int = 4) -> bool:
        """Take back the ids that no row uses, once they are many: a fourth of the others, or another part.

        Returns whether they were. No id may be in flight. ``n``: rows that a batch has, for whose keys there shall be
        room until the next sweep.
        """
        many = self.live + self.live // part + key_kernels.SOME_KEYS
        if self.n_ids - self._n_free <= many and max(len(self._table), len(self.slots)) <= 8 * (many + 2 * n):
            return False
        with suppress(MemoryLimitError):  # a disk without room for the smaller table: later, then
            self._sweep(n)
        return True

    def compact(self, stores: Sequence[SideStore]) -> None:
        """Number the keys of the stores' rows anew where few of many ids are in use. No id may be in flight."""
        if 3 * self.live <= self.n_ids and self.n_ids > self._many():
            self.renumber(stores)

    def spare(self, stores: Sequence[SideStore]) -> int:
        """Bytes that :meth:`renumber` would give back."""
        if any(store.runs is not None for store in stores):
            return 0
        cap = self.live + self.live // 8 + 16
        return (len(self.slots) - cap) * self._id_bytes if cap * _MUCH <= len(self.slots) else 0

    def renumber(self, stores: Sequence[SideStore]) -> None:
        """Number the keys of the stores' rows anew, without those that no row uses. No id may be in flight."""
        n = self.n_ids
        if any(store.runs is not None for store in stores):
            return
        used = np.asarray((self.slots[:n, [0, 3]] >= 0).any(axis=1))
        number = np.cumsum(used, dtype=np.int32) - np.int32(1)
        for store in stores:
            for start in range(store.lo, store.hi, _ROWS):
                ids = np.arange(start, min(start + _ROWS, store.hi))
                places = store.places(ids[store.flags(ids) & LIVE != 0])
                store.links[places, KEY] = number[store.links[places, KEY]]
        m = int(np.count_nonzero(used))
        arrays: list[tuple[np.ndarray, int]] = [(self.slots.reshape(-1), 8), *self._by_id()]
        for array, width in arrays:
            by_id, at = array[: n * width].reshape((n, width)), 0
            for start in range(0, n, _ROWS):
                kept = by_id[start : start + _ROWS][used[start : start + _ROWS]]
                by_id[at : at + len(kept)] = kept
                at += len(kept)
        self.slots[m:n] = -1
        self.n_ids, self._n_free, self._free = m, 0, -1
        with suppress(MemoryLimitError):
            self._sweep(0, _MUCH)
            return
        self._table[:] = 0
        self._rehash()
        self.point()

    def _by_id(self) -> tuple[tuple[np.ndarray, int], ...]:
        """Arrays beside the slots, and how many words of them each id has."""
        return ()

    def _many(self) -> int:
        """The most ids in use that are not worth a sweep, as the kernels see it."""
        return self.live + self.live // 4 + key_kernels.SOME_KEYS

    def _sweep(self, n: int, much: float = 2) -> None:
        """Take back ids, and make the table anew; the slots, too, where there are so many times what is needed."""
        if self._account.files is not None:
            filed = [a for a in (self.slots, self._table, *self._beside()) if not in_memory(a)]
            self._account.want_disk(sum(a.nbytes for a in filed))
        if self.live:
            self._took(key_kernels.take_back(self.slots, self.n_ids, self.live, self._cell))
        else:  # as after the last row: no kernel need be there for that
            self.n_ids, self._n_free, self._free = 0, 0, -1
        cap = self.n_ids + max(0, n - self._n_free) + self.n_ids // 8 + 16
        if cap * much <= len(self.slots):
            slots = extended(self.slots, cap)
            if slots is None:
                slots = fresh(self.slots, (cap, 8))
                slots[:] = self.slots[:cap]
            self.slots = slots
            self._grow_ids(cap)
        # The kernels ask for a sweep when there are more than these, without the last batch.
        size = _table_size(self._many() + 2 * n)
        self._table = fresh(self._table, min(size, len(self._table)))
        self._table[:] = 0
        if self.n_ids:
            self._rehash()
        else:
            self._forget()
        self.point()

    def _forget(self) -> None:
        """Let go of what is kept of keys, of which there is none."""

    def _beside(self) -> tuple[np.ndarray, ...]:
        """Arrays of the keys, where they lie apart, that a sweep makes anew."""
        return ()

    def _took(self, packed: int) -> None:
        """Take in what a kernel has returned of the ids, and left in the cell."""
        packed = int(packed)
        self.n_ids, self._n_free, self._free = packed >> 32, packed & 0xFFFFFFFF, int(self._cell[0])

    def _grow_ids(self, cap: int) -> None:
        """Room for so many ids in the arrays beside the slots."""

    def _regrow(self, old: np.ndarray) -> None:
        """Put all that stands in an old table into the new one. A probe batch's new keys are in no row yet."""
        raise NotImplementedError

    def _rehash(self) -> None:
        """Put the keys that rows use into the empty table."""
        raise NotImplementedError


class NoKeys(KeyTable):
    """A join without keys: every row has id 0."""

    kind = registers.NO_KEY

    def __init__(self, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        super().__init__(operator, account)
        self.n_ids = 1

    def reserve(self, n: int) -> None:
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
    """Keys that are one int64 each."""

    kind = registers.INT

    @property
    def words(self) -> np.ndarray:
        """The slots as words : int64[n, 4]."""
        return self.slots.view(np.int64)

    def keys_of(self, key_ids: np.ndarray) -> np.ndarray:
        """The keys of some ids."""
        return self.words.reshape(-1).take(4 * key_ids.astype(np.int64) + key_kernels.KEY_WORD)

    @property
    def keys_at(self) -> int:
        """Where the first id's key stands."""
        return address(self.slots) + 8 * key_kernels.KEY_WORD

    def ids(self, keys: np.ndarray, usable: np.ndarray | None) -> np.ndarray:
        """Id of each key : int64[n], -1 where ``usable`` is False."""
        n = len(keys)
        if n < _NEAR_ROWS:
            return self._named(keys, usable)
        there = keys if usable is None else keys[usable]
        least = int(there.min(initial=_I64_MAX))
        span = int(there.max(initial=least)) - least + 1
        if span > n:
            return self._named(keys, usable)
        # Keys so near each other are named once each, and the rows by their places.
        mask = _NONE_U8 if usable is None else usable.view(np.uint8)
        marks = np.zeros(span, dtype=np.uint8)
        key_kernels.mark_ints(keys, mask, least, marks)
        places = np.flatnonzero(marks)
        ids, out = np.empty(span, dtype=np.int64), np.empty(n, dtype=np.int64)
        ids[places] = self._named(places + least, None)
        key_kernels.number_ints(keys, mask, least, ids, out)
        return out

    def _named(self, keys: np.ndarray, usable: np.ndarray | None) -> np.ndarray:
        out = np.empty(len(keys), dtype=np.int64)
        for cut in self._pieces(len(keys)):
            some = keys[cut]
            self.reserve(len(some))
            mask = _NONE_U8 if usable is None else usable[cut].view(np.uint8)
            self._cell[0] = self._free
            self._took(
                key_kernels.intern_ints(
                    some, mask, self._table, self.slots, self.words, self._n_free, out[cut], self.n_ids, self._cell,
                    np.empty(len(some), dtype=np.int64), address(self._table), address(self.slots),
                )
            )
        return out

    def _regrow(self, old: np.ndarray) -> None:
        key_kernels.regrow_ints(old, self._table, self.words)

    def _rehash(self) -> None:
        key_kernels.rehash_ints(self._table, self.slots, self.words, self.n_ids)


class WordKeys(IntKeys):
    """Keys of several words: a word that all of them make stands in the slots, all but the last beside them."""

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
        """Id of each key, of words : int64[words, n], -1 where ``usable`` is False."""
        n = keys.shape[1]
        self.reserve(n)
        out = np.empty(n, dtype=np.int64)
        mask = _NONE_U8 if usable is None else usable.view(np.uint8)
        rows = np.repeat(np.arange(self._others + 1), 3)  # a table of KEY_WORD, of which only the row is read
        self._cell[0] = self._free
        self._took(
            word_key_kernels.intern_words(
                keys, rows, mask, self._table, self.slots, self.words, self._rest, self._n_free, out,
                self.n_ids, self._cell, np.empty(n, dtype=np.int64), address(self._table), address(self.slots),
            )
        )
        return out

    def _by_id(self) -> tuple[tuple[np.ndarray, int], ...]:
        return ((self._rest, self._others),) if self._others else ()

    def _grow_ids(self, cap: int) -> None:
        n = min(self._others * cap, len(self._rest))
        self._rest = _longer(self._rest, self._others * cap, n)
        self._rest[n:] = 0


class ByteKeys(KeyTable):
    """Keys that are byte strings, kept once each in an arena."""

    kind = registers.GIVEN
    _id_bytes = 48

    _top = registers.Register(registers.OPERATOR, "arena_top")

    def __init__(self, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        super().__init__(operator, account)
        self._spans = np.zeros(32, dtype=np.int64)
        self._arena = np.empty(256, dtype=np.uint8)
        self._top = 0

    def point(self) -> None:
        super().point()
        r = self._registers
        r[_SPANS], r[_ARENA], r[_ARENA_ROOM] = address(self._spans), address(self._arena), len(self._arena)

    def make_room(self, n: int, size: int) -> None:
        """Room for n new keys of so many bytes in all."""
        self.reserve(n)
        if self._top + size > len(self._arena):
            self._account.want(lambda: self._more_arena(size))  # what is asked may make the arena anew
            if (need := self._top + size) > len(self._arena):
                self._arena = _longer(self._arena, need + need // 4, self._top)
                self.point()

    def _more_arena(self, size: int) -> int:
        """Bytes of memory that so many bytes of keys more take, with those that are held twice meanwhile."""
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
        """Id of each packed key, -1 where ``usable`` is False."""
        n = len(keys.offsets) - 1
        out = np.empty(n, dtype=np.int64)
        for cut in self._pieces(n):
            offsets = keys.offsets[cut.start : cut.stop + 1]
            rows = len(offsets) - 1
            self.make_room(rows, int(offsets[-1] - offsets[0]) + 8 * rows)
            top = np.array([self._top], dtype=np.int64)
            mask = _NONE_U8 if usable is None else usable[cut].view(np.uint8)
            self._cell[0] = self._free
            self._took(
                key_kernels.intern_bytes(
                    offsets, keys.buffer, mask, self._table, self._spans, self._arena, self.slots, self._n_free,
                    out[cut], self.n_ids, top, self._cell,
                )
            )
            self._top = int(top[0])
        return out

    def _beside(self) -> tuple[np.ndarray, ...]:
        return (self._arena,)

    def _by_id(self) -> tuple[tuple[np.ndarray, int], ...]:
        return ((self._spans, 2),)

    def piece_of(self, key_ids: np.ndarray, piece: int, pieces: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where one of a key's pieces begins, its bytes : int64[n] each, and the arena in which it lies."""
        starts, sizes = self._spans.take(2 * key_ids), self._spans.take(2 * key_ids + 1)
        heads = self._arena[: len(self._arena) & ~3].view(np.int32)  # of a key: the lengths before its pieces
        begins, ends = np.full(len(starts), 4 * (pieces - 1)), sizes
        if piece:
            begins = heads.take(starts // 4 + (pieces - 1 - piece)) + np.int64(4 * (pieces - piece))
        if piece < pieces - 1:
            ends = heads.take(starts // 4 + (pieces - 2 - piece)) + np.int64(4 * (pieces - 1 - piece))
        return starts + begins, ends - begins, self._arena

    def _grow_ids(self, cap: int) -> None:
        n = min(2 * cap, len(self._spans))
        self._spans = _longer(self._spans, 2 * cap, n)
        self._spans[n:] = 0

    def _regrow(self, old: np.ndarray) -> None:
        key_kernels.regrow_bytes(self._spans, self._arena, old, self._table)

    def _forget(self) -> None:
        self._arena, self._top = fresh(self._arena, min(256, len(self._arena))), 0

    def _rehash(self) -> None:
        sizes = self._spans[1 : 2 * self.n_ids : 2]
        used = (self.slots[: self.n_ids, [0, 3]] >= 0).any(axis=1)
        total = int((sizes[used] + 7 & ~7).sum())
        arena = fresh(self._arena, min(max(256, total + total // 4), len(self._arena)))
        self._top = key_kernels.rehash_bytes(self._table, self._spans, self._arena, arena, self.slots, self.n_ids)
        self._arena = arena


def pack(pieces: Sequence[Bytes]) -> Bytes:
    """Several pieces a row as one byte string a row, unambiguously."""
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = whole.then(piece)
    return whole
