"""The functions of ``memory`` for ``NUMBA_DISABLE_JIT=1``: an access outside an array or block raises IndexError."""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

__all__ = [
    "add", "address_of", "c_callback", "call", "free", "held_blocks", "item_at", "line_of", "load", "malloc",
    "pointer_to", "save",
]

_blocks: dict[int, Any] = {}
_ends: dict[int, int] = {}  # the end of each known region, by its beginning
_begins: list[int] = []
_lock = threading.RLock()  # reentrant: an array may be collected, with its callback, while its thread has the lock
_dead: deque[tuple[int, ref[np.ndarray]]] = deque()  # collected arrays, whose regions are still in the table


def _know(begin: int, size: int) -> None:
    with _lock:
        _bury()
        if begin not in _ends:
            insort(_begins, begin)
        _ends[begin] = begin + size


def _forget(begin: int) -> None:
    if _ends.pop(begin, None) is not None:
        _begins.remove(begin)


def _bury() -> None:
    while _dead:
        begin, dead = _dead.popleft()
        if _watched.get(begin) is dead:
            del _watched[begin]
            _forget(begin)


def _region(address: int) -> tuple[int, int] | None:
    """Return where the known region with an address begins and ends, or None."""
    with _lock:
        _bury()
        i = bisect_right(_begins, address) - 1
        if i >= 0 and address < (end := _ends[_begins[i]]):
            return _begins[i], end
    return None


class _Pointer:
    """Values of one type from an address on. An access outside a known region raises IndexError."""

    def __init__(self, kind: Any, dtype: Any, address: int) -> None:
        self._kind, self._dtype, self._at = kind, dtype, int(address)
        self._bounds = _region(self._at)

    def _cell(self, i: int) -> Any:
        size = ctypes.sizeof(self._kind)
        at = self._at + size * int(i)
        if self._bounds is not None and not self._bounds[0] <= at <= self._bounds[1] - size:
            raise IndexError(f"item {i} of {self._dtype.__name__} from byte {self._at - self._bounds[0]} on lies "
                             f"outside of {self._bounds[1] - self._bounds[0]} bytes")  # fmt: skip
        return self._kind.from_address(at)

    def __getitem__(self, i: int) -> Any:
        return self._dtype(self._cell(i).value)

    def __setitem__(self, i: int, value: Any) -> None:
        self._cell(i).value = value if self._kind in (ctypes.c_float, ctypes.c_double) else int(value)


def pointer_to(name: str) -> Callable[[int], _Pointer]:
    dtype = getattr(np, name)
    kind = np.ctypeslib.as_ctypes_type(dtype)
    return lambda address: _Pointer(kind, dtype, address)


_word_at = pointer_to("int64")


def load(address: int) -> Any:
    return _word_at(address)[0]


def save(address: int, value: int) -> None:
    _word_at(address)[0] = value


def item_at(address: int, offset: int, size: int) -> int:
    """Return the address at an offset; raise IndexError if ``size`` bytes there leave the region of ``address``."""
    if (bounds := _region(address)) is not None and not bounds[0] <= address + offset <= bounds[1] - size:
        begin, end = bounds
        raise IndexError(f"{size} bytes from byte {address - begin + offset} on lie outside of {end - begin} bytes")
    return address + offset


def address_of(array: np.ndarray) -> int:
    """Return the address of an array; its region is known as long as the array lives."""
    address: int = pa.py_buffer(array).address
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner.nbytes:
        begin = owner.ctypes.data
        _know(begin, owner.nbytes)
        _watch(owner, begin)
    return address


_watched: dict[int, ref[np.ndarray]] = {}


def _watch(owner: np.ndarray, begin: int) -> None:
    with _lock:
        if (seen := _watched.get(begin)) is None or seen() is not owner:
            _watched[begin] = ref(owner, lambda dead: _dead.append((begin, dead)))


def malloc(size: int) -> int:
    block = ctypes.create_string_buffer(b"\xa5" * int(size), int(size))
    address = ctypes.addressof(block)
    _blocks[address] = block
    _know(address, int(size))
    return address


def free(address: int) -> None:
    with _lock:
        _forget(int(address))
    del _blocks[int(address)]  # a double free raises KeyError


def held_blocks() -> int:
    return len(_blocks)


def add(address: int, amount: int) -> int:
    cell = ctypes.c_int64.from_address(int(address))
    with _lock:
        before = cell.value
        cell.value = before + int(amount)
    return before


def prefetch(address: int) -> None:
    """Do nothing: prefetching is a hint."""


def line_of(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1)


def call(callback: int, argument: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(int(callback))(int(argument))


def c_callback(function: Callable[[int], None]) -> tuple[Any, int]:
    made = ctypes.CFUNCTYPE(None, ctypes.c_int64)(function)
    return made, int(ctypes.cast(made, ctypes.c_void_p).value or 0)
