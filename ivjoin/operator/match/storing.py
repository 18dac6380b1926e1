"""How rows are stored: payload that the kernels do not store by themselves."""

from __future__ import annotations

import pyarrow as pa

from ivjoin.operator.core import Core
from ivjoin.shj.arrow import taken, whole_numbers
from ivjoin.shj.kernels.output import text_store_kernels
from ivjoin.shj.store.rows.payload_room import make_text_room

__all__ = ["store_rest", "store_text"]


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
    while text_store_kernels.store_text(core.state.at, p):
        make_text_room(core.stores[p], batch)
        core.count_state()
