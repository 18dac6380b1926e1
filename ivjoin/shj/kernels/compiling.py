"""How the loops of the join are compiled: at the first call, with fixed signatures, cached on disk by content.

All of them are plain functions over int64, int32 and uint8 arrays, so each compiles once, whatever the query. They run
uncompiled under ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import hashlib
from functools import wraps
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import types
from numba.core import sigutils
from numba.core.ccallback import CFunc

__all__ = [
    "COMPILES", "I8", "IN1", "IN2", "IN2_I4", "IN_U8", "IO1", "IO1_I4", "IO2", "IO2_I4", "IO_U8", "VOID", "callback",
    "compiled", "inner", "is_cached",
]

I8 = types.int64
IN1 = types.Array(types.int64, 1, "C", readonly=True)
IN2 = types.Array(types.int64, 2, "C", readonly=True)
IO1 = types.Array(types.int64, 1, "C")
IO2 = types.Array(types.int64, 2, "C")
IN_U8 = types.Array(types.uint8, 1, "C", readonly=True)
IO_U8 = types.Array(types.uint8, 1, "C")
IN2_I4 = types.Array(types.int32, 2, "C", readonly=True)
IO1_I4 = types.Array(types.int32, 1, "C")
IO2_I4 = types.Array(types.int32, 2, "C")
VOID = types.void

COMPILES = not numba.config.DISABLE_JIT


def _digest(room: Path) -> str:
    """The content of every file of the kernels' room, and what besides decides which code comes of it.

    numba asks only for the time and the size of the one file that a function stands in, and forgets the functions that
    it calls. An installed package's files may all bear the same time. No file of the room imports one from outside it,
    so kernels freeze no constant of another room. numba itself looks at its own version and at the processor.
    """
    digest = hashlib.sha256()
    config = numba.config
    about = (llvmlite.__version__, np.__version__, config.BOUNDSCHECK, config.OPT, config.DEBUGINFO_DEFAULT)
    digest.update(repr(about).encode())
    for path in sorted(room.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(room).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


# Taken as the files are imported: code that is older than the files must not be kept under their name.
_STAMP = _digest(Path(__file__).parent.parent)


def _stamped(made: Any) -> Any:
    """The same function, whose disk cache asks also whether all that it may call is as it was."""
    kept = made._cache
    key = kept._index_key
    kept._index_key = lambda *about: (*key(*about), _STAMP)
    return made


def _dispatcher(function: Any) -> Any:
    """A function to be compiled, kept on disk."""
    try:
        return _stamped(numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except (AttributeError, RuntimeError):
        # No folder to write to, or a numba that keeps its cache otherwise: rather compile each time than fail, or run
        # stale code.
        return numba.njit(nogil=True, error_model="numpy")(function)


def callback(signature: Any, function: Any) -> Any:
    """A function that C can call, compiled and kept on disk."""
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
    dispatcher = _dispatcher(kernel.__wrapped__)
    try:
        kept = dispatcher._cache
        key = kept._index_key(signature, dispatcher.targetctx.codegen())
        return key in kept._cache_file._load_index()
    except Exception:
        return False


def _build(function: Any, signature: Any) -> Any:
    dispatcher = _dispatcher(function)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


def compiled(signature: Any) -> Any:
    """Compile (or load from disk) at the first call: a join pays for the kernels that it uses.

    The module's name is bound to the compiled function then, so later calls go straight to it.
    """

    def prepare(function: Any) -> Any:
        if not COMPILES:
            return function

        @wraps(function)
        def first_call(*args: Any) -> Any:
            made = function.__globals__[function.__name__] = _build(function, signature)
            return made(*args)

        first_call.signature = signature  # type: ignore[attr-defined]
        return first_call

    return prepare


# Called by kernels alone: compiled as part of them, with whatever types they pass.
inner = numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)

# For a line or two: put where they are called before anything is compiled, which costs less than a function of its own.
tiny = numba.njit(nogil=True, error_model="numpy", inline="always")
