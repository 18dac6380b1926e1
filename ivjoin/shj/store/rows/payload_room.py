"""Reserve memory for the parts of a batch that kernels do not allocate: text, validity, arrays and sorted runs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ivjoin.shj.store.rows.side import SideStore
from ivjoin.shj.store.rows.spilled_payload import InFile
from ivjoin.shj.store.values.rings import Column
from ivjoin.shj.store.values.segments import SegmentColumn
from ivjoin.shj.store.values.texts import BytesColumn, text_bytes

__all__ = ["make_batch_room", "make_column_rooms", "make_text_room"]


def make_text_room(store: SideStore, batch: pa.RecordBatch) -> None:
    """Reserve the bytes that the kernel requests in text columns, and validity rings for the NULLs of a batch."""
    for c in store.texts:
        r = c.record[0]
        if isinstance(c, BytesColumn):
            need = int(r["wanted"]) + c._base
            c.trim(store.lo)
            c.make_room(need - c._base)
        if batch.column(int(r["column"])).null_count:
            c.valid.begin(store.cap)
    store.point()


def make_batch_room(store: SideStore, batch: pa.RecordBatch) -> None:
    """Reserve memory for a whole batch before any of it is stored."""
    try:
        make_column_rooms(store, [batch.column(column) for column in store.stored])
        runs, n = store.runs, batch.num_rows
        if runs is not None and runs.size + n > len(runs.keys):
            store.account.want(lambda: runs.more_room(n))
            runs.make_room(n)
    finally:  # some arrays may have grown before memory was refused
        store.point()


def make_column_rooms(store: SideStore, arrays: Sequence[pa.Array]) -> None:
    store.account.promised = 0  # a refused batch may have left a reservation
    for i, array in enumerate(arrays):
        c = None
        while c is not store.columns[i]:  # `on_full` may move the column to a file
            c = store.columns[i]
            _make_column_room(store, c, array)


def _make_column_room(store: SideStore, c: Column, array: pa.Array) -> None:
    if c.valid is not None and c.valid.ring is None and array.null_count:
        store.account.want(lambda: store.cap)
        c.valid.begin(store.cap)
        store.point()
    if isinstance(c, BytesColumn):
        size = text_bytes(array)
        if c.used + size > c.room:
            c.trim(store.lo)
        if c.used + size > c.room:
            store.account.want(lambda: c.more_room(c.used + size))
            c.make_room(c.used + size)
    elif isinstance(c, InFile):
        c.reserve(array)
    elif isinstance(c, SegmentColumn):
        store.account.promise(SegmentColumn.more_room(array))
