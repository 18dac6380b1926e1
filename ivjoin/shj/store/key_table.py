"""What every key table does: slots and places of the ids, room for more of them, and those of no row taken back.

Ids of keys that no stored row uses any more are taken back when the table is rebuilt, so its size follows the live
keys, not the keys ever seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ivjoin.errors import CapacityError, MemoryLimitError
from ivjoin.shj import registers
from ivjoin.shj.kernels import key_kernels
from ivjoin.shj.kernels.index_kernels import KEY, LIVE
from ivjoin.shj.kernels.memory import address_of as address
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.backing import extended, fresh, in_memory, moving
from ivjoin.shj.store.sizes import TIGHT

if TYPE_CHECKING:
    from ivjoin.shj.store.side import SideStore

__all__ = ["KeyTable", "longer"]

_ROWS = 1 << 16  # looked at, at once
_MUCH = 1.25  # times the slots that are needed, where keys are numbered anew
_MOST_KEYS = 2**30  # ids are int32, and so are the table's entries
_SLOTS, _SLOTS_SIZE, _TABLE, _TABLE_SIZE = map(
    registers.words_of(registers.OPERATOR).__getitem__, ("slots", "slots_size", "table", "table_size")
)
_EMPTY_SLOTS = np.full((16, 8), -1, dtype=np.int32)


def _table_size(entries: int) -> int:
    """Places of a hash table that is at most half full: each step beyond a key's first place is a branch gone wrong."""
    return max(64, 1 << (2 * entries - 1).bit_length())


def _too_many(keys: int) -> CapacityError:
    return CapacityError(
        f"{keys:,} keys at once, expected {_MOST_KEYS:,} at most: narrow the window, or divide the rows"
    )


def longer(array: np.ndarray, n: int, used: int) -> np.ndarray:
    """Room for n rows, with the first ones as they are; the rest holds anything."""
    made = extended(array, n) if n > len(array) else None
    if made is None:
        made = fresh(array, (n, *array.shape[1:]))
        made[:used] = array[:used]
    return made


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
    _stirred = registers.Register(registers.OPERATOR, "stirred")

    def __init__(self, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        self._account = account or Account()
        self._operator = registers.blank(registers.OPERATOR, 1) if operator is None else operator
        self._registers = registers.as_words(self._operator)
        self.slots = _EMPTY_SLOTS.copy()
        self._cell = np.zeros(3, dtype=np.int64)
        self.n_ids = 0
        self.live = 0
        self._free = -1
        self._n_free = self._stirred = 0
        self._table = np.zeros(64, dtype=np.int32)

    @property
    def used(self) -> int:
        """Ids of keys, those that no row has any more among them until they are swept."""
        return self.n_ids - self._n_free

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

    def clear(self, account: Account) -> None:
        """Begin anew in the same memory, as if no key had ever been seen, for whose account this is."""
        self._account = account
        self.slots[: self.n_ids] = -1  # no row has a key beyond
        self._table[:] = 0
        self.n_ids, self.live, self._free, self._n_free, self._stirred = 0, 0, -1, 0, 0

    def reserve(self, n: int, slots: bool = True) -> None:
        """Make room for n new keys, if there is none; or without slots, which :meth:`grow` is to make.

        No id may be in flight.
        """
        used = self.n_ids - self._n_free
        if 2 * (used + n) > len(self._table) or (slots and self.n_ids + max(0, n - self._n_free) > len(self.slots)):
            if many := used > self._many():
                self._sweep(n)
            self._room(n, many, slots)

    def _room(self, n: int, ahead: bool, slots: bool) -> None:
        """Slots and places of the table for n keys more; ``ahead``: with room for what comes until kernels sweep."""

        def sizes() -> tuple[int, int]:
            need, entries = self._needs(n, ahead)
            return self._sizes(need if slots else 0, entries)

        need, _ = self._needs(n, ahead)
        if need > _MOST_KEYS:
            raise _too_many(need)
        self._account.want(lambda: self._more(*sizes()))  # who is asked may number ids anew
        self._resize(*sizes())

    def grow(self, n: int, rows: int) -> None:
        """More room while ids are in flight: some of that which the last n of a batch's ``rows`` may need.

        For twice as many ids as there are, if there are as many rows; else for a quarter more, as most rows bring no
        new key.
        """
        some = max(key_kernels.SOME_ROOM, rows // 4)
        more = min(n, max(some, self.n_ids if n >= self.n_ids else self.n_ids // 4))
        need, entries = self.n_ids + max(0, more - self._n_free), self.used + more
        if need > _MOST_KEYS:
            raise _too_many(need)
        size = len(self._table)
        self._resize(max(need, len(self.slots)), size if 2 * entries <= size else _table_size(entries))

    def _resize(self, cap: int, size: int) -> None:
        """So many slots, and places of the table, where there are fewer."""
        if self._account.files is not None:
            more = (cap - len(self.slots)) * self._id_bytes if self._is_filed() else 0
            self._account.want_disk(more + (0 if in_memory(self._table) else 4 * size))
        try:
            if cap > len(self.slots):
                self._grow_ids(cap)  # first: where slots fail, these have more room than they need
                slots = longer(self.slots, cap, self.n_ids)
                slots[self.n_ids :] = -1
                self.slots = slots
            if size > len(self._table):
                old, self._table = self._table, fresh(self._table, size)
                self._table[:] = 0
                if self.n_ids:
                    self._regrow(old)
        finally:  # what has moved by then lies elsewhere, whatever came in between
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
        if self.n_ids + new > len(self.slots) and self._is_filed():
            more = (new + self._slack()) * self._id_bytes
        if 2 * (used + n) > len(self._table) and not in_memory(self._table):
            more += 4 * _table_size(used + n + self._slack())
        return more

    def _is_filed(self) -> bool:
        """Whether some of what each id has lies in a file."""
        return not all(map(in_memory, (self.slots, *self._beside())))

    def more(self, n: int, nbytes: int) -> int:
        """Bytes that n new keys take, of so many bytes together, if no id is taken back."""
        return self._more(*self._sizes(self.n_ids + max(0, n - self._n_free), self.n_ids - self._n_free + n))

    def _sizes(self, need: int, entries: int) -> tuple[int, int]:
        """How many slots there are to be for so many ids, and how many places of the table for so many entries.

        Where memory is short, few more than that.
        """
        cap, size = self._with_slack(need, entries, self._slack())
        if in_memory(self.slots) and self._account.fits(self._more(cap, size)):
            return cap, size
        return self._with_slack(need, entries, min(self._slack(), self.n_ids // TIGHT))

    def _with_slack(self, need: int, entries: int, slack: int) -> tuple[int, int]:
        """The same with room for so many ids more."""
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
        self.take_back(n)
        return True

    def take_back(self, n: int) -> None:
        """Take back all ids that no row uses, however few; as of :meth:`sweep`."""
        with suppress(MemoryLimitError):
            self._sweep(n)  # a disk without room for the smaller table: later, then

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
        with moving():
            self._swept(n, much)
        self.point()

    def has_many_rows(self, rows: int) -> bool:
        """Whether a key has many of so many rows: no room need be there before new ones are named."""
        return 2 * rows > key_kernels.MANY_ROWS * self.used

    def fit(self, rows: int) -> None:
        """Have room for little more than the keys there are, if each has many of so many rows. No id may be in flight.

        As the kernels ask for it (``has_spare_room``), where there is no limit: a table that is half full takes half as
        long again to find an id in, which is nothing beside the rows that it leads to.
        """
        if self._account.files is not None or rows <= key_kernels.MANY_ROWS * self.live:
            return
        self._take_back()
        cap = self.n_ids + key_kernels.SOME_ROOM
        if cap < len(self.slots):
            self._shorten(cap)
        self._remake(max(key_kernels.SOME_PLACES, _table_size(self.used + key_kernels.SOME_ROOM)))
        self.point()

    def _take_back(self) -> None:
        if self.live:
            self._took(key_kernels.take_back(self.slots, self.n_ids, self.live, self._cell))
        else:  # as after the last row: no kernel need be there for that
            self.n_ids, self._n_free, self._free = 0, 0, -1

    def _swept(self, n: int, much: float) -> None:
        self._take_back()
        cap = self.n_ids + max(0, n - self._n_free) + self.n_ids // 8 + 16
        if cap * much <= len(self.slots):
            self._shorten(cap)
        # The kernels ask for a sweep when there are more than these, without the last batch.
        self._remake(_table_size(self._many() + 2 * n))

    def _shorten(self, cap: int) -> None:
        """No more slots than these."""
        slots = extended(self.slots, cap)
        if slots is None:
            slots = fresh(self.slots, (cap, 8))
            slots[:] = self.slots[:cap]
        self.slots = slots
        self._grow_ids(cap)

    def _remake(self, size: int) -> None:
        """A table of the keys that rows have, of no more places than these."""
        self._table = fresh(self._table, min(size, len(self._table)))
        self._table[:] = 0
        if self.n_ids:
            self._rehash()
        else:
            self._forget()

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
