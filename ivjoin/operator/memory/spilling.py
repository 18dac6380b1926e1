"""Spill rows that do not fit: first payload, then the oldest rows of a join with keys, including their index.

A join without keys, or with nested columns, cannot find spilled rows again. Instead, the arrays of its index move
unchanged to mapped files. An array in a mapped file has an address like any other array. The kernels therefore run as
before, and the result is the same for every join type. The page cache of the system is the buffer manager. Payload of
evicted rows is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple
from weakref import ref

import numpy as np

from ivjoin.expr.nodes import columns_of
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.memory.spilled_join import SpilledJoin
from ivjoin.plan.spec import SIDES
from ivjoin.shj import registers as at
from ivjoin.shj.store.disk.backing import Files, in_memory, slide
from ivjoin.shj.store.disk.process_memory import give_back, own_memory
from ivjoin.shj.store.keys import ByteKeys, WordKeys
from ivjoin.shj.store.rows.side import SideStore
from ivjoin.shj.store.rows.spilled_payload import can_spill, spill_columns
from ivjoin.shj.store.values.segments import SegmentColumn

__all__ = ["Spilling"]

_INDEX, _LAST = 2, 3  # the order in which arrays of the index are spilled
_MORE_PAGES = 24 << 20  # bytes of file pages that may stay in memory on top of the limit

Item = tuple[int, int, Callable[[], None]]  # order, bytes, function that spills


class Part(NamedTuple):
    """An array of the index, and a function that replaces it."""

    when: int
    array: np.ndarray
    place: Callable[[np.ndarray], None]


# Spilled rows are found by their keys alone, so each probe row reads so many records at most. Otherwise the index moves
# to mapped files, where the axes are searched, too.
_ROWS_A_KEY = 64


class Spilling:
    """Move arrays and rows of an operator to files. ``start``: the process's own memory at the start, in bytes."""

    def __init__(self, engine: PairState, budget: Budget, start: int) -> None:
        self._engine = ref(engine)
        self._budget = budget
        self.files = Files(budget.folder)
        self.coming = 0, 0  # side and number of rows of the next push
        self._can_spill_rows = SpilledJoin.can(engine)
        self._start = start

    @property
    def _limit(self) -> int:
        engine = self._engine()
        limit = None if engine is None else engine.account.limit
        return self._budget.limit if limit is None else limit

    def make_room(self, needed: int, _: int) -> bool:
        """Spill arrays until ``needed`` more bytes fit or all are spilled. Return whether any array was spilled."""
        engine = self._engine()
        assert engine is not None
        before = engine.bytes_held()
        try:
            moved = self._move(engine, needed, range(_INDEX))
            if engine.bytes_held() + needed <= self._limit or self._spill_rows(engine, needed):
                return True
            return self._move(engine, needed, range(_INDEX, _LAST + 1)) or engine.bytes_held() < before or moved
        finally:
            self._moved_all(engine)

    def _moved_all(self, engine: PairState) -> None:
        engine.account.files = self.files
        engine.moved()
        give_back()
        self.release_pages()

    def _move(self, engine: PairState, needed: int, when: range) -> bool:
        """Spill the arrays whose order is in ``when`` until ``needed`` bytes fit. Return whether any was spilled."""
        free, moved = self._limit - engine.bytes_held(), False
        for order, size, move in sorted(self._candidates(engine), key=lambda item: (item[0], -item[1])):
            if order in when and free < needed:
                move()
                free, moved = free + size, True
        return moved

    def _spill_rows(self, engine: PairState, needed: int) -> bool:
        """Spill the oldest rows with their index. Return whether that freed enough memory to try again."""
        if engine.state.get("phase") != at.BEGIN or not (engine.in_files is not None or self._can_spill_rows):
            return False
        if engine.in_files is None and engine.rows_held > _ROWS_A_KEY * engine.keys.used:
            return False
        found = True
        while found:
            excess = engine.bytes_held() + needed + self._limit // 32 - self._limit
            found = self._sweep(engine) or self._less(engine, excess)
            if found and engine.bytes_held() <= self._limit:
                return True
        return False

    def _sweep(self, engine: PairState) -> bool:
        """Reuse the ids of keys without rows, if these are many. Return whether ids were freed."""
        keys, before = engine.keys, engine.keys.used
        if engine.state.get("prepared"):  # during a push, keys of its batch may have ids that no stored row has yet
            return False
        keys.sweep(part=16)
        return keys.used < before

    def _less(self, engine: PairState, excess: int) -> bool:
        """Spill rows with their index, or free the capacity that they left. Return whether memory was freed."""
        in_files = engine.in_files = engine.in_files or SpilledJoin(engine, self.files, self._limit)
        if in_files.runs_in_memory > self._limit // 2:
            in_files.move_runs(self._moved)
        return in_files.free_memory(*self.coming, max(excess, self._limit // 32), self._limit // 2)

    def release_pages(self) -> int:
        """Release the file pages in memory that exceed the allowance. Return their bytes."""
        engine = self._engine()
        if engine is None or engine.account.files is None:
            return 0
        self.files.allowed = self._allowed(engine)
        return self.files.release_pages(self.files.allowed)

    @property
    def is_crowded(self) -> bool:
        """Return whether the mapped files are larger than the part of them that may stay in memory."""
        engine = self._engine()
        return engine is not None and (mapped := self.files.mapped) > _MORE_PAGES and mapped > self._allowed(engine)

    def _allowed(self, engine: PairState) -> int:
        """Return the bytes of mapped files that may stay in memory: an allowance, and the unused part of the limit.

        If malloc or Arrow retains freed memory, the unused part is smaller. The allowance exceeds the size of the
        arrays, because files have spare capacity.
        """
        held = engine.bytes_held()
        if held < self._limit and self.files.mapped > _MORE_PAGES:
            held = max(held, own_memory() - self._start)
        more = _MORE_PAGES + _MORE_PAGES // 8
        if engine.in_files is None:  # a step may read more than these pages if the whole index is in files
            more = _MORE_PAGES if self._can_spill_rows else _MORE_PAGES - _MORE_PAGES // 4
        return max(self._limit - held, 0) + more

    def _candidates(self, engine: PairState) -> Iterator[Item]:
        """Yield the arrays in memory, with the order in which to spill them."""
        read = {c for r in engine.plan.separation.residual for c in columns_of(r)}
        for s, store in enumerate(engine.stores):
            names = engine.plan.sides[s].schema.names
            asked = {c.params[1] for c in read if c.params[0] == SIDES[s]}
            groups: tuple[list[int], list[int]] = [], []
            for column, c in zip(store.stored, store.columns, strict=True):
                when = int(names[column] in asked)
                if isinstance(c, SegmentColumn):
                    if size := c.nbytes:
                        yield when, size, lambda c=c: c.spill(self.files)  # type: ignore[misc]
                elif can_spill(c):
                    groups[when].append(store.columns.index(c))
                elif c.valid is not None and c.valid.ring is not None:
                    yield from self._item(_attribute(_INDEX, c.valid, "ring"))
            for when, group in enumerate(groups):
                if size := sum(store.columns[i].nbytes for i in group):
                    yield when, size, lambda store=store, group=group: self._spill(engine, store, group)  # type: ignore[misc]
        for part in self._parts(engine):
            yield from self._item(part)
        if engine.in_files is not None and (size := engine.in_files.runs_in_memory):
            yield 3, size, lambda in_files=engine.in_files: in_files.move_runs(self._moved)  # type: ignore[misc]

    def _parts(self, engine: PairState) -> Iterator[Part]:
        """Yield the arrays of the index of rows in memory. The arrays themselves may be in files."""
        for store in engine.stores:
            if store.runs is not None:
                for name in ("values", "keys", "ids", "tops"):
                    yield _attribute(2, store.runs, name)
            yield Part(2, store.rows, store.move_rows)
            for key, heap in store.schedules.heaps():
                yield Part(3, heap, partial(store.schedules.place, key))
        keys = engine.keys
        beside = {ByteKeys: ("_arena", "_spans"), WordKeys: ("_rest",)}.get(type(keys), ())
        for name in ("slots", "_table", *beside):
            yield _attribute(3, keys, name)

    def _spill(self, engine: PairState, store: SideStore, columns: list[int]) -> None:
        spill_columns(store, columns, self.files)
        engine.gather_output(store.side)

    def _item(self, part: Part) -> Iterator[Item]:
        if size := in_memory(part.array):
            yield part.when, size, lambda: part.place(self._moved(part.array))

    def _moved(self, array: np.ndarray) -> np.ndarray:
        there = self.files.empty(array.shape, array.dtype)
        slide(there, 0, array)
        return there


def _attribute(when: int, owner: object, name: str) -> Part:
    return Part(when, getattr(owner, name), partial(setattr, owner, name))
