"""Records at an address, inside compiled code: ``side_at(address).live``."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from ivjoin.shj import registers

__all__ = [
    "bound_at", "expiry_at", "field_at", "operator_at", "ring_at", "side_at", "source_at", "stored_at", "term_at",
    "tracker_at",
]


def _record_at(dtype: Any, table: bool) -> Any:
    """A function of an address, or of that of a table and an index, to the record there."""
    item = from_dtype(dtype)
    size = dtype.itemsize

    if table:

        @intrinsic
        def entry(_context: Any, address: Any, index: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                word = ir.IntType(64)
                offset = builder.mul(args[1], ir.Constant(word, size))
                return builder.inttoptr(builder.add(args[0], offset), context.get_value_type(item))

            return item(types.int64, types.int64), generate

        return entry

    @intrinsic
    def record(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(item))

        return item(types.int64), generate

    return record


operator_at = _record_at(registers.OPERATOR, False)
side_at = _record_at(registers.SIDE, True)
source_at = _record_at(registers.SOURCE, True)
tracker_at = _record_at(registers.TRACKER, True)
term_at = _record_at(registers.TERM, True)
bound_at = _record_at(registers.BOUND, True)
expiry_at = _record_at(registers.EXPIRY, True)
stored_at = _record_at(registers.STORED, True)
field_at = _record_at(registers.FIELD, True)
ring_at = _record_at(registers.RING, True)
