"""Run the steps of a push in Python, before, after and between the compiled steps.

``push_kernels`` runs a push. If a step needs Python, it returns a request. Python evaluates residuals, stores payload
of varying size, propagates bounds, maintains an index of sorted runs, and allocates memory. The steps and their order
are the same for every plan.

A push passes through these modules:

1. ``operator``, ``protocol``, ``intake`` and ``base`` check the call and the schema.
2. ``pair_engine`` applies the memory limit, and this module calls the kernel.
3. ``push_kernels`` reads the rows (``intake_kernels``, ``order_kernels``), finds their matches (``probe_kernels``,
   ``sweep_kernels``, ``run_kernels``) and emits them (``output_kernels``). Then it stores the rows (``store_kernels``)
   and evicts others (``expiry_kernels``).
4. ``output`` imports the memory that the kernel wrote as a record batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from weakref import ref

import pyarrow as pa

from ivjoin.errors import IvjoinError, MemoryLimitError
from ivjoin.operator.match import output, pairs, room, values
from ivjoin.operator.match.pair_state import PairState
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.keys import packed_key_kernels, word_key_kernels
from ivjoin.shj.kernels.push import push_kernels

__all__ = ["end", "frontier_moved", "push"]

# A larger batch is probed in pieces, each twice as long as the last. Between pieces, the store may get a better index.
PIECE = 16_384
_LEFT_ROWS = 8192
_ASKS = at.DECIDE | at.GATHER | at.STORE | at.BOUNDS | at.INDEX | at.RUNS | at.PIECE | at.BEYOND


def push(engine: PairState, p: int, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
    """Pass a batch to the kernels. Return the whole output as one batch, or the rest of the push as an iterator."""
    if engine.plan.spec.on_late == "raise":
        return _pushed(engine, p, batch)
    before = engine.frontiers[p].mark()
    out = _pushed(engine, p, batch)
    if engine.state.get("n_late"):
        engine.intake.count_late(p, batch, before)
    return out


def _pushed(engine: PairState, p: int, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
    state = engine.state
    n = batch.num_rows
    engine.batch = ref(batch)
    before = None
    if engine.prepares[p]:
        before = engine.frontiers[p].mark()
    try:
        if n > state.room:
            state.row_room(n)
        if before is not None:
            values.prepare(engine, p, batch)
            state = engine.state
        if engine.account.limit is not None:
            state.set(grows=0)
            room.make_batch_room(engine, p, batch)
            engine.put_out(p)
        if state.resting:
            state.wake()
    except BaseException:
        put_back(engine, p, before)
        raise
    if n > PIECE and pairs.may_crowd(engine, p, n):
        state.set(probe_end=PIECE)
    for _ in range(8):
        batch._export_to_c(state.in_struct)
        asks = engine.in_files is not None and engine.in_files.asks(p)
        status = push_kernels.push_batch(state.at, p)
        while status & at.KEYS:
            if _name_keys(engine, p) and asks:
                return _among_spilled(engine, p, batch)
            status = push_kernels.push_batch(state.at, p)
        if status == 0:
            state.give_rows()
            return None
        if status == at.OUTPUT:
            state.rest()
            return output.made(engine)
        if status & at.LATE:
            put_back(engine, p, before)
            engine.intake.refuse_late(p, batch)
        if not status & at.ROOM:
            return go_on(engine, p, batch, status)
        try:
            room.make_room(engine, p, batch, bool(status & at.HEAP))
        except BaseException:
            put_back(engine, p, before)
            raise
    raise AssertionError(f"no capacity for {n} rows after it was reserved")


def _name_keys(engine: PairState, p: int) -> bool:
    """Find key ids for a batch. Return False if the push itself continues with the batch after the table has grown."""
    state = engine.state
    if engine.packs[p]:
        name = word_key_kernels.name_words if engine.keys.kind == at.INTS else packed_key_kernels.name_packed
        while missing := name(state.at, p):
            room.make_key_room(engine, missing)
    elif engine.keys.kind == at.INT and (missing := state.get("n") - state.get("n_named")):
        room.make_key_room(engine, missing)
        return False
    return True


def _among_spilled(engine: PairState, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Continue a push if the other side has rows in files together with their index."""
    assert engine.in_files is not None
    yield from engine.in_files.probe(p, batch)
    yield from go_on(engine, p, batch, push_kernels.push_batch(engine.state.at, p))
    yield from engine.in_files.retire(1 - p)


def put_back(engine: PairState, p: int, before: list[bytes] | None) -> None:
    """Restore the state from before a refused batch."""
    if before is not None:
        engine.frontiers[p].reset(before)
    engine.state.set(prepared=0, probe_end=0)
    engine.state.rest()


def go_on(engine: PairState, p: int, batch: pa.RecordBatch | None, status: int) -> Iterator[pa.RecordBatch]:
    """Continue a push. The reference to ``batch`` keeps the memory alive that the registers point to."""
    state = engine.state
    if batch is None:
        engine.batch = None
    r = state.operator[0]
    while True:
        if status & at.OUTPUT:
            yield output.made(engine)
        if status & at.FULL:
            raise IvjoinError("no memory for an output batch; use a smaller batch_size")
        if not status & at.MORE:
            break
        if status & _ASKS:
            if status & at.GATHER:
                yield from output.gathered(engine, p, batch)
            elif status & at.BOUNDS:
                engine.bound(p)
            elif status & at.DECIDE:
                assert batch is not None
                pairs.decide(engine, p, batch)
            elif status & at.STORE:
                assert batch is not None
                values.store_payload(engine, p, batch)
            elif status & at.RUNS:
                assert batch is not None
                pairs.probe_runs(engine, p, batch)
            elif status & at.BEYOND:
                assert batch is not None
                pairs.look_beyond(engine, p, batch)
            elif status & at.PIECE:
                pairs.next_piece(engine, p)
            elif status & at.INDEX:
                store, n = engine.stores[p], int(r["n_kept"])
                assert store.runs is not None
                axis = state["values"][store.runs.axis, :n]
                store.runs.add(state["key_ids"][:n], axis, store.hi - n, store.rows, store.links, store.lo)
        elif int(r["phase"]) == at.PROBING:
            state.more_pairs()
        status = push_kernels.push_batch(state.at, p)
    engine.batch = None
    if status & (at.TIDY | at.SWEEP):
        room.tidy(engine, p, status)
    state.rest()


def frontier_moved(engine: PairState, p: int) -> Iterator[pa.RecordBatch]:
    """Prune the other store after side p's frontier has moved, emit rows that are now final, and free memory."""
    other = engine.stores[1 - p]
    engine.bounder.move(p, True, other.live)
    engine.publish(1 - p)
    engine.state.set_side(1 - p, unlooked=0)
    engine.put_out(p)
    if engine.state.sides[1 - p]["owes"]:
        engine.state.dead_room(other.live, True)
    engine.state.set(phase=at.PRUNING, n=0, n_kept=0, n_alone=0, n_dead=0, n_late=0, cursor=0)
    yield from go_on(engine, p, None, push_kernels.push_batch(engine.state.at, p))
    if engine.in_files is not None:
        yield from engine.in_files.retire(1 - p)


def end(engine: PairState, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
    engine.link()
    # At the end, retain the memory for a small batch for another operator.
    n = min(engine.state.get("largest"), _LEFT_ROWS) if all(engine.ended) else 0
    for p in sides:
        yield from frontier_moved(engine, p)
        with suppress(MemoryLimitError):
            engine.stores[1 - p].shrink(True, n)
    if engine.keys.sweep(n):
        engine.moved()  # a sweep may stop early if memory is full
