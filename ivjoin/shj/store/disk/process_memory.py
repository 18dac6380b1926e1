"""Measure the memory of this process, and return freed memory to the system."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import cache

import pyarrow as pa

__all__ = ["give_back", "kept_pool", "own_memory", "shared_memory"]

_STATM = "/proc/self/statm"


def shared_memory() -> int | None:
    """Return the resident bytes of this process that belong to files, or None if the system does not report them."""
    try:
        return _statm()[2] * mmap.PAGESIZE
    except OSError:
        return None


def _statm() -> list[int]:
    """Return this process's page counts: total, resident, and resident pages of files. Called in every step."""
    return [int(word) for word in os.pread(_statm_of(os.getpid()), 128, 0).split()[:3]]


@cache
def _statm_of(pid: int) -> int:
    """Return an open descriptor of ``/proc/self/statm`` for a process.

    A descriptor inherited by fork reports the parent.
    """
    return os.open(_STATM, os.O_RDONLY)


def own_memory() -> int:
    """Return the resident bytes of this process that do not belong to files, or 0 if the system does not report them.
    """
    try:
        _, resident, shared = _statm()
    except OSError:
        return 0
    return (resident - shared) * mmap.PAGESIZE


def give_back() -> None:
    """Return freed memory that malloc and Arrow still cache to the system, where they support this."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def kept_pool() -> pa.MemoryPool:
    """Return a pool for long-lived arrays. ``give_back`` can return its free pages even if few are contiguous."""
    return pa.system_memory_pool()


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another system or another malloc
        return None
    return trim
