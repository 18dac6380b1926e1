"""How rows are stored: payload that the kernels do not store by themselves, and rows that are emitted elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ivjoin.operator.core import Core
from ivjoin.shj.arrow import taken, whole_numbers
from ivjoin.shj.kernels import text_kernels
from ivjoin.shj.store.payload_room import make_text_room

if TYPE_CHECKING:
    from ivjoin.operator.operator import SymmetricHashJoin

__all__ = ["store_matched", "store_rest", "store_text"]


def store_rest(core: Core, p: int, batch: pa.RecordBatch, status: int) -> None:
    """Store the columns that the kernels do not: text and nested types."""
    state, store = core.state, core.stores[p]
    n = state.get("n_kept")
    names = store.by_python
    if core.keeps_text and store.texts:
        names = store.others
        store_text(core, p, batch)
    if names:
        whole = n == batch.num_rows
        kept = state["kept"][:n]
        arrays = {}
        for i in names:
            array = batch.column(store.stored[i])
            arrays[i] = array if whole else taken(array, whole_numbers(kept))
        store.append_by_python(arrays)
        core.account.promised = 0


def store_text(core: Core, p: int, batch: pa.RecordBatch) -> None:
    while text_kernels.store_text(core.state.at, p):
        make_text_room(core.stores[p], batch)
        core.count_state()


def store_matched(op: SymmetricHashJoin, side: str, batch: pa.RecordBatch) -> None:
    """Push rows that count as matched, so they are never emitted as unmatched ones; no row is stored yet to match."""
    state = op._core.state  # type: ignore[union-attr]
    state.set(emitted=1)
    try:
        for _ in op.push(side, batch):
            raise AssertionError("rows that count as matched were emitted")
    finally:
        state.set(emitted=0)
