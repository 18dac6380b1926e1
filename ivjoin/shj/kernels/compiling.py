"""How the loops of the join are compiled: at the first call, with fixed signatures, kept on disk by content.

All of them are plain functions over int64, int32 and uint8 arrays or words, so each compiles once, whatever the query.
Kernels of words alone (``push_batch`` is one: it takes addresses) are kept as object files, which load without numba;
see ``objects`` and ``lean``. The others are numba's to keep. They run uncompiled under ``NUMBA_DISABLE_JIT=1``.
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
        """A function of words (an array: its address and lengths) as one of the arguments that are meant."""
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
    """What a kernel takes or returns; a type of numba's as soon as numba is needed."""

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
    """Whether numba would compile; numba itself is asked where more than the environment can say so."""
    if "numba" in sys.modules or Path(".numba_config.yaml").exists():
        import numba

        return not numba.config.DISABLE_JIT
    return os.environ.get("NUMBA_DISABLE_JIT", "0").strip() in ("", "0")


COMPILES = _compiles()


def _digest(room: Path) -> str:
    """The content of every file of the kernels' room, and the packages besides that decide which code comes of it.

    numba asks only for the time and the size of the one file that a function stands in, and forgets the functions that
    it calls. An installed package's files may all bear the same time. No file of the room imports one from outside it,
    so kernels freeze no constant of another room. numba itself looks at its own version and at the processor.
    """
    digest = hashlib.sha256()
    digest.update(repr((llvmlite.__version__, np.__version__)).encode())
    for path in sorted(room.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(room).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


# Taken as the files are imported: code that is older than the files must not be kept under their name.
_STAMP = _digest(Path(__file__).parent.parent)


def _stamp() -> str:
    """The same with numba's settings."""
    from numba import config

    return f"{_STAMP} {config.BOUNDSCHECK} {config.OPT} {config.DEBUGINFO_DEFAULT}"


class Later:
    """A part of kernels that numba makes when the first kernel with it is compiled: most processes load them all."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def made(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made


def _ready(function: Any) -> Any:
    """The same function, with everything that it calls made, and what that calls."""
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
    """The same function, whose disk cache asks also whether all that it may call is as it was."""
    kept = made._cache
    key = kept._index_key
    kept._index_key = lambda *about: (*key(*about), _stamp())
    return made


def _dispatcher(function: Any) -> Any:
    """A function to be compiled, kept on disk by numba."""
    import numba

    _ready(function)
    try:
        return _stamped(numba.njit(cache=True, **_options())(function))
    except (AttributeError, RuntimeError):
        # No folder to write to, or a numba that keeps its cache otherwise: rather compile each time than fail, or run
        # stale code.
        return numba.njit(**_options())(function)


_one_at_a_time = threading.RLock()


def _name(function: Any) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


def _words(function: Any, signature: _Signature) -> objects.Loaded | None:
    """A kernel of words from its object file, which is made if it is not there; None where it cannot be."""
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
        except Exception as e:  # of a numba or an LLVM that is not as this one: slower to compile, as fast to run
            refused[name] = f"{type(e).__name__}: {e}"
            return None


def compile_all(module: str) -> None:
    """Put all kernels of a module on disk that are not there (``apart`` asks for it)."""
    for function, signature in _kernels(module):
        _words(function, signature)


def compile_named(*names: str) -> None:
    """The same of kernels by name, ``push_kernels.push_batch``, one after the other."""
    room = __name__.rpartition(".")[0]
    for name in names:
        for function, signature in _kernels(f"{room}.{name.partition('.')[0]}"):
            if _name(function) == name:
                _words(function, signature)


def not_on_disk(names: Iterable[str]) -> list[str]:
    """Which of these kernels would be compiled at their first call; none where kernels are not kept so."""
    if not COMPILES or not objects.POSSIBLE:
        return []
    key = objects.key(_STAMP)
    return [name for name in names if not objects.is_there(name, key)]


_declared: dict[str, list[tuple[Any, _Signature]]] = {}  # kernels of each module


def _kernels(module: str) -> list[tuple[Any, _Signature]]:
    """Functions and signatures of a module, whether or not some have been called."""
    names = vars(import_module(module))
    return [*names.get("CALLBACKS", ()), *_declared.get(module, ())]


refused: dict[str, str] = {}  # kernels that this process could make no object file of, and why


def _made(name: str, function: Any, signature: _Signature) -> bytes:
    """The code of a kernel; none, which need not be tried again, of one that needs numba, or numba as it is not.

    What may be of this moment alone is raised: no memory, no files, a deep stack, a module that another thread loads.
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
    gc.disable()  # a compiler makes many objects and few circles: a fifth of its time
    try:
        return lean.object_of(_ready(function), signature.in_numba(), _options())
    finally:
        if collects:
            gc.enable()


def callback(signature: Any, function: Any) -> Any:
    """A function that C can call at its ``address``, compiled and kept on disk."""
    if (made := _words(function, signature)) is not None:
        return made
    return _numba_callback(signature.in_numba(), _ready(function))


def _numba_callback(signature: Any, function: Any) -> Any:
    import numba
    from numba.core import sigutils
    from numba.core.ccallback import CFunc

    try:
        # what numba.cfunc does, but for the stamp, which must be there before the cache is asked
        made = CFunc(function, sigutils.normalize_signature(signature), locals={}, options={})
        made.enable_caching()
        _stamped(made).compile()
    except (AttributeError, TypeError, RuntimeError):
        return numba.cfunc(signature)(function)
    return made


def is_cached(kernel: Any) -> bool:
    """Whether a kernel is compiled already, in this process or on disk; False where that cannot be told."""
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
    """Compile (or load from disk) at the first call: a join pays for the kernels that it uses.

    The module's name is bound to the compiled function then, so later calls go straight to it.
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
    """Called by kernels alone: compiled as part of them, with whatever types they pass."""
    if not COMPILES:
        return function

    def make() -> Any:
        from ivjoin.shj.kernels import lean

        return lean.part(_ready(function), _options())

    return Later(make)


def tiny(function: Any) -> Any:
    """For a line or two: without a call of its own in any kernel."""
    return inner(function)
