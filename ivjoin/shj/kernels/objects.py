"""Kernels as object files: stored on disk, loaded by LLVM alone, called from Python and from C.

Loading kernels from numba's cache takes numba itself: half a second and 60 MB, in a process that may join a few rows.
An object file takes LLVM's loader and C's functions. A file consists of the digest of its code, and the code. A file
with another digest is compiled again.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

__all__ = [
    "C_ENTRY", "POSSIBLE", "PYTHON_CALLS", "PYTHON_ENTRY", "Loaded", "NeedsNumba", "alone", "find", "is_there", "keep",
    "key",
]  # fmt: skip

POSSIBLE = sys.implementation.name == "cpython" and struct.calcsize("P") == 8

C_ENTRY, PYTHON_ENTRY = "ivjoin_from_c", "ivjoin_from_python"  # the functions of an object file
# The functions of Python that the code calls.
PYTHON_CALLS = ("PyErr_BadArgument", "PyErr_Occurred", "PyEval_RestoreThread", "PyEval_SaveThread", "PyLong_AsLongLong",
                "PyLong_FromLongLong")  # fmt: skip
_FASTCALL = 0x80  # METH_FASTCALL
_DIGEST = hashlib.sha256().digest_size
# Files stored per kernel: its latest versions, settings and processors. A use updates a file's time if the last update
# is a day old, so that the files used last stay.
_MOST_FILES = 4
_DAY = 86_400.0
_LONGEST_WAIT, _LOOK_EVERY = 120.0, 0.02  # seconds


class NeedsNumba(Exception):
    """A kernel calls a function that is neither C's nor Python's: numba's runtime, or an exception that it may raise.
    """


class _Method(ctypes.Structure):
    """PyMethodDef"""

    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@cache
def _machine() -> Any:
    """Return LLVM's target for this machine; loaded code stays for the life of the process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in PYTHON_CALLS:
        llvm.add_symbol(name, int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0))
    return llvm.Target.from_triple(llvm.get_process_triple())


class Loaded:
    """A kernel in memory.

    Attributes
    ----------
    address : int
        Its address for C.
    python : callable
        The same for Python, with words as arguments. It releases the GIL while it runs.
    """

    def __init__(self, code: bytes, name: str) -> None:
        machine = _machine().create_target_machine(jit=True, codemodel="jitdefault")
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        self.address = int(engine.get_function_address(C_ENTRY))
        from_python = int(engine.get_function_address(PYTHON_ENTRY))
        if not self.address or not from_python:
            raise ValueError(f"the object file of kernel {name} does not contain it")
        method = _Method(name.rpartition(".")[2].encode(), from_python, _FASTCALL, None)
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, (ctypes.POINTER(_Method), ctypes.c_void_p, ctypes.c_void_p)
        self.python = new(ctypes.byref(method), None, None)
        # Output blocks may outlive every module, and need the code that frees them.
        for needed in (engine, method):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(needed))


@cache
def _processor() -> str:
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


# numba's settings that change code. BOUNDSCHECK does not affect kernels without arrays, but covering it is simpler.
_SETTINGS = ("BOUNDSCHECK", "OPT", "CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "LOOP_VECTORIZE")


def key(stamp: str) -> str:
    """Return a digest of everything that affects the code: sources, compiler, settings and processor."""
    settings = {name: os.environ.get(f"NUMBA_{name}") for name in _SETTINGS}
    if (numba := sys.modules.get("numba")) is not None and numba.config.BOUNDSCHECK is not None:
        settings["BOUNDSCHECK"] = str(numba.config.BOUNDSCHECK)  # Python code can set it too
    return hashlib.sha256(f"{stamp} {_compiler()} {_processor()} {settings}".encode()).hexdigest()


@cache
def _compiler() -> str:
    """Return numba's version, without importing numba if possible."""
    spec = importlib.util.find_spec("numba")
    told = Path(spec.origin).with_name("_version.py") if spec and spec.origin else None
    if told is not None and told.exists():
        return hashlib.sha256(told.read_bytes()).hexdigest()
    import numba

    return str(numba.__version__)


def _folders() -> list[Path]:
    """Return the folders where object files may lie, in numba's order; the first writable one gets new files."""
    here = Path(__file__).parent
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if (numba := sys.modules.get("numba")) is not None:
        chosen = numba.config.CACHE_DIR
    # Named by the path of this package, because other installations may share the folder.
    mine = f"ivjoin_{hashlib.sha256(str(here).encode()).hexdigest()[:16]}"
    if chosen:
        return [Path(chosen) / mine]
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return [here / "__pycache__", user / mine]


def _file(folder: Path, name: str, key: str) -> Path:
    return folder / f"{name}.{key[:32]}.o"


def find(name: str, key: str) -> bytes | None:
    """Return the code stored under a name and key, if the file exists and is complete."""
    for folder in _folders():
        file = _file(folder, name, key)
        try:
            content = file.read_bytes()
        except OSError:
            continue
        if content[:_DIGEST] == hashlib.sha256(content[_DIGEST:]).digest():
            _mark_used(file)
            return content[_DIGEST:]
    return None


def is_there(name: str, key: str) -> bool:
    """Return whether a file of this name and key exists, complete or not."""
    return any(_file(folder, name, key).exists() for folder in _folders())


@contextmanager
def alone(name: str, key: str) -> Iterator[None]:
    """Make other processes that need the same kernel wait until it is stored, or until this process has ended.

    A timeout, or a file system without locks, is no error: two processes may then write the same file, and the last one
    stays. Look for the file again inside the block.
    """
    lock = _locked(name, key)
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):
                os.unlink(lock[1])
            os.close(lock[0])


def _locked(name: str, key: str) -> tuple[int, Path] | None:
    """Return the open lock file and its path; None if it cannot be locked, or the kernel is stored by now."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return None
    for folder in _folders():
        path = _file(folder, name, key).with_suffix(".lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            continue
        end = time.monotonic() + _LONGEST_WAIT
        while True:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
                return lock, path
            except BlockingIOError:
                # A forked child may hold the lock after the kernel is stored.
                if time.monotonic() < end and not is_there(name, key):
                    time.sleep(_LOOK_EVERY)
                    continue
            except OSError:
                pass
            os.close(lock)
            return None
    return None


def _used(file: Path) -> float:
    """Return when a file was last used, to about a day; 0 if another process has just deleted it."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _mark_used(file: Path) -> None:
    with suppress(OSError):  # another user may own the folder
        if time.time() - _used(file) > _DAY:
            os.utime(file)


def keep(name: str, key: str, code: bytes) -> bool:
    """Store code atomically in the first folder that accepts it; return whether one did."""
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{name}.", suffix=".tmp", delete=False) as file:
                file.write(hashlib.sha256(code).digest() + code)
            Path(file.name).replace(_file(folder, name, key))
        except OSError:
            continue
        _forget_older(folder, name)
        return True
    return False


def _forget_older(folder: Path, name: str) -> None:
    """Delete all but a kernel's last used files, and files that interrupted writers left.

    A process that is reading a deleted file reads all of it, or compiles the kernel again.
    """
    with suppress(OSError):
        kept = [(_used(file), file) for file in folder.glob(_file(folder, name, "?" * 32).name)]
        old = [file for _, file in sorted(kept)[:-_MOST_FILES]]
        left = [file for kind in ("tmp", "lock") for file in folder.glob(f"{name}.*.{kind}")]
        old += [file for file in left if time.time() - _used(file) > _DAY]
        for file in old:
            file.unlink(missing_ok=True)
