"""Operations on addresses, as LLVM code: pointers, records, C functions, calls, atomic sums, prefetch."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = ["add", "call", "free", "line_of", "load", "malloc", "pointer_to", "prefetch", "record_of", "save"]

malloc = types.ExternalFunction("malloc", types.int64(types.int64))
free = types.ExternalFunction("free", types.void(types.int64))


def pointer_to(name: str) -> Any:
    """Return a function that converts an address to a pointer to a type such as ``"int64"``."""
    item = getattr(types, name)

    @intrinsic
    def pointer(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(types.CPointer(item)))

        return types.CPointer(item)(types.int64), generate

    return pointer


def record_of(dtype: Any) -> Any:
    """Return a function that converts a table's address and an index to the record there."""
    item, size = from_dtype(dtype), dtype.itemsize

    @intrinsic
    def entry(_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            offset = builder.mul(args[1], ir.Constant(ir.IntType(64), size))
            return builder.inttoptr(builder.add(args[0], offset), context.get_value_type(item))

        return item(types.int64, types.int64), generate

    return entry


@intrinsic
def call(_context, callback, argument):
    def generate(context, builder, _signature, args):
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)]).as_pointer()
        builder.call(builder.inttoptr(args[0], function), [args[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def load(_context, address):
    def generate(_context, builder, _signature, args):
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def save(_context, address, value):
    def generate(context, builder, _signature, args):
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def add(_context, address, amount):
    """Add atomically to the word at an address; return the old value."""

    def generate(_context, builder, _signature, args):
        slot = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", slot, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def prefetch(_context, address):
    """Prefetch the cache line of an address, which need not be valid."""

    def generate(context, builder, _signature, args):
        at, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        ask = builder.module.declare_intrinsic(
            "llvm.prefetch", [at], ir.FunctionType(ir.VoidType(), [at, flag, flag, flag])
        )
        builder.call(ask, [builder.inttoptr(args[0], at), flag(0), flag(3), flag(1)])  # to read, often, data
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def line_of(_context, array):
    """Return a one-dimensional view of a C-contiguous array; the view holds no reference."""
    line = array.copy(ndim=1)

    def generate(context, builder, signature, args):
        given = context.make_array(array)(context, builder, args[0])
        made = context.make_array(line)(context, builder)
        populate_array(made, given.data, [given.nitems], [given.itemsize], given.itemsize, None)
        return made._getvalue()

    return line(array), generate
