"""Store Arrow batches in an unnamed mapped file, where they do not count as memory of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from ivjoin.shj.store.disk.backing import Files

__all__ = ["AT_ONCE", "filed"]

AT_ONCE = 4 << 20  # bytes of rows that are written at once, and of file pages in memory during the write


def filed(batches: Callable[[], Iterator[pa.RecordBatch]], files: Files) -> list[pa.RecordBatch]:
    """Write batches to a mapped file, and return the batches in it. Raise the errors of ``Files``.

    ``batches`` is called twice: to measure the size, and to write. Only one batch is in memory at a time.
    """

    def write(sink: pa.NativeFile) -> None:
        made = batches()
        first = next(made)
        with pa.ipc.new_stream(sink, first.schema) as writer:
            for batch in chain([first], made):
                writer.write_batch(batch)
                files.release_pages(AT_ONCE)

    size = pa.MockOutputStream()
    write(size)
    there = files.empty((size.size(),), np.uint8)
    write(pa.FixedSizeBufferWriter(pa.py_buffer(there)))
    files.release_pages(AT_ONCE)
    return list(pa.ipc.open_stream(pa.py_buffer(there)))
