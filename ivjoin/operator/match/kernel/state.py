"""Store the registers and scratch of an operator: one record, two sides, and the arrays that kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ivjoin.operator.match.kernel.scratch import Scratch, borrowed, give, scratch_bytes
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.output.released_blocks import release_block
from ivjoin.shj.kernels.pointers import ARROW_ARRAY, RELEASE
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import in_memory

__all__ = ["State"]

_FIRST_PAIRS, _MOST_PAIRS = 256, 1 << 17
_KEPT_PAIRS = 1024  # longer arrays are freed between two pushes
_FIRST_ROWS = 32  # rows of the first batch


_NOTHING = np.empty(0, dtype=np.int64)
_OPERATOR, _SIDE = at.words_of(at.OPERATOR), at.words_of(at.SIDE)
# The registers that record the progress of a join, without addresses and capacities.
_COUNTS = (
    "phase", "n", "n_kept", "n_alone", "n_dead", "n_pairs", "n_late", "cursor", "moved", "side", "row", "node",
    "steps", "n_chosen", "probe_end", "late_rows", "peak_rows", "pushes", "largest", "key_bytes",
    "full_predicate", "prepared", "masked", "out_which",
)
_CLEARED = np.array([_OPERATOR[name] for name in _COUNTS])
_IN_RELEASE, _OUT_RELEASE = RELEASE // 8, (ARROW_ARRAY + RELEASE) // 8


class State:
    """The registers of one operator, and the arrays that they point to.

    ``columns`` is the number of columns of the wider input. ``account`` is checked before memory is allocated.
    """

    def __init__(self, batch_size: int, columns: int, account: Account | None = None) -> None:
        self._account = account or Account()
        self.operator, self.sides = at.blank(at.OPERATOR, 1), at.blank(at.SIDE, 2)
        self._words = at.as_words(self.operator)
        self._side_words = at.as_words(self.sides).reshape(2, -1)
        self.at = address(self._words)
        self._held: dict[Any, np.ndarray] = {}
        self._bytes = self.operator.nbytes + self.sides.nbytes
        self._lent: dict[Any, np.ndarray] = {}
        self._scratch: Scratch | None = None
        self._pointed = 0  # the number of the scratch that the registers point to
        self._size = 0  # capacity of the last scratch, in rows
        self.room = 0  # capacity of the current scratch, in rows
        self._most_pairs = min(_MOST_PAIRS, batch_size)
        self._sources = 1
        self.in_struct = self.hold("structs", np.zeros(2 * ARROW_ARRAY // 8, dtype=np.int64))
        self.out_struct = self.in_struct + ARROW_ARRAY
        self.set(
            sides=address(self._side_words), in_struct=self.in_struct, out_struct=self.out_struct,
            releaser=release_block(), batch_size=batch_size,
            in_values=self.hold("in", np.zeros(columns + 1, dtype=np.int64)),
            in_valid=self.hold("valid", np.zeros(2 * columns + 2, dtype=np.int64)),
            state_at=self.hold("state", np.zeros(4, dtype=np.int64)),
        )
        self.pairs, self.resting = min(_FIRST_PAIRS, batch_size), True  # small: a row may never arrive

    @property
    def nbytes(self) -> int:
        return self._bytes if self._scratch is None else self._bytes + self._scratch.nbytes

    def hold(self, name: Any, array: np.ndarray) -> int:
        """Store an array under a name, so that it stays alive. Return its address."""
        if (old := self._held.get(name)) is not None:
            self._bytes -= in_memory(old)
        self._held[name] = array
        self._bytes += in_memory(array)
        return address(array)

    def lend(self, name: Any, array: np.ndarray) -> int:
        """Store an array like :meth:`hold`, if another object counts its bytes."""
        self._lent[name] = array
        return address(array)

    def __getitem__(self, name: Any) -> np.ndarray:
        found = self._held.get(name)
        if found is None and self._scratch is not None:
            found = self._scratch.arrays.get(name)
        return self._lent[name] if found is None else found

    def get(self, name: str) -> int:
        return self._words.item(_OPERATOR[name])

    def set(self, **fields: int) -> None:
        words = self._words
        for name, value in fields.items():
            words[_OPERATOR[name]] = value

    def side(self, s: int, name: str) -> int:
        return self._side_words.item(s, _SIDE[name])

    def set_side(self, s: int, **fields: int) -> None:
        words = self._side_words[s]
        for name, value in fields.items():
            words[_SIDE[name]] = value

    def put_side(self, s: int, fields: tuple[np.ndarray, np.ndarray]) -> None:
        """Set fields of a side's record. :func:`ivjoin.shj.registers.placed` has prepared them."""
        places, values = fields
        self._side_words[s][places] = values

    @property
    def is_idle(self) -> bool:
        """Return whether no push is running and the registers refer to no batch."""
        structs = self["structs"]
        return not (self.get("phase") != at.BEGIN or structs.item(_IN_RELEASE) or structs.item(_OUT_RELEASE))

    def clear(self, account: Account) -> None:
        """Reset the registers for another operator of the same plan, charged to ``account``."""
        self._account = account
        self._words[_CLEARED] = 0

    def limit_output(self, rows: int) -> None:
        """Lower the number of rows in an output batch and of pairs in a step."""
        self._most_pairs = min(_MOST_PAIRS, rows)
        self.pairs = min(self.pairs, self._most_pairs)
        self.set(batch_size=rows, room_pairs=min(self.get("room_pairs"), self.pairs))

    def row_room(self, n: int, sources: int = 0) -> None:
        """Get scratch for batches of n rows with ``sources`` sources.

        An operator has no scratch before the first batch.

        Under a limit, an operator has its own scratch, which the limit counts.
        """
        self._sources, held = max(sources, self._sources), self._scratch
        if held is not None and n <= held.room and self._sources <= held.sources:
            return
        if not n and held is None:
            if not self._size:
                self.lend("values", np.empty((self._sources, 0), dtype=np.int64))
            return
        if n > self._size:
            self._size = 1 << (max(n, _FIRST_ROWS) - 1).bit_length()
        if self._account.limit is None:
            self._take(borrowed(self._size, self._sources))
        else:
            self._account.want(scratch_bytes(self._size, self._sources) - (0 if held is None else held.nbytes))
            self._take(Scratch(self._size, self._sources))

    def _take(self, taken: Scratch) -> None:
        self._scratch, self._size, self.room = taken, taken.room, taken.room
        if taken.number != self._pointed:
            self._pointed = taken.number
            taken.point(self._words)

    def dead_room(self, n: int, going: bool = False) -> None:
        """Reserve scratch for the rows that one push may evict. With ``going``, a full account does not refuse it."""
        if n > self.get("dead_size"):
            size = n + n // 8 + 16
            ask = self._account.ask if going else self._account.want
            ask(lambda: 0 if self._account.files is not None else 8 * (size - self.get("dead_size")))
            files = self._account.files
            dead = np.empty(size, np.int64) if files is None else files.empty((size,), np.int64)
            self.set(dead=self.hold("dead", dead), dead_size=size)

    def fit(self, live: int) -> None:
        """Shrink scratch that is much larger than recent batches and stores needed."""
        n = max(self.get("largest"), _FIRST_ROWS)
        if self._size > 4 * n + 1024:
            self._size = 1 << (n - 1).bit_length()
            if self._scratch is not None:
                self._take(Scratch(self._size, self._sources))
        if self.get("dead_size") > 4 * live + 1024:
            self.set(dead=self.hold("dead", np.empty(live, dtype=np.int64)), dead_size=live)
        self.set(largest=0)

    def rest(self) -> None:
        """Free scratch that a waiting operator does not need, because many operators may wait."""
        self.give_rows()
        if self.pairs > _KEPT_PAIRS and not self.resting:
            self.resting = True
            self.set(
                room_pairs=0, pair_rows=self.hold("pair_rows", _NOTHING), pair_places=self.hold("pair_places", _NOTHING)
            )

    def give_rows(self) -> None:
        """Return the scratch of rows until the next push, and release the reserved memory that this push has not used.
        """
        self._account.promised = 0
        held = self._scratch
        if held is not None and self._account.limit is None and give(held):
            self._scratch, self.room = None, 0

    def wake(self) -> None:
        """Restore the scratch of pairs to its size before :meth:`rest`, or to a smaller size if memory is limited."""
        if not self._account.fits(16 * self.pairs):
            self.pairs = min(_FIRST_PAIRS, self.pairs)
            self._account.want(16 * self.pairs)
        self._pair_room(self.pairs)

    def _pair_room(self, n: int) -> None:
        self.pairs, self.resting = n, False
        for name in ("pair_rows", "pair_places"):
            self.set(**{name: self.hold(name, np.empty(n, np.int64))})
        self.set(room_pairs=n)

    def more_pairs(self) -> None:
        """Enlarge the scratch of pairs, and retain its pairs, if the account allows it."""
        if self.pairs < self._most_pairs and self._account.fits(48 * self.pairs):
            kept = self["pair_rows"], self["pair_places"]
            self._pair_room(min(4 * self.pairs, self._most_pairs))
            for name, old in zip(("pair_rows", "pair_places"), kept, strict=True):
                self[name][: len(old)] = old
