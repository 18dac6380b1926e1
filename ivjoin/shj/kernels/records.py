"""Access records at an address: ``side_at(table, 1).live``."""

from __future__ import annotations

import ctypes
from typing import Any

from ivjoin.shj import registers
from ivjoin.shj.kernels import plain_memory
from ivjoin.shj.kernels.compiling import COMPILES, Later

__all__ = [
    "bound_at", "expiry_at", "field_at", "key_word_at", "operator_at", "piece_at", "ring_at", "side_at",
    "slice_at", "source_at", "stored_at", "sum_at", "term_at", "text_at", "tracker_at",
]


class _Plain(ctypes.Structure):
    """A record without a compiler; it also accepts numpy's integers and bools."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, int(value))


def _entry_of(dtype: Any) -> Any:
    """Return a function that converts a table's address and an index to the record there."""
    size = dtype.itemsize
    if not COMPILES:
        plain = type("Record", (_Plain,), {"_fields_": [(name, ctypes.c_int64) for name in dtype.names]})
        return lambda address, index: plain.from_address(  # type: ignore[attr-defined]
            plain_memory.item_at(int(address), size * int(index), size)
        )

    def make() -> Any:
        from ivjoin.shj.kernels import intrinsics

        return intrinsics.record_of(dtype)

    return Later(make)


operator_at = _entry_of(registers.OPERATOR)
side_at = _entry_of(registers.SIDE)
source_at = _entry_of(registers.SOURCE)
tracker_at = _entry_of(registers.TRACKER)
term_at = _entry_of(registers.TERM)
bound_at = _entry_of(registers.BOUND)
expiry_at = _entry_of(registers.EXPIRY)
stored_at = _entry_of(registers.STORED)
sum_at = _entry_of(registers.SUM)
field_at = _entry_of(registers.FIELD)
piece_at = _entry_of(registers.KEY_PIECE)
key_word_at = _entry_of(registers.KEY_WORD)
ring_at = _entry_of(registers.RING)
text_at = _entry_of(registers.TEXT)
slice_at = _entry_of(registers.SLICE)
