"""Reserve memory for a batch before it is taken, and free spare memory after it."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.operator.match.core import Core
from ivjoin.plan.sums import probes
from ivjoin.shj import registers as at
from ivjoin.shj.store.keys import ByteKeys, IntKeys
from ivjoin.shj.store.rows import payload_room
from ivjoin.shj.store.rows.ring_room import keep_apart
from ivjoin.shj.store.rows.selectivity import most_selective
from ivjoin.shj.store.values.columns import OrdinalColumn, WordColumn

__all__ = ["make_batch_room", "make_key_room", "make_room", "make_row_room", "tidy"]

_LOOK_EVERY = 64  # pushes between two checks whether a ring has become too large


def make_room(core: Core, p: int, batch: pa.RecordBatch, heaps: bool) -> None:
    """Enlarge whatever was too small for this batch on side p, after the kernels refused it.

    All memory of a push is reserved before anything changes: here and in ``make_batch_room``.
    """
    try:
        _make_room(core, p, batch, heaps)
    finally:  # part of it may have been allocated before memory was refused
        core.moved()
    core.count_state()


def _make_room(core: Core, p: int, batch: pa.RecordBatch, heaps: bool) -> None:
    state, n = core.state, batch.num_rows
    store, other = core.stores[p], core.stores[1 - p]
    make_row_room(core, p, n)
    state.dead_room(max(other.live if other.owes else 0, store.live + n if store.owes else 0))
    slots = not state.get("grows")
    keys = 0 if not slots and core.keys.has_many_rows(store.live + other.live) else n
    if isinstance(core.keys, IntKeys):
        core.keys.reserve(keys, slots)
    elif state.get("key_bytes"):
        assert isinstance(core.keys, ByteKeys)
        core.keys.make_room(keys, state.get("key_bytes"), slots)
    if heaps:
        store.schedules.make_room(n)
    for i, (column, c) in enumerate(zip(store.stored, list(store.columns), strict=True)):
        if isinstance(c, OrdinalColumn) and not c.tells(batch.column(column)):
            keep_apart(store, i)
        if isinstance(c, (WordColumn, OrdinalColumn)) and c.valid.ring is None and batch.column(column).null_count:
            core.account.want(store.cap)
            c.valid.begin(store.cap)
    if core.account.limit is not None:
        payload_room.make_batch_room(store, batch)


def make_row_room(core: Core, p: int, n: int) -> None:
    """Reserve scratch for n rows of side p and their place in its ring, which may be settled first."""
    core.state.row_room(n, max(s.rows for s in core.sources))
    store = core.stores[p]
    if store.hi - store.lo + n > store.cap:
        store.settle()
        if store.hi - store.lo + n > store.cap:
            store.make_room(n)


def make_key_room(core: Core, n: int) -> None:
    """Grow the key table for a batch that has arrived; ``n`` of its rows have no key id yet."""
    core.keys.grow(n, core.state.get("n"))
    core.moved()
    core.count_state()


def make_batch_room(core: Core, p: int, batch: pa.RecordBatch) -> None:
    """Reserve what a push would otherwise allocate as it stores the batch, under a memory limit."""
    payload_room.make_batch_room(core.stores[p], batch)
    core.count_state()


def tidy(core: Core, p: int, status: int) -> None:
    """Free memory that stores and keys no longer need; put it off if it lies in files and the disk is full."""
    with suppress(MemoryLimitError):
        _tidy(core, p, status)


def _tidy(core: Core, p: int, status: int) -> None:
    look = core.state.get("pushes") % _LOOK_EVERY == 0
    if status & at.TIDY:
        for store in core.stores:
            if store.crowded:
                bands, _ = probes(core.plan, 1 - store.side)
                if store.side != p:
                    n = core.state.get("n")
                    store.search_by(*most_selective(core.state["values"][:, :n], bands, store))
            elif store._steps and store.ordered:
                store.walked(0)
            store.turn()
            store.settle(look, core.state.get("largest"))
    if status & at.SWEEP:
        core.keys.sweep(max(core.state.get("largest"), core.state.get("n")))
        if look and core.state.get("grows"):
            core.keys.fit(sum(store.live for store in core.stores))
        core.moved()
    if look:
        core.state.fit(max(store.live for store in core.stores))
