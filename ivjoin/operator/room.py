"""Room for a batch before it is taken, and room given back after it."""

from __future__ import annotations

import pyarrow as pa

from ivjoin.operator.core import Core
from ivjoin.shj import registers as at
from ivjoin.shj.kernels import packed_key_kernels
from ivjoin.shj.store.columns import ImageColumn, WordColumn
from ivjoin.shj.store.keys import ByteKeys
from ivjoin.shj.store.selectivity import most_selective

__all__ = ["make_room", "name_keys", "tidy"]

_LOOK_EVERY = 64  # pushes between two looks at whether a ring has become too large

def name_keys(core: Core, p: int, n: int) -> None:
    keys = core.keys
    assert isinstance(keys, ByteKeys)
    while need := packed_key_kernels.name_packed(core.state.at, p):
        keys.make_room(n, int(need))
        keys.point()
        core.count_state()


def make_room(core: Core, p: int, batch: pa.RecordBatch) -> None:
    """After a refusal for want of room: whatever is too small for this batch on side p."""
    state, n = core.state, batch.num_rows
    store, other = core.stores[p], core.stores[1 - p]
    state.row_room(n, max(len(s.nodes) for s in core.sources))
    if store.hi - store.lo + n > store.cap:
        store.settle()
        if store.hi - store.lo + n > store.cap:
            store.make_room(n)
    if state.sides[1 - p]["owes"]:
        state.dead_room(other.live)
    if core.plan.int_keys:
        core.keys.reserve(n)
        core.keys.point()
    for column, c in zip(store.stored, store.columns, strict=True):
        if isinstance(c, (WordColumn, ImageColumn)) and batch.column(column).null_count:
            c.valid.begin(store.cap)
    for each in core.stores:
        each._ring_bytes = None
        each.point()
    core.count_state()


def tidy(core: Core, p: int, status: int) -> None:
    """Give back what stores and keys need no more."""
    look = core.state.get("pushes") % _LOOK_EVERY == 0
    if status & at.TIDY:
        for store in core.stores:
            if store.crowded:
                bands = core.plan.tables[1 - store.side]
                if store.side != p:
                    n = core.state.get("n")
                    store.search_by(*most_selective(core.state["values"][:, :n], bands, store))
            elif store._steps and store.ordered:
                store.walked(0)
            store.turn()
            store.settle(look)
    if status & at.SWEEP:
        core.keys.sweep()
        core.keys.point()
        for store in core.stores:
            store.point()
    if look:
        core.state.fit(max(store.live for store in core.stores))
    core.count_state()
