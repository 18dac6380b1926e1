"""What numba's front end looks for again and again, found once; and what it does for arrays, left out for words.

While a kernel is made into an object file (``lean``), under numba's lock, some of its functions are replaced by these.
They change what is asked and written, not what the code does. A numba in which one of them is elsewhere is an error
there, after which numba's own way is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from llvmlite import ir
from numba.core import base, byteflow, lowering, ssa, transforms, typeinfer, types
from numba.core import ir as numba_ir
from numba.core.base import BaseContext, OverloadSelector
from numba.core.errors import NumbaNotImplementedError, WarningsFixer  # type: ignore[attr-defined]
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor

from ivjoin.shj.kernels.word_lowering import IN_WORDS, has_only_words, typed

__all__ = ["AsItIs", "OwnsNothing", "Typing", "asked_once"]

_NOTHING = nullcontext()
_WITHOUT_VARIABLES = {str, int, bool, type(None), numba_ir.Loc}
_PLAIN = ir.IntType, ir.PointerType, ir.FloatType, ir.DoubleType


class AsItIs:
    """A context of numba's that looks for no new declarations; :func:`asked_once` has it look before.

    Where lowering misses one, numba looks for itself.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def refresh(self) -> None:
        """Nothing."""


class Typing(AsItIs):
    """numba's rules of types, with what they said: they are asked some thousand times, of few types."""

    def __init__(self, rules: Any) -> None:
        super().__init__(rules)
        self._said: dict[Any, Any] = {}
        self._attributes_said: dict[Any, Any] = {}
        self._values_said: dict[int, tuple[Any, Any]] = {}

    def resolve_function_type(self, function: Any, arguments: Any, named: Any) -> Any:
        if isinstance(function, types.Dispatcher):  # one for all numbers, and not one more for 0
            arguments = tuple(types.unliteral(a) for a in arguments)  # type: ignore[attr-defined]
        if not named and has_only_words(function, plain := tuple(map(types.unliteral, arguments))):  # type: ignore[attr-defined]
            return typed(function, plain)
        if named or not isinstance(function, types.Function):
            return self._context.resolve_function_type(function, arguments, named)
        question = function, arguments
        if (said := self._said.get(question)) is None:
            said = self._said[question] = self._context.resolve_function_type(function, arguments, named)
        return said

    def resolve_getattr(self, kind: Any, name: str) -> Any:
        question = kind, name
        if (said := self._attributes_said.get(question)) is None:
            said = self._attributes_said[question] = self._context.resolve_getattr(kind, name)
        return said

    def resolve_value_type(self, value: Any) -> Any:
        said = self._values_said.get(id(value))
        if said is None:  # with the value, so that no other comes to have its number
            said = self._values_said[id(value)] = value, self._context.resolve_value_type(value)
        return said[1]


def _processed(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """What numba does between two passes, but for when each variable is last used: a word has no memory to free."""
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)


def _variables(self: Any, within: Any) -> list[Any]:
    """The variables of an instruction; most of what is in one is none, which numba asks five times to know."""
    if type(within) is numba_ir.Var:
        return [within]
    if type(within) not in (dict, list, tuple):
        return within.list_vars() if isinstance(within, numba_ir.Inst) else []
    found: list[Any] = []
    for it in within.values() if type(within) is dict else within:
        if type(it) is numba_ir.Var:
            found.append(it)
        elif type(it) not in _WITHOUT_VARIABLES:
            found += _variables(self, it)
    return found


def _in_no_words(*_about: Any, **_told: Any) -> Any:
    """In place of where numba is, for its messages: an error in a kernel is not shown, numba's own way follows it."""
    return _NOTHING


class _Silent:
    """In place of a log: numba tells it each statement some ten times over."""

    def debug(self, *_about: Any) -> None:
        """Nothing."""


def _store(self: Any, value: Any, name: str, argidx: Any = None) -> None:
    """Give a variable its value: what it held owns nothing, so numba's way, to load that first, is not gone."""
    if not isinstance(self.library, OwnsNothing):
        _numbas_store(self, value, name, argidx)
        return
    self._alloca_var(name, self.typeof(name))
    if name in self._singly_assigned_vars:
        self._blk_local_varmap[name] = value
    else:
        self.builder.store(value, self.getvar(name))


def _takes(self: Any, kind: Any, value: Any) -> None:
    if not isinstance(self.library, OwnsNothing):
        _numbas_takes(self, kind, value)


def _gives(self: Any, kind: Any, value: Any) -> None:
    if not isinstance(self.library, OwnsNothing):
        _numbas_gives(self, kind, value)


_numbas_store, _numbas_takes, _numbas_gives = Lower.storevar, Lower.incref, Lower.decref


class OwnsNothing:
    """A library whose functions' values are words, and arrays that are another's: nothing is counted."""


@contextmanager
def asked_once(target: Any) -> Iterator[None]:
    """What lowering asks of each operator and each variable is found once: calls' types, and sizes of plain values.

    numba forgets both, and to find a size it has LLVM read a module of its own. Under numba's lock.
    """
    target.refresh()
    call_type, size, attribute = types.Function.get_call_type, BaseContext.get_abi_sizeof, BaseContext.get_getattr
    takes_place = base._has_loc
    types_said: dict[Any, Any] = {}
    sizes_said: dict[str, int] = {}
    attributes_said: dict[Any, Any] = {}
    places_said: dict[Any, bool] = {}
    missed: set[Any] = set()

    def remembered_attribute(self: Any, kind: Any, name: str) -> Any:
        if isinstance(kind, types.Module):  # type: ignore[attr-defined]
            return attribute(self, kind, name)
        question = kind, name
        if (said := attributes_said.get(question)) is None:
            said = attributes_said[question] = attribute(self, kind, name)
        return said

    def found(self: Any, kinds: Any) -> Any:
        if (said := self._cache.get(kinds)) is None:
            question = id(self), len(self.versions), kinds
            if question in missed:
                raise NumbaNotImplementedError("none of these types")
            try:
                said = self._cache[kinds] = self._find(kinds)
            except NumbaNotImplementedError:
                missed.add(question)
                raise
        return said

    def remembered_place(function: Any) -> bool:
        if (said := places_said.get(function)) is None:
            said = places_said[function] = takes_place(function)
        return said

    def remembered_type(self: Any, context: Any, arguments: Any, named: Any) -> Any:
        if named:
            return call_type(self, context, arguments, named)
        question = self, arguments
        if (said := types_said.get(question)) is None:
            said = types_said[question] = call_type(self, context, arguments, named)
        return said

    def remembered_size(self: Any, kind: Any) -> int:
        if not isinstance(kind, _PLAIN):
            return int(size(self, kind))
        question = str(kind)
        if (said := sizes_said.get(question)) is None:
            said = sizes_said[question] = size(self, kind)
        return said

    silent = _Silent()
    methods: tuple[tuple[Any, str, Any, Any], ...] = (
        *IN_WORDS,
        (BaseContext, "get_getattr", remembered_attribute, attribute),
        (OverloadSelector, "find", found, OverloadSelector.find),
        (base, "_has_loc", remembered_place, takes_place),
        (Lower, "storevar", _store, _numbas_store),
        (Lower, "incref", _takes, _numbas_takes),
        (Lower, "decref", _gives, _numbas_gives),
        (ssa, "_logger", silent, ssa._logger),
        (byteflow, "_logger", silent, byteflow._logger),
        (types.Function, "get_call_type", remembered_type, call_type),
        (BaseContext, "get_abi_sizeof", remembered_size, size),
        (numba_ir.Inst, "_rec_list_vars", _variables, numba_ir.Inst._rec_list_vars),
        (PostProcessor, "run", _processed, PostProcessor.run),
        (WarningsFixer, "catch_warnings", _in_no_words, WarningsFixer.catch_warnings),
        (typeinfer, "new_error_context", _in_no_words, typeinfer.new_error_context),
        (lowering, "new_error_context", _in_no_words, lowering.new_error_context),
    )  # fmt: skip
    for owner, name, ours, _ in methods:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for owner, name, _, theirs in methods:
            setattr(owner, name, theirs)
