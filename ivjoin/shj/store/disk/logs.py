"""Store a log of bytes in a file: appended at the end, trimmed at the front.

A log consists of segments of one size, each anywhere in an unnamed file. A trimmed segment is reused without being
read. Writes use the page cache, which does not count as memory of the process. Reads use a mapping, whose pages are
released when they exceed the allowed memory.
"""

from __future__ import annotations

import mmap
import os
from collections import deque

import numpy as np

from ivjoin.shj.kernels.output import byte_kernels
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.store.disk.backing import Files

__all__ = ["Log"]

_SHIFT = 16
_SEGMENT = 1 << _SHIFT  # bytes of a segment
_AHEAD = 256  # greatest number of segments reserved ahead
_WHOLE = 32  # large files grow by a multiple of this many segments
_LITTLE = 1 << 20  # files up to this many bytes may stay in memory
_BLOCK_SHIFT = 23  # log2 of the bytes that are read before their pages may be released


class Log:
    """A log in its own file, whose first byte has the position ``start``. Methods raise the errors of ``Files``."""

    def __init__(self, files: Files, start: int = 0) -> None:
        self._files = files
        self._fd = -1
        self._fd = files.unnamed(1)
        self.low = self.top = start
        self._first = start >> _SHIFT  # number of the first segment
        self._places: list[int] = []  # file offsets of the segments, starting with the first one
        self._free: deque[int] = deque()  # offsets of free segments in FIFO order, so that neighbours stay neighbours
        self._size = 0
        self._table: np.ndarray | None = None
        self._map: mmap.mmap | None = None
        files.add(self)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    @property
    def nbytes(self) -> int:
        return self._size

    @property
    def mapped(self) -> int:
        """Bytes of the mapping whose pages may be in memory."""
        there = self._map
        return 0 if there is None or self._size <= _LITTLE else len(there)

    def let_go(self) -> None:
        there = self._map
        if there is not None:
            there.madvise(mmap.MADV_DONTNEED)

    def reserve(self, n: int) -> None:
        """Reserve disk space for ``n`` more bytes. If the disk lacks it, raise MemoryLimitError."""
        segments = (self.top + n - 1 >> _SHIFT) + 1 - self._first if n else 0
        missing = segments - len(self._places) - len(self._free)
        if missing > 0:
            missing = max(missing, min(len(self._places) // 8, _AHEAD))
            if missing + (self._size >> _SHIFT) >= 8 * _WHOLE:
                missing += -(missing + (self._size >> _SHIFT)) % _WHOLE
            size = missing << _SHIFT
            self._files.take(self._fd, self._size, size)
            self._files.fill(self._fd, self._size, size)
            self._free += range(self._size, self._size + size, _SEGMENT)
            self._size += size
        if segments > len(self._places):
            self._table = None
            while segments > len(self._places):
                self._places.append(self._free.popleft())

    def append(self, data: np.ndarray) -> None:
        """Append bytes : uint8[n]. An error before any write is a MemoryLimitError, a later one a SpillError."""
        n = len(data)
        self.reserve(n)
        left = np.ascontiguousarray(data).data
        top = self.top
        while len(left):
            segment = (top >> _SHIFT) - self._first
            at = self._places[segment] + top % _SEGMENT
            size = _SEGMENT - top % _SEGMENT
            while size < len(left) and self._places[segment + 1] == self._places[segment] + _SEGMENT:
                segment, size = segment + 1, size + _SEGMENT
            done = self._files.write(self._fd, left[:size], at)
            top += done
            left = left[done:]
        self.top = top

    def read(self, begins: np.ndarray, sizes: np.ndarray, outs: np.ndarray, out: np.ndarray) -> None:
        """Copy the pieces at these positions and of these sizes to ``out[outs[i]:]``. All arrays are int64[n]."""
        if not len(begins) or not len(out):
            return
        if self._table is None or self._map is None:
            self._table = np.array(self._places, dtype=np.int64)
            if self._map is None or len(self._map) < self._size:
                self._map = mmap.mmap(self._fd, self._size, mmap.MAP_SHARED, mmap.PROT_READ)
        source = np.frombuffer(self._map, dtype=np.uint8)
        blocks = (begins - self.low) >> _BLOCK_SHIFT
        last = int(blocks.max())
        if last == 0:
            parts = [np.arange(len(begins), dtype=np.int64)]
        else:
            order = np.argsort(blocks.astype(np.uint16) if last < 1 << 16 else blocks, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1)
        for which in parts:
            byte_kernels.gather_pieces(
                address(source), self._table, self._first, _SHIFT, which, begins, sizes, outs, address(out)
            )
            if self._size > _LITTLE:
                self._files.ease_logs()

    def trim(self, low: int) -> None:
        """Free the segments before position ``low``."""
        self.low = low
        gone = min((low >> _SHIFT) - self._first, len(self._places))
        if gone > 0:
            self._free += self._places[:gone]
            del self._places[:gone]
            self._first += gone
            self._table = None
