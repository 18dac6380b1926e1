"""Where an array lies: in memory, or in a file without a name that is mapped into it.

Kernels find arrays by their address and need not know. A file is removed as soon as it is made, so a process that ends,
in whatever way, leaves nothing behind. Its room on the disk is taken when it is made: a write fails later only where
the disk does. What the operating system has read of it counts as memory of the process until :meth:`Files.settle` lets
go of it; the page cache keeps it as long as there is room.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from ivjoin.errors import MemoryLimitError, SpillError
from ivjoin.shj.kernels import spare_blocks
from ivjoin.shj.store.logs import Log
from ivjoin.shj.store.pages import lengthened, paged

__all__ = [
    "Files", "extended", "fresh", "give_back", "in_memory", "keep_pages", "kept_pool", "moving", "own_memory", "slide",
]

_PAGE = mmap.PAGESIZE
_PIECE = 4 << 20  # bytes copied at once, so that little of a file is in memory meanwhile
_KEPT_BY_MALLOC = 4 << 20  # bytes
_SETTLED = 4 << 20  # bytes of logs that may stay between two steps beyond what was allowed when they were read
_FILLED = 1 << 20  # bytes of zeros that are written at once, at most
_SPARE = 1 << 20  # bytes of a file that may be more than what is asked for
_AS_IT_WAS = "; what an operator holds is as it was before this batch, and its snapshot() still works"
_STATM = "/proc/self/statm"


class _Map(mmap.mmap):
    """A mapped file without a name."""

    files: Files
    fd: int

    def __del__(self) -> None:
        fd = getattr(self, "fd", -1)
        if fd >= 0:
            os.close(fd)


class Files:
    """Arrays of one operator that lie in files.

    Parameters
    ----------
    folder : str
        Where the files are made.

    Raises
    ------
    MemoryLimitError
        If no file can be made there.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._maps: WeakSet[_Map] = WeakSet()
        self.logs: WeakSet[Log] = WeakSet()
        self._base: int | None = None
        self._hand = 0
        self.allowed = 1 << 62  # bytes of mapped files that may lie in memory
        self.logs_allowed = 0  # as long as no more do, what was read of logs stays there
        self.logs_stay = False  # and so does what was read first, where more is read
        self._lock = Lock()  # operators at work in several threads may share it
        os.close(self.unnamed(1))

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        with self._lock:
            logs = list(self.logs)
        return self.mapped + sum(log.nbytes for log in logs)

    @property
    def mapped(self) -> int:
        """Bytes of the files that are mapped."""
        with self._lock:
            return sum(len(m) for m in self._maps)

    def add(self, log: Log) -> None:
        """Take in a log that was made in the same folder."""
        if self._base is None:
            self.resident()
        with self._lock:
            self.logs.add(log)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
        """An array of zeros in a file of its own.

        Raises
        ------
        MemoryLimitError
            If there is no room on the disk, or no file can be made.
        """
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, buffer=self._mapped(self.unnamed(size), size))

    def extended(self, array: np.ndarray, n: int) -> np.ndarray:
        """An array of this room with another number of rows; the one that is given is not to be used any more."""
        old = _map_of(array)
        assert old is not None
        shape = (n, *array.shape[1:])
        size = int(np.prod(shape, dtype=np.int64)) * array.itemsize
        if size <= len(old):
            return np.ndarray(shape, array.dtype, buffer=old)
        spare = min(size // 4, _SPARE)  # mapped anew, all of it is read anew
        try:
            self.take(old.fd, 0, size + spare)
        except MemoryLimitError:
            self.take(old.fd, 0, size)
            spare = 0
        return np.ndarray(shape, array.dtype, buffer=self._mapped(os.dup(old.fd), size + spare))

    def reserve(self, nbytes: int) -> None:
        """See whether the disk has room for so many bytes, before several arrays are made or none.

        Raises
        ------
        MemoryLimitError
        """
        if nbytes:
            os.close(self.unnamed(nbytes))

    def ease(self) -> None:
        """In the middle of a step that reads much: let go of pages beyond those that may lie in memory."""
        self.settle(self.allowed)

    def ease_logs(self, read: Log, block: int) -> None:
        """After a block of a log was read: what was read of logs counts as memory of the process.

        Rows of all ages are read again and again, so where there is room, what was read last goes alone.
        """
        if self.resident() <= self.logs_allowed:
            return
        logs = self._read_logs()
        if self.mapped + sum(log.mapped for log in logs) > self.logs_allowed:
            if self.logs_stay:
                read.let_go_of(block)
            if not self.logs_stay or self.resident() > self.logs_allowed:
                for log in logs:
                    log.let_go()

    def _read_logs(self) -> list[Log]:
        with self._lock:
            return [log for log in self.logs if log.mapped]

    def settle(self, allowed: int) -> int:
        """Let go of pages until less than ``allowed`` bytes of files lie in memory; by how many it was more.

        Those of logs go first, which are not counted as more.
        """
        mapped, logs = self.mapped, self._read_logs()
        most = min(allowed, self.logs_allowed + _SETTLED)
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
        """Bytes of mapped files of this process that lie in memory, those apart that did before the first array."""
        shared = _shared()
        if shared is None:  # not to be known here: as if much were
            return 1 << 62
        if self._base is None or shared < self._base:
            self._base = shared
        return shared - self._base

    def unnamed(self, size: int) -> int:
        """A new file of so many bytes, without a name.

        Raises
        ------
        MemoryLimitError
        """
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
        """Take room on the disk: where it is mapped, a write that finds none would end the process.

        Raises
        ------
        MemoryLimitError
        """
        try:
            os.posix_fallocate(fd, at, size)
        except OSError as e:
            raise _no_file(self.folder, size, e) from e

    def fill(self, fd: int, at: int, size: int) -> None:
        """Write zeros where room was taken that is to be read through a mapping.

        What is written at once the system keeps in pieces as large, as far as it can, and maps each of them at once: a
        file that comes to be 4 KiB at a time takes ten times as long to be read. Where that fails, so will what is
        written there later, and says so.
        """
        with suppress(OSError):
            while size > 0:
                done = os.pwrite(fd, _zeros()[: min(size, _FILLED - at % _FILLED)], at)
                at, size = at + done, size - done

    def write(self, fd: int, data: memoryview, at: int) -> int:
        """Write bytes where there is room for them; how many were.

        Raises
        ------
        SpillError
        """
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
            os.close(fd)
            raise _no_file(self.folder, size, e) from e
        m.files, m.fd = self, fd
        # Otherwise a page that is touched may bring those of megabytes around it, which count as the process's own.
        m.madvise(mmap.MADV_RANDOM)
        with self._lock:
            self._maps.add(m)
        return m


def _not_written(folder: str, size: int, e: OSError) -> SpillError:
    """What a write is answered with that fails where there was room."""
    return SpillError(
        f"cannot write {size:,} bytes to a file in {folder!r} that had room for them: {e.strerror or e}. What was "
        "under way is lost: join again, or go on from the last snapshot, with another spill_dir"
    )


@contextmanager
def moving() -> Iterator[None]:
    """While arrays are moved of which some are, and others not: a disk without room then leaves nothing to go on with.

    Raises
    ------
    SpillError
        In place of MemoryLimitError, after which an operator goes on.
    """
    try:
        yield
    except MemoryLimitError as e:
        raise SpillError(f"{e.reason}. Rows were on their way: join again, or go on from the last snapshot") from e


def _no_file(folder: str, size: int, e: Exception) -> MemoryLimitError:
    said = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
    much = f"{size:,} bytes " if size > 1 else ""
    return MemoryLimitError(
        f"cannot spill {much}to {folder!r}: {said}. Give room there, or another folder by spill_dir", _AS_IT_WAS
    )


@cache
def _zeros() -> memoryview:
    return np.zeros(_FILLED, np.uint8).data  # which take no memory as long as they are only read


def _shared() -> int | None:
    try:
        return _statm()[2] * _PAGE
    except OSError:
        return None


def _statm() -> list[int]:
    """Pages of this process: all, those that lie in memory, and of these those of files; asked for in every step."""
    return [int(word) for word in os.pread(_statm_of(os.getpid()), 128, 0).split()[:3]]


@cache
def _statm_of(pid: int) -> int:
    """Descriptor of what the system says of this process, which stays open: opened anew, it takes three times as long.

    One that is inherited from a process that forked this one speaks of that one.
    """
    return os.open(_STATM, os.O_RDONLY)


def _map_of(array: np.ndarray) -> _Map | None:
    base: object = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, _Map) else None


def in_memory(array: np.ndarray) -> int:
    """Bytes of an array that count as memory."""
    return 0 if array.base is not None and _map_of(array) is not None else array.nbytes


def fresh(like: np.ndarray, shape: int | tuple[int, ...], dtype: np.dtype | type | None = None) -> np.ndarray:
    """An empty array where another one lies."""
    shape = shape if isinstance(shape, tuple) else (shape,)
    dtype = like.dtype if dtype is None else dtype
    lies = None if like.base is None else _map_of(like)
    return paged(shape, dtype) if lies is None else lies.files.empty(shape, dtype)


def extended(array: np.ndarray, n: int) -> np.ndarray | None:
    """The same rows at the same places, and room for n in all; None where that takes a copy.

    The array that is given, and every view of it, is not to be used any more.
    """
    lies = _map_of(array)
    if lies is None:
        return lengthened(array, n)
    if 2 * n * array.strides[0] < len(lies):  # a file is never made shorter
        return None
    return lies.files.extended(array, n)


def own_memory() -> int:
    """Bytes of this process that lie in memory and in no file; 0 where that is not to be known."""
    try:
        _, resident, shared = _statm()
    except OSError:
        return 0
    return (resident - shared) * _PAGE


def give_back() -> None:
    """Let the system have what we, malloc and Arrow keep of arrays that are gone, where these can be asked to."""
    spare_blocks.empty()
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def keep_pages() -> None:
    """Let C's malloc keep what arrays of some 100 kB leave, which it may else give back, and take anew, for each one.

    An array of 4 MiB that is freed tells glibc to do so: its thresholds for arrays in pages of their own and for free
    memory at its end rise from 128 kB to that, and to twice as much (mallopt(3), M_MMAP_THRESHOLD), as they do in any
    program that frees one. Nothing is set, so what a user has set holds; other mallocs take no notice.
    """
    np.empty(_KEPT_BY_MALLOC, dtype=np.uint8)


@cache
def kept_pool() -> pa.MemoryPool:
    """For arrays that stay while others go: ``give_back`` gives back its free pages, however few lie together."""
    return pa.system_memory_pool()


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another system's, or another malloc
        return None
    return trim


def slide(into: np.ndarray, at: int, source: np.ndarray) -> None:
    """Copy bytes or rows to a place that does not lie behind them, piece by piece."""
    lies = None if into.base is None else _map_of(into)
    step = max(1, _PIECE // max(1, source.strides[0] if source.ndim else 1))
    for start in range(0, len(source), step):
        piece = source[start : start + step]
        into[at + start : at + start + len(piece)] = piece
        if lies is not None:
            lies.files.settle(_PIECE)
