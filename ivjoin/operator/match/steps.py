"""The steps of a push that Python executes before, after and between the compiled steps.

``push_kernels`` runs a push. It returns a request if a step needs Python: a condition that is decided pair by pair,
payload of varying size, bounds by propagation, an index by sorted runs, or more memory. The steps and their order are
the same for every plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from weakref import ref

import pyarrow as pa

from ivjoin.errors import IvjoinError, MemoryLimitError
from ivjoin.operator.match import output, pairs, room, values
from ivjoin.operator.match.core import Core
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.keys import packed_key_kernels, word_key_kernels
from ivjoin.shj.kernels.push import push_kernels

__all__ = ["end", "settle", "take"]

# A larger batch is probed in pieces, each twice as long as the last. Between two, the store may get a better index.
PIECE = 16_384
_LEFT_ROWS = 8192
_ASKS = at.DECIDE | at.GATHER | at.STORE | at.BOUNDS | at.INDEX | at.RUNS | at.PIECE | at.BEYOND


def take(core: Core, p: int, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
    """Pass a batch to the kernels; return the whole output as one batch, or the rest of the push as an iterator."""
    if core.plan.spec.on_late == "raise":
        return _taken(core, p, batch)
    before = core.frontiers[p].mark()
    out = _taken(core, p, batch)
    if core.state.get("n_late"):
        core.intake.count_late(p, batch, before)
    return out


def _taken(core: Core, p: int, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
    state = core.state
    n = batch.num_rows
    core.batch = ref(batch)
    before = None
    if core.prepares[p]:
        before = core.frontiers[p].mark()
    try:
        if n > state.room:
            state.row_room(n)
        if before is not None:
            values.prepare(core, p, batch)
            state = core.state
        if core.account.limit is not None:
            state.set(grows=0)
            room.make_batch_room(core, p, batch)
            core.put_out(p)
        if state.resting:
            state.wake()
    except BaseException:
        put_back(core, p, before)
        raise
    if n > PIECE and pairs.may_crowd(core, p, n):
        state.set(probe_end=PIECE)
    for _ in range(8):
        batch._export_to_c(state.in_struct)
        asks = core.frozen is not None and core.frozen.asks(p)
        status = push_kernels.push_batch(state.at, p)
        while status & at.KEYS:
            if _name_keys(core, p) and asks:
                return _among_frozen(core, p, batch)
            status = push_kernels.push_batch(state.at, p)
        if status == 0:
            state.give_rows()
            return None
        if status == at.OUTPUT:
            state.rest()
            return output.made(core)
        if status & at.LATE:
            put_back(core, p, before)
            core.intake.refuse_late(p, batch)
        if not status & at.ROOM:
            return go_on(core, p, batch, status)
        try:
            room.make_room(core, p, batch, bool(status & at.HEAP))
        except BaseException:
            put_back(core, p, before)
            raise
    raise AssertionError(f"no capacity for {n} rows after it was reserved")


def _name_keys(core: Core, p: int) -> bool:
    """Find key ids for a batch that has arrived; return False if the push itself continues with it after a grow."""
    state = core.state
    if core.packs[p]:
        name = word_key_kernels.name_words if core.keys.kind == at.INTS else packed_key_kernels.name_packed
        while missing := name(state.at, p):
            room.make_key_room(core, missing)
    elif core.keys.kind == at.INT and (missing := state.get("n") - state.get("n_named")):
        room.make_key_room(core, missing)
        return False
    return True


def _among_frozen(core: Core, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Continue a push that has arrived, if the other side has rows in files with their index."""
    assert core.frozen is not None
    yield from core.frozen.probe(p, batch)
    yield from go_on(core, p, batch, push_kernels.push_batch(core.state.at, p))
    yield from core.frozen.retire(1 - p)


def put_back(core: Core, p: int, before: list[bytes] | None) -> None:
    """Restore the state before a batch that is refused."""
    if before is not None:
        core.frontiers[p].reset(before)
    core.state.set(prepared=0, probe_end=0)
    core.state.rest()


def go_on(core: Core, p: int, batch: pa.RecordBatch | None, status: int) -> Iterator[pa.RecordBatch]:
    """Continue a push. The reference to ``batch`` keeps the memory alive to which the registers point."""
    state = core.state
    if batch is None:
        core.batch = None
    r = state.operator[0]
    while True:
        if status & at.OUTPUT:
            yield output.made(core)
        if status & at.FULL:
            raise IvjoinError("no memory for an output batch; use a smaller batch_size")
        if not status & at.MORE:
            break
        if status & _ASKS:
            if status & at.GATHER:
                yield from output.gathered(core, p, batch)
            elif status & at.BOUNDS:
                core.bound(p)
            elif status & at.DECIDE:
                assert batch is not None
                pairs.decide(core, p, batch)
            elif status & at.STORE:
                assert batch is not None
                values.store_payload(core, p, batch)
            elif status & at.RUNS:
                assert batch is not None
                pairs.probe_runs(core, p, batch)
            elif status & at.BEYOND:
                assert batch is not None
                pairs.look_beyond(core, p, batch)
            elif status & at.PIECE:
                pairs.next_piece(core, p)
            elif status & at.INDEX:
                store, n = core.stores[p], int(r["n_kept"])
                assert store.runs is not None
                axis = state["values"][store.runs.axis, :n]
                store.runs.add(state["key_ids"][:n], axis, store.hi - n, store.rows, store.links, store.lo)
        elif int(r["phase"]) == at.PROBING:
            state.more_pairs()
        status = push_kernels.push_batch(state.at, p)
    core.batch = None
    if status & (at.TIDY | at.SWEEP):
        room.tidy(core, p, status)
    state.rest()


def settle(core: Core, p: int) -> Iterator[pa.RecordBatch]:
    """Prune the other store after side p's frontier has moved, emit what that decides, and free memory."""
    other = core.stores[1 - p]
    core.bounder.move(p, True, other.live)
    core.publish(1 - p)
    core.state.set_side(1 - p, unlooked=0)
    core.put_out(p)
    if core.state.sides[1 - p]["owes"]:
        core.state.dead_room(other.live, True)
    core.state.set(phase=at.PRUNING, n=0, n_kept=0, n_left=0, n_dead=0, n_late=0, cursor=0)
    yield from go_on(core, p, None, push_kernels.push_batch(core.state.at, p))
    if core.frozen is not None:
        yield from core.frozen.retire(1 - p)


def end(core: Core, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
    core.link()
    # At the end, memory for a small batch stays for another operator.
    n = min(core.state.get("largest"), _LEFT_ROWS) if all(core.ended) else 0
    for p in sides:
        yield from settle(core, p)
        with suppress(MemoryLimitError):
            core.stores[1 - p].settle(True, n)
    if core.keys.sweep(n):
        core.moved()  # a sweep may end early if memory is full
