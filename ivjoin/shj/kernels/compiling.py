"""Compile the loops of the join once, with fixed signatures, and cache them on disk by content.

``building`` compiles each kernel to an object file. ``objects`` stores the file and loads it without numba. ``python -m
ivjoin.shj.kernels.everything`` compiles all kernels, as an installation does. Another process (``apart``) compiles a
missing kernel at its first call. With ``NUMBA_DISABLE_JIT=1`` all run uncompiled.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from pyarrow import py_buffer

from ivjoin.shj.kernels import apart, objects

__all__ = [
    "COMPILES", "I8", "IN1", "IN1_F8", "IN1_I4", "IN2", "IN2_I4", "IN_U8", "IO1", "IO1_F8", "IO1_I4", "IO2", "IO2_I4",
    "IO_U8", "VOID", "Later", "callback", "compile_all", "compiled", "inner", "is_on_disk", "kernels_of", "key",
]


@dataclass(frozen=True)
class _Signature:
    result: _Kind
    arguments: tuple[_Kind, ...]

    def in_numba(self) -> Any:
        return self.result.in_numba()(*(kind.in_numba() for kind in self.arguments))

    def has_only_words(self) -> bool:
        return all(kind == I8 for kind in self.arguments)

    def over(self, loaded: objects.Loaded) -> Callable[..., Any]:
        """Return the kernel as a function of the declared arguments; an array is passed as its address and lengths."""
        words = sum(1 + kind.dimensions for kind in self.arguments)
        function = loaded.python(words, self.result == I8)
        if self.has_only_words():
            return function
        kinds = [(kind.dimensions, np.dtype(kind.name)) for kind in self.arguments]

        def call(*arguments: Any) -> Any:
            words = []
            for (dimensions, dtype), given in zip(kinds, arguments, strict=True):
                if dimensions == 0:
                    words.append(int(given))
                elif given.dtype != dtype or given.ndim != dimensions or not given.flags.c_contiguous:
                    raise TypeError(f"a kernel takes {dtype}[{dimensions}], not {given.dtype}[{given.ndim}]")
                else:
                    words.append(py_buffer(given).address)
                    words += given.shape
            return function(*words)

        return call


@dataclass(frozen=True)
class _Kind:
    """The type of a kernel's argument or result; converted to a numba type when numba is needed."""

    name: str
    dimensions: int = 0
    readonly: bool = False

    def __call__(self, *arguments: _Kind) -> _Signature:
        return _Signature(self, arguments)

    def in_numba(self) -> Any:
        from numba import types

        item = getattr(types, self.name)
        return types.Array(item, self.dimensions, "C", readonly=self.readonly) if self.dimensions else item


I8 = _Kind("int64")
IN1, IN2 = _Kind("int64", 1, readonly=True), _Kind("int64", 2, readonly=True)
IO1, IO2 = _Kind("int64", 1), _Kind("int64", 2)
IN_U8, IO_U8 = _Kind("uint8", 1, readonly=True), _Kind("uint8", 1)
IN1_I4, IN2_I4 = _Kind("int32", 1, readonly=True), _Kind("int32", 2, readonly=True)
IO1_I4, IO2_I4 = _Kind("int32", 1), _Kind("int32", 2)
IN1_F8, IO1_F8 = _Kind("float64", 1, readonly=True), _Kind("float64", 1)
VOID = _Kind("void")


def _is_set(name: str) -> bool:
    """Return a switch of numba. numba itself decides if more than the environment can configure it."""
    if "numba" in sys.modules or Path(".numba_config.yaml").exists():
        import numba

        return bool(getattr(numba.config, name))
    return os.environ.get(f"NUMBA_{name}", "0").strip() not in ("", "0")


COMPILES = not _is_set("DISABLE_JIT")


def _digest(room: Path) -> str:
    """Return a digest of every file in the package.

    numba checks only the file that defines a function. No file of this package imports a constant from outside it.
    """
    digest = hashlib.sha256()
    for name, content in sorted(objects.sources(room).items()):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


# Computed at import: code of older sources must not be stored under the digest of newer files.
_STAMP = _digest(Path(__file__).parent.parent)


class Later:
    """A part of kernels that is created when the first kernel that uses it compiles."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.made = cache(make)


def _ready(function: Any) -> Any:
    """Return the same function after creating the parts that it calls, and the parts that those call."""
    used = function.__code__.co_names
    owners = [function.__globals__]
    owners += [vars(it) for name in used if isinstance(it := owners[0].get(name), ModuleType) and _is_ours(it)]
    for owner in owners:
        for name in used:
            if isinstance(part := owner.get(name), Later):
                owner[name] = part.made()
    return function


def _is_ours(it: Any) -> bool:
    name = it.__name__ if isinstance(it, ModuleType) else it.__module__
    return str(name).startswith(__name__.rpartition(".")[0])


_one_at_a_time = threading.RLock()


def _name(function: Any) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


def _words(function: Any, signature: _Signature) -> objects.Loaded | None:
    """Load a kernel from its object file, which is created if it does not exist; None if that is impossible."""
    if not objects.POSSIBLE or (_is_set("BOUNDSCHECK") and not signature.has_only_words()):
        return None
    name = _name(function)
    with _one_at_a_time:
        try:
            key = objects.key(_STAMP)
            code = objects.find(name, key, _STAMP)
            if code is None and _is_ours(function) and apart.compile_there(function.__module__):
                code = objects.find(name, key)
            if code is None:
                with objects.alone(name, key):
                    code = objects.find(name, key)
                    if code is None:
                        code = _object(function, signature)
                        objects.keep(name, key, code)
            return objects.Loaded(code, name)
        except Exception as e:  # another version of numba or LLVM: compiling is slower, running as fast
            refused[name] = f"{type(e).__name__}: {e}"
            return None


def compile_all(*modules: str) -> None:
    """Compile all kernels of some modules that are not on disk (``apart`` calls this)."""
    for module in modules:
        for function, signature in kernels_of(module):
            _words(function, signature)


def is_on_disk(module: str) -> bool:
    if not COMPILES or not objects.POSSIBLE:
        return True
    key = objects.key(_STAMP)
    return all(objects.is_there(_name(function), key, _STAMP) for function, _ in kernels_of(module))


def key() -> str:
    return objects.key(_STAMP)[:32]


_declared: dict[str, list[tuple[Any, _Signature]]] = {}  # kernels of each module


def kernels_of(module: str) -> list[tuple[Any, _Signature]]:
    """Return the functions and signatures of a module's kernels, called or not."""
    names = vars(import_module(module))
    return [*names.get("CALLBACKS", ()), *_declared.get(module, ())]


refused: dict[str, str] = {}  # kernels for which this process could create no object file, and why


def _object(function: Any, signature: _Signature) -> bytes:
    from ivjoin.shj.kernels import building

    collects = gc.isenabled()
    gc.disable()  # garbage collection takes a fifth of the compile time and finds few cycles
    try:
        return building.object_of(_ready(function), signature.in_numba())
    finally:
        if collects:
            gc.enable()


def callback(signature: Any, function: Any) -> Any:
    """Return a function that C can call at its ``address``, compiled and cached on disk."""
    if (made := _words(function, signature)) is not None:
        return made
    import numba

    return numba.cfunc(signature.in_numba())(_ready(function))


def _build(function: Any, signature: _Signature) -> Any:
    if (loaded := _words(function, signature)) is not None:
        return signature.over(loaded)
    import numba

    return numba.njit(signature.in_numba(), nogil=True, error_model="numpy")(_ready(function))


def compiled(signature: Any) -> Any:
    """Compile the function, or load it from disk, at its first call, which rebinds the module's name to the result."""

    def prepare(function: Any) -> Any:
        if not COMPILES:
            return function
        _declared.setdefault(function.__module__, []).append((function, signature))

        @wraps(function)
        def first_call(*args: Any) -> Any:
            made = function.__globals__[function.__name__] = _build(function, signature)
            return made(*args)

        first_call.signature = signature  # type: ignore[attr-defined]
        return first_call

    return prepare


def inner(function: Any) -> Any:
    """Mark a function that only kernels call: it is compiled as part of them, with the types that they pass."""
    if not COMPILES:
        return function

    def make() -> Any:
        from ivjoin.shj.kernels import building

        return building.part(_ready(function))

    return Later(make)
