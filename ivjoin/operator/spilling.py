"""What does not fit goes to files: payload first, then the index, array by array, exactly as it lies.

An array in a mapped file has an address like any other, so the kernels go on as before: whatever the join type, the
result is that of the join in memory. The page cache is the buffer manager. Of rows that are pruned, no payload is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import ref

import numpy as np

from ivjoin.expr.nodes import columns_of
from ivjoin.operator.budget import Budget
from ivjoin.operator.core import Core
from ivjoin.operator.freezing import Frozen
from ivjoin.plan.spec import SIDES
from ivjoin.shj import registers as at
from ivjoin.shj.store.backing import Files, give_back, in_memory, own_memory, slide
from ivjoin.shj.store.keys import ByteKeys, WordKeys
from ivjoin.shj.store.side import SideStore
from ivjoin.shj.store.spilled import TextInFile, can_spill, spill_columns
from ivjoin.shj.store.varying import SegmentColumn

__all__ = ["Spilling"]

_INDEX, _LAST = 2, 3  # when arrays of the index go
_MANY, _SMALL = 64 << 10, 1024  # bytes of arrays that go first
_LOOK_EVERY, _LOOK_SELDOM = 8, 512  # steps
_MORE_KEPT = 8 << 20  # bytes that malloc may keep of what is gone
_MORE_PAGES = 24 << 20  # bytes of files that may lie in memory beyond the limit

Item = tuple[int, int, Callable[[], None]]  # when, bytes, how


class Spilling:
    """The arrays of an operator that lie in files.

    Parameters
    ----------
    core : Core
    budget : Budget
    """

    def __init__(self, core: Core, budget: Budget) -> None:
        self._core = ref(core)
        self._limit = budget.limit
        self.files = Files(budget.folder)
        self._start, self._steps, self._every = own_memory(), 0, _LOOK_EVERY

    def make_room(self, needed: int, _: int) -> bool:
        """Move arrays to files until so many bytes more fit, or nothing is left to move; whether any was moved."""
        core = self._core()
        assert core is not None
        before = core.bytes_held()
        try:
            moved = self._move(core, needed, range(_INDEX))
            if core.bytes_held() + needed <= self._limit or self._freeze(core, needed):
                return True
            return self._move(core, needed, range(_INDEX, _LAST + 1)) or core.bytes_held() < before or moved
        finally:
            core.account.files = self.files
            core.keys.point()
            for store in core.stores:
                store.moved()
            give_back()
            self.settle()

    def _move(self, core: Core, needed: int, when: range) -> bool:
        """Move arrays, of those that go at some time, until so many bytes fit; whether any was moved."""
        free, moved = self._limit - core.bytes_held(), False
        for smallest in (_MANY, _SMALL, 1):
            for at_, size, move in sorted(self._candidates(core), key=lambda item: (item[0], -item[1])):
                if size >= smallest and at_ in when and free < needed:
                    move()
                    free, moved = free + size, True
        return moved

    def _freeze(self, core: Core, needed: int) -> bool:
        """A step of letting rows go to files with their index, with which less may be needed; whether all fits."""
        if core.state.get("phase") != at.BEGIN or (core.frozen is None and not Frozen.can(core)):
            return False
        frozen = core.frozen = core.frozen or Frozen(core, self.files, self._limit)
        if frozen.runs_in_memory > self._limit // 8:
            frozen.move_runs(self._moved)
        found = self._less(core, frozen, needed)
        while found and core.bytes_held() > self._limit:
            found = self._less(core, frozen, needed)
        return found

    def _less(self, core: Core, frozen: Frozen, needed: int) -> bool:
        return frozen.shrink(core.bytes_held() + needed + self._limit // 32 - self._limit) or frozen.freeze()

    def settle(self) -> int:
        """Let go of the pages of files that lie in memory beyond what is allowed; how many bytes they were."""
        core = self._core()
        if core is None or core.account.files is None:
            return 0
        self._steps += 1
        if self._steps >= self._every:
            self._steps = 0
            self._trim()
        return self.files.settle(self._allowed(core))

    def _trim(self) -> None:
        """Give back what malloc keeps, if it is much; look less often where that does not help."""
        held = own_memory()
        if held > self._start + self._limit + _MORE_KEPT:
            give_back()
            helped = own_memory() < held - _MORE_KEPT // 4
            self._every = _LOOK_EVERY if helped else min(2 * self._every, _LOOK_SELDOM)

    @property
    def is_crowded(self) -> bool:
        """Whether mapped files are larger than what of them may lie in memory."""
        core = self._core()
        return core is not None and (mapped := self.files.mapped) > _MORE_PAGES and mapped > self._allowed(core)

    def _allowed(self, core: Core) -> int:
        """Bytes of mapped files that may lie in memory."""
        return max(self._limit - core.bytes_held(), 0) + _MORE_PAGES

    def _candidates(self, core: Core) -> Iterator[Item]:
        """Arrays in memory, with when they should go."""
        read = {c for r in core.plan.separation.residual for c in columns_of(r)}
        for s, store in enumerate(core.stores):
            names = core.plan.sides[s].schema.names
            asked = {c.params[1] for c in read if c.params[0] == SIDES[s]}
            groups: tuple[list[int], list[int]] = [], []
            for column, c in zip(store.stored, store.columns, strict=True):
                when = int(names[column] in asked)
                if isinstance(c, SegmentColumn):
                    if size := c.nbytes:
                        yield when, size, lambda c=c: c.spill(self.files)  # type: ignore[misc]
                elif isinstance(c, TextInFile):
                    yield from self._item(2, c, "_starts")
                elif can_spill(c):
                    groups[when].append(store.columns.index(c))
                elif c.valid is not None and c.valid.ring is not None:
                    yield from self._item(when, c.valid, "ring")
            for when, group in enumerate(groups):
                if size := sum(store.columns[i].nbytes for i in group):
                    yield when, size, lambda store=store, group=group: self._spill(core, store, group)  # type: ignore[misc]
            if store.runs is not None:
                for name in ("values", "keys", "ids", "tops"):
                    yield from self._item(2, store.runs, name)
            if size := in_memory(store.rows):
                yield 2, size, lambda store=store: store.move_rows(self._moved(store.rows))  # type: ignore[misc]
            for key, heap in store.schedules.heaps():
                if size := in_memory(heap):
                    yield 3, size, lambda st=store, k=key, h=heap: st.schedules.place(k, self._moved(h))  # type: ignore[misc]
        if core.frozen is not None and (size := core.frozen.runs_in_memory):
            yield 3, size, lambda frozen=core.frozen: frozen.move_runs(self._moved)  # type: ignore[misc]
        keys = core.keys
        beside = {ByteKeys: ("_arena", "_spans"), WordKeys: ("_rest",)}.get(type(keys), ())
        for name in ("slots", "_table", *beside):
            yield from self._item(3, keys, name)

    def _spill(self, core: Core, store: SideStore, columns: list[int]) -> None:
        spill_columns(store, columns, self.files)
        core.gather_output()

    def _item(self, when: int, owner: object, name: str) -> Iterator[Item]:
        array: np.ndarray = getattr(owner, name)
        if size := in_memory(array):
            yield when, size, lambda: setattr(owner, name, self._moved(getattr(owner, name)))

    def _moved(self, array: np.ndarray) -> np.ndarray:
        there = self.files.empty(array.shape, array.dtype)
        slide(there, 0, array)
        return there

