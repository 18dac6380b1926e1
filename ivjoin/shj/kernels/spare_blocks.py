"""Memory of output batches that nobody refers to any more, kept for the next ones.

Whether malloc gives pages of a large block back to the system, to be faulted in and cleared again for the next batch,
depends on how the heap happens to lie. So a few blocks wait here when the last array in them is released, and an output
batch is written to one of about its size. Pools are tables of words: two numbers, then blocks, the one released last
first, and beside each how large it is. Threads put and take blocks by exchanging single words, and wait for nobody.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from ivjoin.shj.kernels import memory as mem
from ivjoin.shj.kernels.compiling import COMPILES, I8, VOID, callback, compiled, inner
from ivjoin.shj.kernels.plain_memory import c_callback

__all__ = ["LEAST", "MOST", "empty", "kept", "new_block", "pool", "release_block"]

LEAST = 1 << 15  # bytes of a block that is kept: below, malloc has it from what it never gives back
MOST = 1 << 25  # of all blocks in the process's pool
_PLACES = 24
_MOST, _KEPT, _BLOCKS = 0, 8, 16  # bytes that may be kept, and that are; then the table
_SIZES = _BLOCKS + 8 * _PLACES
_WORDS = 2 + 2 * _PLACES
_COUNT, _SIZE, _POOL = 0, 8, 16  # of a block: what is not yet released; its bytes; the pool that it goes to, or 0


@inner
def _rounded(size):  # type: ignore[no-untyped-def]
    """The next of eight sizes between a power of two and its double: batches differ by a few rows."""
    step = np.int64(16)
    while 16 * step < size:
        step += step
    return (size + step - 1) // step * step


@inner
def _put(pool, block):  # type: ignore[no-untyped-def]
    """Keep a block, in place of those that have waited longest; or free it."""
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
    """A block of ``size`` to ``most`` bytes that was kept, 0 for none."""
    at = pool + _BLOCKS
    for _ in range(_PLACES):
        seen = mem.load(at + _SIZES - _BLOCKS)  # of a block that another thread may have by now
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
    """A block of ``size`` bytes that begins with three words of this module's, of which the first counts what is in it.

    It is not of zeros. It is kept in the pool once all of it is released (0: in none); 0 if there is no memory.
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
    # A consumer may have moved children out: those have no callback here any more, and are released where they are,
    # maybe by another thread. The block in which all of it lies goes with the last of them.
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
    """Address of the release callback of an ArrowArray, or one of its children, in a block of this module's.

    ``private_data`` of each is the block, whose first word counts how many of them are not yet released.
    """
    if COMPILES:
        made = callback(VOID(I8), _release)
        address = int(made.address)
    else:
        made, address = c_callback(_release)
    # Arrays may outlive this module's teardown: the code they call must outlive them.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return address


@cache
def _table() -> np.ndarray:
    words = np.zeros(_WORDS, dtype=np.int64)
    # Uncompiled kernels look at every bound of a block, which they cannot of one that is larger than what is in it.
    words[0] = MOST if COMPILES else 0
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))  # as of the callback
    return words


def pool() -> int:
    """Address of the process's pool."""
    return mem.address_of(_table())


def kept() -> int:
    """Bytes that wait in it."""
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
    """Free all that waits in the process's pool."""
    if kept():
        _emptied(pool())
