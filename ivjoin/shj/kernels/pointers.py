"""Load and store by address (int64), with the offsets of ``struct ArrowArray`` (Arrow C data interface, 64 bits)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.shj.kernels import plain_memory
from ivjoin.shj.kernels.compiling import COMPILES, Later, inner

__all__ = [
    "AHEAD", "ARROW_ARRAY", "BUFFERS", "CHILDREN", "LENGTH", "NULL_COUNT", "N_BUFFERS", "N_CHILDREN", "OFFSET",
    "PRIVATE", "RELEASE", "add", "address_of", "at_f32", "at_f64", "at_i8", "at_i16", "at_i32", "at_i64", "at_u8",
    "at_u16", "at_u32", "at_u64", "free", "line_of", "load", "malloc", "prefetch", "release", "release_struct",
    "save",
]

# Offsets in struct ArrowArray, and its size.
LENGTH, NULL_COUNT, OFFSET, N_BUFFERS, N_CHILDREN, BUFFERS, CHILDREN, _, RELEASE, PRIVATE = range(0, 80, 8)
ARROW_ARRAY = 80

AHEAD = 8  # rows between prefetching memory and reading it

_WORDS = "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"


def _intrinsics() -> Any:
    from ivjoin.shj.kernels import intrinsics

    return intrinsics


def _pointer_to(name: str) -> Any:
    return Later(lambda: _intrinsics().pointer_to(name)) if COMPILES else plain_memory.pointer_to(name)


at_i8, at_i16, at_i32, at_i64, at_u8, at_u16, at_u32, at_u64, at_f32, at_f64 = map(_pointer_to, _WORDS)


def _primitive(name: str) -> Any:
    return Later(lambda: getattr(_intrinsics(), name)) if COMPILES else getattr(plain_memory, name)


_PRIMITIVES = "malloc", "free", "call", "add", "load", "save", "line_of", "prefetch"
malloc, free, call, add, load, save, line_of, prefetch = map(_primitive, _PRIMITIVES)


if COMPILES:

    def address_of(array: np.ndarray) -> int:
        """Return the address of an array."""
        address: int = pa.py_buffer(array).address  # six times as fast as ctypes
        return address
else:
    address_of = plain_memory.address_of


@inner
def release(array):
    call(load(array + RELEASE), array)


def release_struct(address: int) -> None:
    """Release the ArrowArray at an address, unless it is released already."""
    callback = ctypes.c_void_p.from_address(address + RELEASE).value
    if callback:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(callback)(address)
