"""Words in LLVM's language, in fewer instructions than numba has for all types: calls, ``range``, ``min`` and ``max``.

A function still takes and returns what numba says, so that others may call it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.base import BaseContext, _wrap_impl
from numba.core.callconv import CPUCallConv, Status, errcode_t
from numba.core.cpu import CPUContext
from numba.core.types import Function, int64, none, range_iter64_type, range_state64_type
from numba.core.typing import signature as signed

__all__ = ["IN_WORDS", "has_only_words", "typed"]

_WORD = ir.IntType(64)
_OK = errcode_t(0)
_SCALAR = ir.IntType, ir.FloatType, ir.DoubleType


class Calls(CPUCallConv):
    """numba's convention, for functions without a ``try``: all that a caller asks is whether there was an error.

    Where there was, the exception lies where the caller is to leave it, which it hands on.
    """

    def call_function(
        self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None
    ) -> tuple[Any, Any]:
        result = self.get_return_type(resty).pointee
        if attrs is not None or not (resty == none or isinstance(result, _SCALAR)):
            given: tuple[Any, Any] = super().call_function(builder, callee, resty, argtys, args, attrs)
            return given
        place = cgutils.alloca_once(builder, result)
        packed = self._get_arg_packer(argtys).as_arguments(builder, args)
        exception = self._get_excinfo_argument(builder.function)
        code = builder.call(callee, [place, exception, *packed])
        failed = builder.icmp_signed("!=", code, _OK)
        value = self.context.get_returned_value(builder, resty, builder.load(place))
        return Status(code, None, None, failed, None, None, None, None), value

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        if status.is_ok is not None:
            super().return_status_propagate(builder, status)
        else:
            builder.ret(status.code)


def in_words(context: Any) -> bool:
    """Whether a context is one of a part of a kernel (``lean``), not of what numba compiles meanwhile."""
    return "in_words" in vars(context)


def has_only_words(function: Any, arguments: Any) -> bool:
    """Whether this is ``min`` or ``max`` of int64, or a ``range`` of them."""
    return (
        isinstance(function, Function)
        and function.typing_key in _OF_WORDS
        and bool(arguments)
        and all(kind == int64 for kind in arguments)
    )


def typed(function: Any, arguments: Any) -> Any:
    """The signature of such a function."""
    result = range_state64_type if function.typing_key is range else int64
    return signed(result, *arguments)


def found(self: Any, function: Any, signature: Any, _firstcall: bool = True) -> Any:
    """What writes a function's code: in place of ``get_function`` of numba's contexts."""
    if in_words(self):
        if isinstance(function, str):
            ours = _OF_RANGES.get((function, signature.args))
        else:
            ours = _OF_WORDS[function.typing_key] if has_only_words(function, signature.args) else None
        if ours is not None:
            return _wrap_impl(ours, self, signature)
    return _numbas_found(self, function, signature, _firstcall)


def part_of(index: int) -> Any:
    """``pair_first`` or ``pair_second`` of numba's contexts."""
    numbas = getattr(BaseContext, ("pair_first", "pair_second")[index])

    def one(self: Any, builder: Any, value: Any, kind: Any) -> Any:
        if in_words(self):
            return builder.extract_value(value, index)
        return numbas(self, builder, value, kind)

    return one


def _extreme(sign: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        best = args[0]
        for other in args[1:]:
            best = builder.select(builder.icmp_signed(sign, other, best), other, best)
        return best

    return generate


def _range(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    start, stop, step = {1: (_WORD(0), *args, _WORD(1)), 2: (*args, _WORD(1)), 3: args}[len(args)]
    return _together(builder, context.get_value_type(range_state64_type), (start, stop, step))


def _together(builder: Any, kind: Any, values: Any) -> Any:
    made = ir.Constant(kind, ir.Undefined)
    for i, value in enumerate(values):
        made = builder.insert_value(made, value, i)
    return made


def _begin(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """An iterator: where the next number lies, and the range's end and step."""
    start, stop, step = (builder.extract_value(args[0], i) for i in range(3))
    place = cgutils.alloca_once(builder, _WORD)
    builder.store(start, place)
    return _together(builder, context.get_value_type(range_iter64_type), (place, stop, step))


def _next(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The next number, and whether there is one.

    No kernel has a step of 0, which ``range`` refuses, nor an end less than a step from the last of int64.
    """
    place, stop, step = (builder.extract_value(args[0], i) for i in range(3))
    value = builder.load(place)
    more = builder.select(
        builder.icmp_signed(">", step, _WORD(0)),
        builder.icmp_signed("<", value, stop),
        builder.icmp_signed(">", value, stop),
    )
    builder.store(builder.add(value, step), place)
    return _together(builder, context.get_value_type(signature.return_type), (value, more))


_OF_WORDS = {range: _range, min: _extreme("<"), max: _extreme(">")}
_OF_RANGES = {("getiter", (range_state64_type,)): _begin, ("iternext", (range_iter64_type,)): _next}
_numbas_calls: Any = CPUContext.call_conv
_calls = property(lambda self: Calls(self) if in_words(self) else _numbas_calls.fget(self))
_numbas_found = BaseContext.get_function
IN_WORDS: tuple[tuple[Any, str, Any, Any], ...] = (
    (CPUContext, "call_conv", _calls, _numbas_calls),
    (BaseContext, "get_function", found, _numbas_found),
    (BaseContext, "pair_first", part_of(0), BaseContext.pair_first),
    (BaseContext, "pair_second", part_of(1), BaseContext.pair_second),
)
