"""Arrow's rows in a file without a name that is mapped: they are read as any others, and count as memory of nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from ivjoin.shj.store.backing import Files

__all__ = ["AT_ONCE", "filed"]

AT_ONCE = 4 << 20  # bytes of rows that are written at once


def filed(batches: Callable[[], Iterator[pa.RecordBatch]], files: Files) -> list[pa.RecordBatch]:
    """Rows in a mapped file, made twice, and one batch after another: one is in memory beside what they are made of.

    Raises
    ------
    MemoryLimitError
        If there is no room on the disk, or no file can be made.
    """

    def write(sink: pa.NativeFile) -> None:
        made = batches()
        first = next(made)
        with pa.ipc.new_stream(sink, first.schema) as writer:
            for batch in chain([first], made):
                writer.write_batch(batch)
                files.settle(AT_ONCE)

    size = pa.MockOutputStream()
    write(size)
    there = files.empty((size.size(),), np.uint8)
    write(pa.FixedSizeBufferWriter(pa.py_buffer(there)))
    files.settle(AT_ONCE)
    return list(pa.ipc.open_stream(pa.py_buffer(there)))
