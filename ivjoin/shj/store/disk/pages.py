"""Map memory for each large array separately.

Freed memory of malloc and Arrow may stay allocated, and growing an array may copy it. If memory is mapped for one
array, it returns to the system with the array, and grows without a copy. The memory of an operator is therefore equal
to the memory that it counts.
"""

from __future__ import annotations

import math
import mmap
import sys
from typing import Any

import numpy as np

__all__ = ["LEAST", "Pages", "lengthened", "let_go", "paged"]

LEAST = 1 << 20  # least bytes of an array with its own pages
_HUGE = 4 << 20  # arrays of at least this number of bytes request huge pages, as in NumPy
_MAPS = sys.platform == "linux"  # other systems cannot enlarge a mapping


class Pages:
    """Mapped memory of ``size`` bytes with NumPy's array interface."""

    def __init__(self, size: int) -> None:
        self._map, self._used = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), 0
        self._moved()

    def _moved(self) -> None:
        # The address is stored, because a mapping with an exported buffer cannot be enlarged.
        self._at = np.frombuffer(self._map, dtype=np.uint8).ctypes.data
        if len(self._map) >= _HUGE and (huge := getattr(mmap, "MADV_HUGEPAGE", None)) is not None:
            self._map.madvise(huge)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "|u1", "shape": (self._used,), "data": (self._at, False)}

    def resize(self, size: int) -> None:
        """Change the size, which may move the memory. If that fails, raise MemoryError."""
        try:
            self._map.resize(size)
        except OSError as e:
            raise MemoryError(f"cannot enlarge an array to {size:,} bytes: {e}") from e
        self._moved()

    def let_go(self, start: int, stop: int) -> None:
        """Release the whole pages within a range of bytes. They read as zeros until they are written."""
        start, stop = _whole(start), stop // mmap.PAGESIZE * mmap.PAGESIZE
        if start < stop:
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        self._used = _bytes(shape, dtype)
        return np.asarray(self).view(dtype).reshape(shape)


def paged(shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Return an array of zeros with its own pages. On other systems than Linux, or if it is small, use ``np.empty``."""
    dtype = np.dtype(dtype)
    size = _bytes(shape, dtype)
    if size < LEAST or not _MAPS:
        return np.empty(shape, dtype)
    try:
        return Pages(_whole(size)).array(shape, dtype)
    except OSError as e:
        raise MemoryError(f"cannot allocate {size:,} bytes: {e}") from e


def lengthened(array: np.ndarray, n: int) -> np.ndarray | None:
    """Return the same rows, without a copy, with capacity for ``n``, or None if the array does not have its own pages.

    The caller must not use ``array`` or any view of it afterwards.
    """
    pages = _pages_of(array)
    shape = (n, *array.shape[1:])
    size = _bytes(shape, array.dtype)
    if pages is None or size < LEAST:
        return None
    pages.resize(_whole(size))
    return pages.array(shape, array.dtype)


def let_go(array: np.ndarray, start: int, stop: int) -> None:
    """Release the pages of rows start to stop if the array has its own pages. These rows are not read again."""
    pages = _pages_of(array)
    if pages is not None:
        pages.let_go(start * array.strides[0], stop * array.strides[0])


def _pages_of(array: np.ndarray) -> Pages | None:
    base: object = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, Pages) else None


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return math.prod(shape) * dtype.itemsize


def _whole(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
