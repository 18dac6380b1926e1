"""Move columns of a store to files, and read records from files for the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.shj import arrow
from ivjoin.shj.registers import TEXT, blank
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.rows.spilled import FixedInFile, Records, TextInFile
from ivjoin.shj.store.rows.stored_rows import StoredRows
from ivjoin.shj.store.values.columns import BoolColumn, WordColumn
from ivjoin.shj.store.values.rings import Column
from ivjoin.shj.store.values.varying import BytesColumn

__all__ = ["can_spill", "read_for_kernels", "spill_columns"]

_AT_ONCE = 1 << 20  # bytes of records or text that are copied at once


def read_for_kernels(store: StoredRows, columns: Sequence[int], ids: np.ndarray) -> None:
    """Read the records of some rows from files, and enter their addresses in the store's rings.

    ``columns`` are positions among the stored columns.
    """
    read: dict[Records, int] = {}
    for i in columns:
        c = store.columns[i]
        if isinstance(c, FixedInFile):
            if (records := read.get(c.records)) is None:
                records = read[c.records] = c.records.read_for_kernels(ids)
            store._rings[store.stored[i]] = c.ring(records)


def can_spill(c: Column) -> bool:
    """Return whether a column lies in memory and can move to records or a log."""
    return isinstance(c, (WordColumn, BoolColumn, BytesColumn))


def spill_columns(store: StoredRows, which: Sequence[int], files: Files) -> None:
    """Move some of a store's columns, given by position, to files.

    Raises
    ------
    MemoryLimitError
        If a file cannot be created, or the disk is full. Nothing has changed then.
    """
    columns: list[Column] = [store.columns[c] for c in which]
    records = Records(files, [c.type for c in columns], store.lo)
    records.reserve(store.hi - store.lo)
    there: list[FixedInFile | TextInFile] = [
        TextInFile(c, records, i, files, store.lo) if isinstance(c, BytesColumn) else FixedInFile(c.type, records, i)
        for i, c in enumerate(columns)
    ]
    step = max(16, _AT_ONCE // max(records.row_size, 64))
    for start in range(store.lo, store.hi, step):
        ids = np.arange(start, min(start + step, store.hi), dtype=np.int64)
        places = store.places(ids)
        for i, c in enumerate(columns):
            values = _validity_alone(c, places) if isinstance(c, BytesColumn) else c.gather(ids, places)
            records.append(i, values)
    for k, column in zip(which, there, strict=True):
        store.columns[k] = column
        store._rings[store.stored[k]] = 0
    _sort_columns(store)
    store.moved()


def _validity_alone(c: BytesColumn, places: np.ndarray) -> pa.Array:
    """Return an array of empty strings with the validity of a text column."""
    valid = c.valid.at(places)
    n = len(places)
    bits = None if valid is None else arrow.bitmap(valid)
    return pa.Array.from_buffers(pa.string(), n, [bits, pa.py_buffer(np.zeros(n + 1, np.int32)), pa.py_buffer(b"")])


def _sort_columns(store: StoredRows) -> None:
    """Update which columns kernels store."""
    store.texts = [c for c in store.texts if c in store.columns]
    texts = blank(TEXT, len(store.texts))
    for k, c in enumerate(store.texts):
        texts[k : k + 1] = c.record
        c.take_record(texts[k : k + 1])
    store._texts = texts
    in_files = [i for i, c in enumerate(store.columns) if isinstance(c, (FixedInFile, TextInFile))]
    store.by_python = sorted({*store.by_python, *in_files})
    store.others = sorted({*(i for i in store.others), *in_files})
