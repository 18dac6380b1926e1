"""Store slots and hash table entries of the key ids, grow them, and reuse ids.

Rebuilding the table frees the ids of keys without stored rows, so its size follows the number of live keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from ivjoin.errors import CapacityError, MemoryLimitError
from ivjoin.shj import registers
from ivjoin.shj.kernels.keys import key_kernels
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import fresh, in_memory, moving, resized
from ivjoin.shj.store.sizes import TIGHT

__all__ = ["KeyTable"]

_ROWS = 1 << 16  # rows that get ids at once
_MOST_KEYS = 2**30  # ids and the table's entries are int32
_SLOTS, _SLOTS_SIZE, _TABLE, _TABLE_SIZE, _KEY_KIND = map(
    registers.words_of(registers.OPERATOR).__getitem__, ("slots", "slots_size", "table", "table_size", "key_kind")
)
_EMPTY_SLOTS = np.full((16, 8), -1, dtype=np.int32)


def _table_size(entries: int) -> int:
    """Return the size of a hash table that is at most half full. Longer probe sequences mispredict branches."""
    return max(64, 1 << (2 * entries - 1).bit_length())


def _check(keys: int) -> None:
    if keys > _MOST_KEYS:
        much = f"the state needs {keys:,} keys at once; expected at most {_MOST_KEYS:,}"
        raise CapacityError(f"{much}. Narrow the window, or divide the rows")


class KeyTable:
    """Slots of the keys: heads, tails and fingers of both sides, and the key itself if it is one word.

    ``slots`` : int32[n, 8], see ``index_kernels``. Ids without rows form a linked list that begins with ``_free``.
    Methods that sweep or shrink free ids, so callers must not use earlier ids afterwards.
    """

    kind: int  # the constant of `registers` that identifies the class for kernels
    _id_bytes = 32  # bytes per id of all arrays that are indexed by id

    n_ids = registers.Register(registers.OPERATOR, "n_ids")
    live = registers.Register(registers.OPERATOR, "live_keys")
    _n_free = registers.Register(registers.OPERATOR, "n_free")
    _free = registers.Register(registers.OPERATOR, "free")
    _stirred = registers.Register(registers.OPERATOR, "stirred")

    def __init__(self, operator: np.ndarray | None = None, account: Account | None = None) -> None:
        self._account = account or Account()
        self._operator = registers.blank(registers.OPERATOR, 1) if operator is None else operator
        self._registers = registers.as_words(self._operator)
        self._registers[_KEY_KIND] = self.kind
        self.slots = _EMPTY_SLOTS.copy()
        self.n_ids = self.live = self._n_free = self._stirred = 0
        self._free = -1
        self._table = np.zeros(64, dtype=np.int32)

    @property
    def used(self) -> int:
        """Ids in use, including ids whose last row was removed since the last sweep."""
        return self.n_ids - self._n_free

    @property
    def operator_address(self) -> int:
        return address(self._operator)

    def point(self) -> None:
        r = self._registers
        r[_SLOTS], r[_SLOTS_SIZE] = address(self.slots), len(self.slots)
        r[_TABLE], r[_TABLE_SIZE] = address(self._table), len(self._table)

    @property
    def nbytes(self) -> int:
        return in_memory(self.slots) + in_memory(self._table)

    def clear(self, account: Account) -> None:
        """Reset to the initial state, with the same memory, for another account."""
        self._account = account
        self.slots[: self.n_ids] = -1  # the other slots are unused
        self._table[:] = 0
        self.n_ids = self.live = self._n_free = self._stirred = 0
        self._free = -1

    def reserve(self, n: int, slots: bool = True) -> None:
        """Reserve capacity for n new keys. This may sweep. Without ``slots``, only the table grows."""
        need, entries = self._needs(n)
        if 2 * entries > len(self._table) or (slots and need > len(self.slots)):
            if many := self.used > self._many():
                self._sweep(n)
            self._room(n, many, slots)

    def _room(self, n: int, ahead: bool, slots: bool) -> None:
        """Reserve capacity for n more keys. With ``ahead``, reserve as many as fit until kernels request a sweep."""

        def sizes() -> tuple[int, int]:
            need, entries = self._needs(n, ahead)
            return self._sizes(need if slots else 0, entries)

        _check(self._needs(n, ahead)[0])
        self._account.want(lambda: self._more(*sizes()))  # `on_full` may free ids
        self._resize(*sizes())

    def grow(self, n: int, rows: int) -> None:
        """Grow while a batch's ids are in use, by part of the ids that the last n of its ``rows`` rows may need.

        If n is at least the number of ids, the number of ids doubles. Otherwise it grows by a quarter.
        """
        some = max(key_kernels.SOME_ROOM, rows // 4)
        more = min(n, max(some, self.n_ids if n >= self.n_ids else self.n_ids // 4))
        need, entries = self._needs(more)
        _check(need)
        size = len(self._table)
        self._resize(max(need, len(self.slots)), size if 2 * entries <= size else _table_size(entries))

    def _resize(self, cap: int, size: int) -> None:
        if self._account.files is not None:
            filed = not all(map(in_memory, (self.slots, *self._beside())))
            more = cap * self._id_bytes if filed and cap > len(self.slots) else 0
            self._account.want_disk(more + (0 if in_memory(self._table) else 4 * size))
        try:
            if cap > len(self.slots):
                self._grow_ids(cap)  # do this first: if the slots then fail to grow, these arrays are merely too large
                slots = resized(self.slots, cap, self.n_ids)
                slots[self.n_ids :] = -1
                self.slots = slots
            if size > len(self._table):
                old, self._table = self._table, fresh(self._table, size)
                self._table[:] = 0
                if self.n_ids:
                    self.point()
                    key_kernels.regrow(self.operator_address, old)
        finally:  # some arrays may have moved before an error
            self.point()

    def _pieces(self, n: int) -> Iterator[slice]:
        """Cut n rows whose keys get ids into slices, so that capacity for one key per row is not needed at once.

        If a sweep is possible, return one slice, because a sweep would free ids that no stored row uses yet.
        """
        step = _ROWS if self.n_ids + n <= self._many() else max(n, 1)
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def _needs(self, n: int, ahead: bool = False) -> tuple[int, int]:
        """Return the number of ids, and of table entries, with n more keys."""
        need = self.n_ids + max(0, n - self._n_free)
        if not ahead:
            return need, self.used + n
        entries = self._many() + 2 * n
        return max(need, entries), entries

    def more(self, n: int, nbytes: int) -> int:
        """Return the bytes that n new keys of ``nbytes`` bytes in total need, if no id is reused."""
        return self._more(*self._sizes(*self._needs(n)))

    def _sizes(self, need: int, entries: int) -> tuple[int, int]:
        """Return the number of slots for ``need`` ids, and of table entries for ``entries`` keys."""
        slack = max(self.n_ids // 8, min(self.n_ids, key_kernels.SOME_KEYS // 2))  # an eighth for large tables
        cap, size = self._with_slack(need, entries, slack)
        if in_memory(self.slots) and self._account.fits(self._more(cap, size)):
            return cap, size
        return self._with_slack(need, entries, min(slack, self.n_ids // TIGHT))

    def _with_slack(self, need: int, entries: int, slack: int) -> tuple[int, int]:
        cap = need + slack if need > len(self.slots) else len(self.slots)
        return cap, _table_size(entries + slack) if 2 * entries > len(self._table) else len(self._table)

    def _more(self, cap: int, size: int) -> int:
        slots, table = in_memory(self.slots), in_memory(self._table)
        more = (cap - len(self.slots)) * self._id_bytes if slots else 0
        return more + (4 * (size - len(self._table)) + self._account.beyond(table) if table else 0)

    def sweep(self, n: int = 0, part: int = 4) -> bool:
        """Free the unused ids, with capacity for n more keys, if these ids are many. Return whether they were freed.

        They are many if they exceed ``1 / part`` of the live ones, or if the arrays are eight times too large.
        """
        many = self.live + self.live // part + key_kernels.SOME_KEYS
        if self.used <= many and max(len(self._table), len(self.slots)) <= 8 * (many + 2 * n):
            return False
        self.take_back(n)
        return True

    def take_back(self, n: int) -> None:
        """Free all unused ids, however few they are. See :meth:`sweep`."""
        with suppress(MemoryLimitError):
            self._sweep(n)  # if the disk lacks space for the smaller table, a later call tries again

    def _many(self) -> int:
        """Return the number of ids above which the kernels request a sweep."""
        return self.live + self.live // 4 + key_kernels.SOME_KEYS

    def _sweep(self, n: int) -> None:
        """Free ids and rebuild the table. If the slots are twice as large as needed, shrink them too."""
        if self._account.files is not None:
            filed = [a for a in (self.slots, self._table, *self._beside()) if not in_memory(a)]
            self._account.want_disk(sum(a.nbytes for a in filed))
        with moving():
            self._take_back()
            cap = self._needs(n)[0] + self.n_ids // 8 + 16
            if 2 * cap <= len(self.slots):
                self._shorten(cap)
            # The kernels request a sweep when more ids than these exist, without the last batch.
            self._remake(_table_size(self._many() + 2 * n))

    def has_many_rows(self, rows: int) -> bool:
        """Return whether keys have many rows each, so that capacity need not be reserved before keys get ids."""
        return 2 * rows > key_kernels.MANY_ROWS * self.used

    def fit(self, rows: int) -> None:
        """Shrink nearly to the live keys if each has many of the ``rows``.

        Kernels request this (``has_spare_room``).
        """
        if self._account.files is not None or rows <= key_kernels.MANY_ROWS * self.live:
            return
        self._take_back()
        cap = self.n_ids + key_kernels.SOME_ROOM
        if cap < len(self.slots):
            self._shorten(cap)
        self._remake(max(key_kernels.SOME_PLACES, _table_size(self.used + key_kernels.SOME_ROOM)))

    def _take_back(self) -> None:
        if self.live:
            self.point()
            key_kernels.take_back(self.operator_address)
        else:  # avoids compiling the kernel for a join that ends
            self.n_ids, self._n_free, self._free = 0, 0, -1

    def _shorten(self, cap: int) -> None:
        self.slots = resized(self.slots, cap, cap)
        self._grow_ids(cap)

    def _remake(self, size: int) -> None:
        """Rebuild the table from the keys with rows. It has at most ``size`` entries."""
        self._table = fresh(self._table, min(size, len(self._table)))
        self._table[:] = 0
        self._compact()
        self.point()
        if self.n_ids:
            key_kernels.rehash(self.operator_address)

    def _compact(self) -> None:
        """Free the memory of unused keys that is not in the slots."""

    def _beside(self) -> tuple[np.ndarray, ...]:
        """Return the arrays of keys that are not in the slots and that a sweep rebuilds."""
        return ()

    def _grow_ids(self, cap: int) -> None:
        """Resize the other arrays that are indexed by id."""
