"""Compile the loops of the join at their first call, with fixed signatures, and cache them on disk by content.

All of them are plain functions over int64, int32 and uint8 arrays or words, so each compiles once, whatever the query.
Kernels whose arguments are all words (such as ``push_batch``, which takes addresses) are cached as object files, which
load without numba; see ``objects`` and ``lean``. numba caches the others. With ``NUMBA_DISABLE_JIT=1`` all run
uncompiled.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numpy as np
from pyarrow import py_buffer

from ivjoin.shj.kernels import apart, objects

__all__ = [
    "COMPILES", "I8", "IN1", "IN2", "IN2_I4", "IN_U8", "IO1", "IO1_I4", "IO2", "IO2_I4", "IO_U8", "VOID", "Later",
    "callback", "compile_all", "compile_named", "compiled", "inner", "is_cached", "not_on_disk", "tiny",
]


@dataclass(frozen=True)
class _Signature:
    result: _Kind
    arguments: tuple[_Kind, ...]

    def in_numba(self) -> Any:
        return self.result.in_numba()(*(kind.in_numba() for kind in self.arguments))

    def over(self, function: Callable[..., int]) -> Any:
        """Wrap a function of words (for an array: its address and lengths) as a function of the declared arguments."""
        if all(kind == I8 for kind in self.arguments):
            return function
        kinds = [(kind.dimensions, np.dtype(kind.name)) for kind in self.arguments]

        def call(*arguments: Any) -> int:
            words = []
            for (dimensions, dtype), given in zip(kinds, arguments, strict=True):
                if dimensions == 0:
                    words.append(given)
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
IN2_I4 = _Kind("int32", 2, readonly=True)
IO1_I4, IO2_I4 = _Kind("int32", 1), _Kind("int32", 2)
VOID = _Kind("void")


def _compiles() -> bool:
    """Return whether numba would compile. numba itself decides if more than the environment can configure it."""
    if "numba" in sys.modules or Path(".numba_config.yaml").exists():
        import numba

        return not numba.config.DISABLE_JIT
    return os.environ.get("NUMBA_DISABLE_JIT", "0").strip() in ("", "0")


COMPILES = _compiles()


def _digest(room: Path) -> str:
    """Return a digest of every file in the package of the kernels, and of the package versions that affect their code.

    numba checks only the time and size of the file that defines a function. It ignores the functions that it calls, and
    all files of an installed package may have the same time. No file of this package imports one from outside it, so
    kernels contain no constant from elsewhere. numba itself checks its own version and the processor.
    """
    digest = hashlib.sha256()
    digest.update(repr((llvmlite.__version__, np.__version__)).encode())
    for path in sorted(room.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(room).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


# Computed at import: code of older sources must not be stored under the digest of newer files.
_STAMP = _digest(Path(__file__).parent.parent)


def _stamp() -> str:
    """Return the digest combined with numba's settings."""
    from numba import config

    return f"{_STAMP} {config.BOUNDSCHECK} {config.OPT} {config.DEBUGINFO_DEFAULT}"


class Later:
    """A part of kernels that is created when the first kernel that uses it compiles; most processes load all kernels.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def made(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made


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


def _is_ours(module: ModuleType) -> bool:
    return module.__name__.startswith(__name__.rpartition(".")[0])


def _options() -> dict[str, Any]:
    return {"nogil": True, "error_model": "numpy"}


def _stamped(made: Any) -> Any:
    """Return the same function, whose disk cache key also covers everything that it may call."""
    kept = made._cache
    key = kept._index_key
    kept._index_key = lambda *about: (*key(*about), _stamp())
    return made


def _dispatcher(function: Any) -> Any:
    """Return a numba dispatcher with a disk cache."""
    import numba

    _ready(function)
    try:
        return _stamped(numba.njit(cache=True, **_options())(function))
    except (AttributeError, RuntimeError):
        # No writable folder, or a numba with another cache layout: compile each time, rather than fail or run stale
        # code.
        return numba.njit(**_options())(function)


_one_at_a_time = threading.RLock()


def _name(function: Any) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


def _words(function: Any, signature: _Signature) -> objects.Loaded | None:
    """Load a kernel of words from its object file, which is created if it does not exist; None if that is impossible.
    """
    if not objects.POSSIBLE:
        return None
    name = _name(function)
    with _one_at_a_time:
        try:
            key = objects.key(_STAMP)
            code = objects.find(name, key)
            if code is None and apart.asked() and apart.compile_there(function.__module__):
                code = objects.find(name, key)
            if code is None:
                with objects.alone(name, key):
                    code = objects.find(name, key)
                    if code is None:
                        code = _made(name, function, signature)
                        objects.keep(name, key, code)
            return objects.Loaded(code, name) if code else None
        except Exception as e:  # another version of numba or LLVM: compiling is slower, running as fast
            refused[name] = f"{type(e).__name__}: {e}"
            return None


def compile_all(module: str) -> None:
    """Compile all kernels of a module that are not on disk (``apart`` calls this)."""
    for function, signature in _kernels(module):
        _words(function, signature)


def compile_named(*names: str) -> None:
    """Compile kernels by name, such as ``push_kernels.push_batch``, one after the other."""
    room = __name__.rpartition(".")[0]
    for name in names:
        for function, signature in _kernels(f"{room}.{name.partition('.')[0]}"):
            if _name(function) == name:
                _words(function, signature)


def not_on_disk(names: Iterable[str]) -> list[str]:
    """Return which of these kernels would compile at their first call; an empty list if kernels have no object files.
    """
    if not COMPILES or not objects.POSSIBLE:
        return []
    key = objects.key(_STAMP)
    return [name for name in names if not objects.is_there(name, key)]


_declared: dict[str, list[tuple[Any, _Signature]]] = {}  # kernels of each module


def _kernels(module: str) -> list[tuple[Any, _Signature]]:
    """Return the functions and signatures of a module's kernels, called or not."""
    names = vars(import_module(module))
    return [*names.get("CALLBACKS", ()), *_declared.get(module, ())]


refused: dict[str, str] = {}  # kernels for which this process could create no object file, and why


def _made(name: str, function: Any, signature: _Signature) -> bytes:
    """Return the code of a kernel; empty for one that needs numba at run time, so that it is not tried again.

    Errors that may be temporary are raised: no memory, no files, a deep stack, a module that another thread is loading.
    """
    try:
        return _object(function, signature)
    except (MemoryError, OSError, RecursionError, ImportError):
        raise
    except Exception as e:
        refused[name] = f"{type(e).__name__}: {e}"
        return b""


def _object(function: Any, signature: _Signature) -> bytes:
    from ivjoin.shj.kernels import lean

    collects = gc.isenabled()
    gc.disable()  # garbage collection takes a fifth of the compile time and finds few cycles
    try:
        return lean.object_of(_ready(function), signature.in_numba(), _options())
    finally:
        if collects:
            gc.enable()


def callback(signature: Any, function: Any) -> Any:
    """Return a function that C can call at its ``address``, compiled and cached on disk."""
    if (made := _words(function, signature)) is not None:
        return made
    return _numba_callback(signature.in_numba(), _ready(function))


def _numba_callback(signature: Any, function: Any) -> Any:
    import numba
    from numba.core import sigutils
    from numba.core.ccallback import CFunc

    try:
        # As numba.cfunc, except that the stamp must be set before the cache is read.
        made = CFunc(function, sigutils.normalize_signature(signature), locals={}, options={})
        made.enable_caching()
        _stamped(made).compile()
    except (AttributeError, TypeError, RuntimeError):
        return numba.cfunc(signature)(function)
    return made


def is_cached(kernel: Any) -> bool:
    """Return whether a kernel is compiled already, in this process or on disk; False if that is unknown."""
    signature = getattr(kernel, "signature", None)
    if signature is None:
        return True
    function = kernel.__wrapped__
    try:
        if objects.POSSIBLE and objects.find(_name(function), objects.key(_STAMP)) is not None:
            return True
        dispatcher = _dispatcher(function)
        kept = dispatcher._cache
        key = kept._index_key(signature.in_numba(), dispatcher.targetctx.codegen())
        return key in kept._cache_file._load_index()
    except Exception:
        return False


def _build(function: Any, signature: _Signature) -> Any:
    if (loaded := _words(function, signature)) is not None:
        return signature.over(loaded.python)
    dispatcher = _dispatcher(function)
    dispatcher.compile(signature.in_numba())
    dispatcher.disable_compile()
    return dispatcher


def compiled(signature: Any) -> Any:
    """Compile the function, or load it from disk, at its first call: a join pays only for the kernels that it uses.

    The first call rebinds the module's name to the compiled function, so later calls have no overhead.
    """

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
        from ivjoin.shj.kernels import lean

        return lean.part(_ready(function), _options())

    return Later(make)


def tiny(function: Any) -> Any:
    """Mark a function of a line or two, which is inlined into every kernel."""
    return inner(function)
