"""Store an array in memory, or in an unnamed file that is mapped into memory.

Kernels find arrays by address, so they work the same way on both. A file is unlinked as soon as it is created, so even
a crash leaves no file. Its disk space is reserved at creation. Pages of a file that the process has touched count as
its memory until :meth:`Files.release_pages` releases them. The page cache may still retain them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from typing import Protocol
from weakref import WeakSet

import numpy as np

from ivjoin.errors import MemoryLimitError, SpillError
from ivjoin.shj.store.disk.pages import lengthened, paged
from ivjoin.shj.store.disk.process_memory import shared_memory

__all__ = ["Files", "fresh", "in_memory", "moving", "resized", "slide"]

_PAGE = mmap.PAGESIZE
_PIECE = 4 << 20  # bytes copied at once, which limits the file pages in memory during a copy
_READ = 8 << 20  # bytes of pages of mapped files and logs that may stay in memory after a read
_SETTLED = 12 << 20  # the same between two steps
_FILLED = 1 << 20  # greatest number of zero bytes that are written at once
_AS_IT_WAS = "; the operator's state is unchanged by this batch, and its snapshot() still works"


class MappedLog(Protocol):
    """A log whose file grows on its own and is read through a mapping. See ``logs.Log``."""

    @property
    def nbytes(self) -> int: ...
    @property
    def mapped(self) -> int: ...
    def let_go(self) -> None: ...


class _Map(mmap.mmap):
    files: Files


class Files:
    """The files of one operator's spilled arrays and logs, in a folder.

    Methods that create or enlarge a file raise MemoryLimitError if the disk is full or the file cannot be created.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._maps: WeakSet[_Map] = WeakSet()
        self.logs: WeakSet[MappedLog] = WeakSet()
        self._base: int | None = None
        self._hand = 0
        self.allowed = 1 << 62  # bytes of mapped files that may be in memory
        self._lock = Lock()  # operators in several threads may share the files
        os.close(self.unnamed(1))

    @property
    def nbytes(self) -> int:
        with self._lock:
            logs = list(self.logs)
        return self.mapped + sum(log.nbytes for log in logs)

    @property
    def mapped(self) -> int:
        with self._lock:
            return sum(len(m) for m in self._maps)

    def add(self, log: MappedLog) -> None:
        """Register a log that was created in the same folder."""
        if self._base is None:
            self.resident()
        with self._lock:
            self.logs.add(log)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
        """Return an array of zeros in its own file."""
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, buffer=self._mapped(self.unnamed(size), size))

    def reserve(self, nbytes: int) -> None:
        """Check that the disk has space for ``nbytes`` bytes before several arrays are created."""
        if nbytes:
            os.close(self.unnamed(nbytes))

    def ease(self) -> None:
        """Release pages above ``allowed`` bytes during a step that reads many."""
        self.release_pages(self.allowed)

    def ease_logs(self) -> None:
        """Release pages of logs during a read, if more pages are in memory than allowed."""
        if self.resident() <= _READ:
            return
        logs = self._read_logs()
        if self.mapped + sum(log.mapped for log in logs) > _READ:
            for log in logs:
                log.let_go()

    def _read_logs(self) -> list[MappedLog]:
        with self._lock:
            return [log for log in self.logs if log.mapped]

    def release_pages(self, allowed: int) -> int:
        """Release pages until at most ``allowed`` bytes of mapped arrays are in memory. Return the previous excess.

        Pages of logs are released first. They do not count towards the excess.
        """
        mapped, logs = self.mapped, self._read_logs()
        most = min(allowed, _SETTLED)
        if logs and mapped + sum(log.mapped for log in logs) > most and self.resident() > most:
            for log in logs:
                log.let_go()
        if mapped <= allowed:
            return 0
        with self._lock:
            maps = [m for m in self._maps if len(m)]
        there = min(self.resident(), mapped)
        if there <= allowed:
            return 0
        for _ in range(64):
            for m in maps:
                piece = max(_PAGE, -(-len(m) // 16 // _PAGE) * _PAGE)
                start = self._hand % 16 * piece
                if start < len(m):
                    m.madvise(mmap.MADV_DONTNEED, start, min(piece, len(m) - start))
            self._hand += 1
            if self._hand % 16 == 0 or self.resident() <= allowed - allowed // 8:
                break
        return there - allowed

    def resident(self) -> int:
        """Return the bytes of mapped files in this process's memory, without those mapped before the first array."""
        shared = shared_memory()
        if shared is None:  # unknown on this system, so assume the greatest value
            return 1 << 62
        if self._base is None or shared < self._base:
            self._base = shared
        return shared - self._base

    def unnamed(self, size: int) -> int:
        """Create an unnamed file of ``size`` bytes and return its descriptor."""
        try:
            with tempfile.TemporaryFile(dir=self.folder, prefix="ivjoin-") as file:
                fd = os.dup(file.fileno())
        except OSError as e:
            raise _no_file(self.folder, size, e) from e
        try:
            self.take(fd, 0, size)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def take(self, fd: int, at: int, size: int) -> None:
        """Reserve disk space for a range of a file. Without it, writing to a mapped page would kill the process."""
        try:
            os.posix_fallocate(fd, at, size)
        except OSError as e:
            raise _no_file(self.folder, size, e) from e

    def fill(self, fd: int, at: int, size: int) -> None:
        """Write zeros to a reserved range that will be read through a mapping.

        The system maps the bytes of one write in pieces as large as possible. Reading a file that was written 4 KiB at
        a time takes ten times as long. An error is ignored, because the later write of the data also fails and reports
        it.
        """
        with suppress(OSError):
            while size > 0:
                done = os.pwrite(fd, _zeros()[: min(size, _FILLED - at % _FILLED)], at)
                at, size = at + done, size - done

    def write(self, fd: int, data: memoryview, at: int) -> int:
        """Write bytes to reserved space, and return how many were written. If that fails, raise SpillError."""
        try:
            return os.pwrite(fd, data, at)
        except OSError as e:
            raise _not_written(self.folder, len(data), e) from e

    def _mapped(self, fd: int, size: int) -> _Map:
        if self._base is None:
            self.resident()
        try:
            m = _Map(fd, size)
        except (OSError, ValueError) as e:
            raise _no_file(self.folder, size, e) from e
        finally:
            os.close(fd)  # the mapping has its own descriptor
        m.files = self
        # Without this, touching one page may load megabytes around it, which count as memory of the process.
        m.madvise(mmap.MADV_RANDOM)
        with self._lock:
            self._maps.add(m)
        return m


def _not_written(folder: str, size: int, e: OSError) -> SpillError:
    return SpillError(
        f"cannot write {size:,} bytes to a file in {folder!r} although the space was reserved: {e.strerror or e}. "
        "The state is incomplete: run the join again, or continue from the last snapshot, with another folder "
        "(ivjoin.Spill)"
    )


@contextmanager
def moving() -> Iterator[None]:
    """Turn a full disk during a move of several arrays into a SpillError, because the state is then incomplete."""
    try:
        yield
    except MemoryLimitError as e:
        raise SpillError(
            f"{e.reason}. The state is incomplete: run the join again, or continue from the last snapshot"
        ) from e


def _no_file(folder: str, size: int, e: Exception) -> MemoryLimitError:
    said = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
    much = f"{size:,} bytes " if size > 1 else ""
    return MemoryLimitError(
        f"cannot spill {much}to {folder!r}: {said}. Free disk space there, or name another folder: "
        "when_full=ivjoin.Spill(dir=...)",
        _AS_IT_WAS,
    )


@cache
def _zeros() -> memoryview:
    return np.zeros(_FILLED, np.uint8).data  # read-only use allocates no pages


def _map_of(array: np.ndarray) -> _Map | None:
    base: object = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, _Map) else None


def in_memory(array: np.ndarray) -> int:
    """Return the bytes of an array that count as memory. An array in a file counts as 0."""
    return 0 if array.base is not None and _map_of(array) is not None else array.nbytes


def fresh(like: np.ndarray, shape: int | tuple[int, ...]) -> np.ndarray:
    """Return an uninitialized array in the same place as ``like``: in memory, or in a file."""
    shape = shape if isinstance(shape, tuple) else (shape,)
    lies = None if like.base is None else _map_of(like)
    return paged(shape, like.dtype) if lies is None else lies.files.empty(shape, like.dtype)


def resized(array: np.ndarray, n: int, used: int) -> np.ndarray:
    """Return an array with capacity for n rows that has the first ``used`` rows. Other rows are uninitialized.

    The caller must not use ``array`` or any view of it afterwards.
    """
    made = lengthened(array, n)
    if made is None:
        made = fresh(array, (n, *array.shape[1:]))
        slide(made, 0, array[:used])
    return made


def slide(into: np.ndarray, at: int, source: np.ndarray) -> None:
    """Copy to ``into[at:]`` piece by piece. If both overlap, the destination must begin before the source."""
    lies = None if into.base is None else _map_of(into)
    step = max(1, _PIECE // max(1, source.strides[0] if source.ndim else 1))
    for start in range(0, len(source), step):
        piece = source[start : start + step]
        into[at + start : at + start + len(piece)] = piece
        if lies is not None:
            lies.files.release_pages(_PIECE)
