"""Raw memory inside compiled code: loads and stores by address, and Arrow's C data interface.

Addresses are int64. The layout is that of ``struct ArrowArray`` in the Arrow C data interface specification
(https://arrow.apache.org/docs/format/CDataInterface.html), for 64-bit machines.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from ivjoin.shj.compiling import inner

__all__ = [
    "ARROW_ARRAY", "BUFFERS", "CHILDREN", "LENGTH", "NULL_COUNT", "N_BUFFERS", "N_CHILDREN", "OFFSET", "PRIVATE",
    "RELEASE", "add", "at_f32", "at_f64", "at_i8", "at_i16", "at_i32", "at_i64", "at_u8", "at_u16", "at_u32", "at_u64",
    "free", "ints", "ints2", "load", "malloc", "octets", "release", "release_block", "release_struct", "save",
]

# Offsets in struct ArrowArray, and its size.
LENGTH, NULL_COUNT, OFFSET, N_BUFFERS, N_CHILDREN, BUFFERS, CHILDREN, DICTIONARY, RELEASE, PRIVATE = range(0, 80, 8)
ARROW_ARRAY = 80

malloc = types.ExternalFunction("malloc", types.int64(types.int64))
free = types.ExternalFunction("free", types.void(types.int64))


def _pointer_to(item: Any) -> Any:
    @intrinsic
    def pointer(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(types.CPointer(item)))

        return types.CPointer(item)(types.int64), generate

    return pointer


at_i8, at_i16, at_i32, at_i64 = (_pointer_to(t) for t in (types.int8, types.int16, types.int32, types.int64))
at_u8, at_u16, at_u32, at_u64 = (_pointer_to(t) for t in (types.uint8, types.uint16, types.uint32, types.uint64))
at_f32, at_f64 = (_pointer_to(t) for t in (types.float32, types.float64))


@intrinsic
def release(_context, address):  # type: ignore[no-untyped-def]
    """Call the release callback of the ArrowArray at an address."""

    def generate(context, builder, _signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(64)
        slot = builder.inttoptr(builder.add(args[0], ir.Constant(word, RELEASE)), word.as_pointer())
        callback = ir.FunctionType(ir.VoidType(), [word]).as_pointer()
        builder.call(builder.inttoptr(builder.load(slot), callback), [args[0]])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@inner
def load(address):  # type: ignore[no-untyped-def]
    return at_i64(address)[0]


@inner
def save(address, value):  # type: ignore[no-untyped-def]
    at_i64(address)[0] = value


@inner
def ints(address, n):  # type: ignore[no-untyped-def]
    return carray(at_i64(address), (n,))


@inner
def ints2(address, n, m):  # type: ignore[no-untyped-def]
    return carray(at_i64(address), (n, m))


@inner
def octets(address, n):  # type: ignore[no-untyped-def]
    return carray(at_u8(address), (n,))


@intrinsic
def add(_context, address, amount):  # type: ignore[no-untyped-def]
    """Add to the word at an address, whatever other threads do with it; what it was before."""

    def generate(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        slot = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", slot, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


def _release(array: Any) -> None:
    # A consumer may have moved children out: those have no callback here any more, and are released where they are,
    # maybe by another thread. The block in which all of it lies goes with the last of them.
    children = load(array + CHILDREN)
    for i in range(load(array + N_CHILDREN)):
        child = load(children + 8 * i)
        if load(child + RELEASE) != 0:
            release(child)
    block = load(array + PRIVATE)
    save(array + RELEASE, 0)
    if add(block, -1) == 1:
        free(block)


@cache
def release_block() -> int:
    """Address of the release callback of an ArrowArray, or one of its children, in a block made by malloc.

    ``private_data`` of each is the block, whose first word counts how many of them are not yet released.
    """
    signature = types.void(types.int64)
    try:
        callback = numba.cfunc(signature, cache=True)(_release)
    except RuntimeError:  # no folder to keep it in
        callback = numba.cfunc(signature)(_release)
    # Arrays may outlive this module's teardown: the code they call must outlive them.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(callback))
    return int(callback.address)


def release_struct(address: int) -> None:
    """Release the ArrowArray at an address, if there is one."""
    callback = ctypes.c_void_p.from_address(address + RELEASE).value
    if callback:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(callback)(address)
