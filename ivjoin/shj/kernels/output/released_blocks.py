"""Free the block of an output batch when the last array in it is released."""

from __future__ import annotations

import ctypes
from functools import cache

from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import COMPILES, I8, VOID, callback
from ivjoin.shj.kernels.plain_memory import c_callback

__all__ = ["release_block"]


def _release(array):
    # A consumer may have moved children out. Their callbacks here are then cleared, and they are released elsewhere,
    # maybe by another thread. The block's first word counts the arrays that are not released yet.
    children = mem.load(array + mem.CHILDREN)
    for i in range(mem.load(array + mem.N_CHILDREN)):
        child = mem.load(children + 8 * i)
        if mem.load(child + mem.RELEASE) != 0:
            mem.release(child)
    block = mem.load(array + mem.PRIVATE)
    mem.save(array + mem.RELEASE, 0)
    if mem.add(block, -1) == 1:
        mem.free(block)


CALLBACKS = ((_release, VOID(I8)),)  # kernels that C calls


@cache
def release_block() -> int:
    """Return the address of the release callback of an ArrowArray, whose ``private_data`` is the block's address."""
    if COMPILES:
        made = callback(VOID(I8), _release)
        address = int(made.address)
    else:
        made, address = c_callback(_release)
    # Arrays may outlive this module, so their callback must outlive it too.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return address
