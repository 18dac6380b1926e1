"""Reserve memory for a batch before a push, and free spare memory after it."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.operator.match.pair_state import PairState
from ivjoin.plan.sums import probes
from ivjoin.shj import registers as at
from ivjoin.shj.store.keys import ByteKeys, IntKeys
from ivjoin.shj.store.rows import payload_room
from ivjoin.shj.store.rows.ring_room import keep_apart
from ivjoin.shj.store.rows.selectivity import most_selective
from ivjoin.shj.store.values.columns import OrdinalColumn, WordColumn

__all__ = ["make_batch_room", "make_key_room", "make_room", "make_row_room", "tidy"]

_LOOK_EVERY = 64  # pushes between two checks of the sizes of rings


def make_room(engine: PairState, p: int, batch: pa.RecordBatch, heaps: bool) -> None:
    """Enlarge the memory that was too small for this batch on side p, after the kernels refused it.

    All memory of a push is reserved before any state changes: here and in ``make_batch_room``.
    """
    try:
        _make_room(engine, p, batch, heaps)
    finally:  # part of the memory may have been allocated before the refusal
        engine.moved()
    engine.count_state()


def _make_room(engine: PairState, p: int, batch: pa.RecordBatch, heaps: bool) -> None:
    state, n = engine.state, batch.num_rows
    store, other = engine.stores[p], engine.stores[1 - p]
    make_row_room(engine, p, n)
    state.dead_room(max(other.live if other.owes else 0, store.live + n if store.owes else 0))
    slots = not state.get("grows")
    keys = 0 if not slots and engine.keys.has_many_rows(store.live + other.live) else n
    if isinstance(engine.keys, IntKeys):
        engine.keys.reserve(keys, slots)
    elif state.get("key_bytes"):
        assert isinstance(engine.keys, ByteKeys)
        engine.keys.make_room(keys, state.get("key_bytes"), slots)
    if heaps:
        store.schedules.make_room(n)
    for i, (column, c) in enumerate(zip(store.stored, list(store.columns), strict=True)):
        if isinstance(c, OrdinalColumn) and not c.tells(batch.column(column)):
            keep_apart(store, i)
        if isinstance(c, (WordColumn, OrdinalColumn)) and c.valid.ring is None and batch.column(column).null_count:
            engine.account.want(store.cap)
            c.valid.begin(store.cap)
    if engine.account.limit is not None:
        payload_room.make_batch_room(store, batch)


def make_row_room(engine: PairState, p: int, n: int) -> None:
    """Reserve scratch for n rows of side p, and capacity in its ring. The ring may be compacted first."""
    engine.state.row_room(n, max(s.rows for s in engine.sources))
    store = engine.stores[p]
    if store.hi - store.lo + n > store.cap:
        store.shrink()
        if store.hi - store.lo + n > store.cap:
            store.make_room(n)


def make_key_room(engine: PairState, n: int) -> None:
    """Grow the key table for a pushed batch. ``n`` of its rows have no key id yet."""
    engine.keys.grow(n, engine.state.get("n"))
    engine.moved()
    engine.count_state()


def make_batch_room(engine: PairState, p: int, batch: pa.RecordBatch) -> None:
    """Reserve the memory that a push under a limit needs to store the batch."""
    payload_room.make_batch_room(engine.stores[p], batch)
    engine.count_state()


def tidy(engine: PairState, p: int, status: int) -> None:
    """Free memory that stores and keys no longer need. If it is in files and the disk is full, do so later."""
    with suppress(MemoryLimitError):
        _tidy(engine, p, status)


def _tidy(engine: PairState, p: int, status: int) -> None:
    look = engine.state.get("pushes") % _LOOK_EVERY == 0
    if status & at.TIDY:
        for store in engine.stores:
            if store.crowded:
                bands, _ = probes(engine.plan, 1 - store.side)
                if store.side != p:
                    n = engine.state.get("n")
                    store.search_by(*most_selective(engine.state["values"][:, :n], bands, store))
            elif store._steps and store.ordered:
                store.walked(0)
            store.turn()
            store.shrink(look, engine.state.get("largest"))
    if status & at.SWEEP:
        engine.keys.sweep(max(engine.state.get("largest"), engine.state.get("n")))
        if look and engine.state.get("grows"):
            engine.keys.fit(sum(store.live for store in engine.stores))
        engine.moved()
    if look:
        engine.state.fit(max(store.live for store in engine.stores))
