"""A pool of memory blocks of released output batches, for the next output batches.

malloc may return the pages of a large block to the system, which must then be faulted in and cleared again for the next
batch. Whether it does depends on the layout of the heap. So a block enters this pool when the last array in it is
released, and an output batch reuses a block of about its size. A pool is a table of words: two numbers, then the
blocks, the one released last first, and the sizes of the blocks. Threads insert and take blocks by atomic swaps of
single words, without locks.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from ivjoin.shj.kernels import memory as mem
from ivjoin.shj.kernels.compiling import COMPILES, I8, VOID, callback, compiled, inner
from ivjoin.shj.kernels.plain_memory import c_callback

__all__ = ["LEAST", "MOST", "empty", "kept", "new_block", "pool", "release_block"]

LEAST = 1 << 15  # bytes of the smallest block in the pool; malloc never returns smaller ones to the system
MOST = 1 << 25  # bytes of all blocks in the process's pool, at most
_PLACES = 24
_MOST, _KEPT, _BLOCKS = 0, 8, 16  # offsets of the bytes allowed, the bytes stored, and the table
_SIZES = _BLOCKS + 8 * _PLACES
_WORDS = 2 + 2 * _PLACES
_COUNT, _SIZE, _POOL = 0, 8, 16  # words of a block: arrays not yet released; its bytes; its pool, or 0


@inner
def _rounded(size):  # type: ignore[no-untyped-def]
    """Round up to one of eight sizes between a power of two and its double, because batches differ by a few rows."""
    step = np.int64(16)
    while 16 * step < size:
        step += step
    return (size + step - 1) // step * step


@inner
def _put(pool, block):  # type: ignore[no-untyped-def]
    """Store a block in the pool, in place of the oldest ones if it is full; or free the block."""
    size = mem.load(block + _SIZE)
    most = mem.load(pool + _MOST)
    if size > most:
        mem.free(block)
        return
    mem.add(pool + _KEPT, size)
    for i in range(_PLACES):
        if mem.load(pool + _KEPT) <= most:
            break
        other = mem.swap(pool + _BLOCKS + 8 * (_PLACES - 1 - i), 0)
        if other != 0:
            mem.add(pool + _KEPT, -mem.load(other + _SIZE))
            mem.free(other)
    at = pool + _BLOCKS
    for _ in range(_PLACES):
        size = mem.load(block + _SIZE)
        block = mem.swap(at, block)
        mem.save(at + _SIZES - _BLOCKS, size)
        if block == 0:
            return
        at += 8
    mem.add(pool + _KEPT, -mem.load(block + _SIZE))
    mem.free(block)


@inner
def _taken(pool, size, most):  # type: ignore[no-untyped-def]
    """Take a block of ``size`` to ``most`` bytes from the pool, or return 0."""
    at = pool + _BLOCKS
    for _ in range(_PLACES):
        seen = mem.load(at + _SIZES - _BLOCKS)  # another thread may have taken the block by now
        if seen >= size and seen <= most:
            block = mem.swap(at, 0)
            if block != 0:
                much = mem.load(block + _SIZE)
                if much >= size and much <= most:
                    mem.add(pool + _KEPT, -much)
                    return block
                mem.add(pool + _KEPT, -much)
                _put(pool, block)
        at += 8
    return np.int64(0)


@inner
def new_block(pool, size):  # type: ignore[no-untyped-def]
    """Return a block of ``size`` bytes whose first three words are this module's; 0 if there is no memory.

    The first word counts the arrays in it. The block is not zeroed. When all arrays are released, it returns to
    ``pool``; 0 means no pool.
    """
    if pool == 0 or size < LEAST:
        block = mem.malloc(size)
        if block != 0:
            mem.save(block + _POOL, 0)
        return block
    size = _rounded(size)
    block = _taken(pool, size, size + (size >> 3))
    if block == 0:
        block = mem.malloc(size)
        if block != 0:
            mem.save(block + _SIZE, size)
            mem.save(block + _POOL, pool)
    return block


def _release(array):  # type: ignore[no-untyped-def]
    # A consumer may have moved children out. Their callbacks here are then cleared, and they are released elsewhere,
    # maybe by another thread. The last release frees the block that contains all of them.
    children = mem.load(array + mem.CHILDREN)
    for i in range(mem.load(array + mem.N_CHILDREN)):
        child = mem.load(children + 8 * i)
        if mem.load(child + mem.RELEASE) != 0:
            mem.release(child)
    block = mem.load(array + mem.PRIVATE)
    mem.save(array + mem.RELEASE, 0)
    if mem.add(block + _COUNT, -1) == 1:
        pool = mem.load(block + _POOL)
        if pool == 0:
            mem.free(block)
        else:
            _put(pool, block)


CALLBACKS = ((_release, VOID(I8)),)  # kernels that C calls


@cache
def release_block() -> int:
    """Return the address of the release callback of an ArrowArray, or one of its children, in a block.

    ``private_data`` of each is the address of the block.
    """
    if COMPILES:
        made = callback(VOID(I8), _release)
        address = int(made.address)
    else:
        made, address = c_callback(_release)
    # Arrays may outlive this module, so their callback must outlive it too.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return address


@cache
def _table() -> np.ndarray:
    words = np.zeros(_WORDS, dtype=np.int64)
    # Uncompiled kernels check the bounds of blocks, which fails for reused blocks that are larger than their batch.
    words[0] = MOST if COMPILES else 0
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))  # as for the callback
    return words


def pool() -> int:
    """Return the address of the process's pool."""
    return mem.address_of(_table())


def kept() -> int:
    """Return the bytes in the process's pool."""
    return int(_table()[1])


@compiled(I8(I8))
def _emptied(pool):  # type: ignore[no-untyped-def]
    for i in range(_PLACES):
        block = mem.swap(pool + _BLOCKS + 8 * i, 0)
        if block != 0:
            mem.add(pool + _KEPT, -mem.load(block + _SIZE))
            mem.free(block)
    return mem.load(pool + _KEPT)


def empty() -> None:
    """Free all blocks in the process's pool."""
    if kept():
        _emptied(pool())
