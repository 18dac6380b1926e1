"""Store kernels as object files, load them by LLVM alone, and call them from Python and from C.

Loading kernels from numba's cache needs numba itself: half a second and 60 MB. An object file needs only LLVM's loader
and C functions. A file contains its code and the digest of the code. If the digest differs, the kernel is compiled
again.

Wheels on the package index have code for ``BASELINES``, which also runs on machines other than the build machine. Such
a file is valid as long as the sources do not change, for any version of numba and LLVM, because it needs neither.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import stat
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

__all__ = ["BASELINES", "ENTRY", "POSSIBLE", "Loaded", "alone", "find", "is_there", "keep", "key", "sources", "target"]

POSSIBLE = sys.implementation.name == "cpython" and struct.calcsize("P") == 8

ENTRY = "ivjoin_kernel"  # the one function that an object file exports
_OURS = "ivjoin"  # a folder within one that other packages use too
_INSTALLED = Path(__file__).parent / "compiled"  # of an installed package, written when it was built
# LLVM's names of processors that wheels have code for, the best one first, and of the features that it needs:
# the levels of the x86-64 psABI.
BASELINES = {
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v2": ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "generic": ("neon",),  # of arm64
}
_DIGEST = hashlib.sha256().digest_size
# Files stored per kernel: its latest versions, settings and processors. A use updates a file's time if the last update
# is a day old, so that the files used last stay.
_MOST_FILES = 8
_DAY = 86_400.0
_LONGEST_WAIT, _LOOK_EVERY = 600.0, 0.02  # seconds


@cache
def target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


class Loaded:
    """A kernel in memory, for the life of the process; ``address`` is its address for C."""

    def __init__(self, code: bytes, name: str) -> None:
        machine = target().create_target_machine(jit=True, codemodel="jitdefault")
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        self.address = int(engine.get_function_address(ENTRY))
        if not self.address:
            raise ValueError(f"there is no kernel {name} in its object file")
        # Output blocks may outlive every module, and need the code that frees them.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))

    def python(self, words: int, returns: bool) -> Callable[..., Any]:
        """Return the kernel as a function of so many ints. It releases the GIL while it runs."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64 if returns else None, *[ctypes.c_int64] * words)
        return kind(self.address)


@cache
def _processor() -> str:
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


# numba's settings that change the code.
_SETTINGS = ("CPU_NAME", "CPU_FEATURES", "ENABLE_AVX")


def _settings() -> dict[str, str]:
    return {name: value for name in _SETTINGS if (value := os.environ.get(f"NUMBA_{name}"))}


def key(stamp: str) -> str:
    """Return a digest of everything that affects the code: sources, compiler, settings and processor.

    For one of the ``BASELINES``, chosen by ``NUMBA_CPU_NAME``, it is of the sources and of that processor.
    """
    settings = _settings()
    if settings.keys() == {"CPU_NAME"} and settings["CPU_NAME"] in BASELINES:
        return _key_of(stamp, settings["CPU_NAME"])
    return hashlib.sha256(f"{stamp} {_compiler()} {_processor()} {settings}".encode()).hexdigest()


def _key_of(stamp: str, baseline: str) -> str:
    return hashlib.sha256(f"{stamp} {sys.platform} {platform.machine()} {baseline}".encode()).hexdigest()


@cache
def _fitting() -> list[str]:
    """Return the baselines whose code this processor runs, the best one first."""
    has = llvm.get_host_cpu_features()
    return [name for name, needs in BASELINES.items() if all(has.get(feature) for feature in needs)]


def _files(name: str, key: str, stamp: str | None) -> Iterator[Path]:
    """Yield where the code may lie; with the sources' ``stamp`` also code of a wheel, unless settings ask for other."""
    for folder in (_INSTALLED, *_folders()):
        yield _file(folder, name, key)
    if stamp is not None and not _settings():
        for baseline in _fitting():
            yield _file(_INSTALLED, name, _key_of(stamp, baseline))


@cache
def _compiler() -> str:
    """Return the versions of LLVM, numpy and numba, without importing numba if possible."""
    spec = importlib.util.find_spec("numba")
    told = Path(spec.origin).with_name("_version.py") if spec and spec.origin else None
    if told is not None and told.exists():
        numbas = hashlib.sha256(told.read_bytes()).hexdigest()
    else:
        import numba

        numbas = numba.__version__
    return f"{llvmlite.__version__} {np.__version__} {numbas}"


def sources(room: Path) -> dict[str, bytes]:
    """Return the content of each module in a package, by its path. The package may lie in an archive."""
    if room.is_dir():
        return {path.relative_to(room).as_posix(): path.read_bytes() for path in room.rglob("*.py")}
    archive = next((path for path in room.parents if path.is_file()), None)
    if archive is None:
        return {}
    inside = f"{room.relative_to(archive).as_posix()}/"
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if name.startswith(inside) and name.endswith(".py")]
        return {name.removeprefix(inside): opened.read(name) for name in names}


def _folders() -> list[Path]:
    """Return the folders where object files may lie, in numba's order; the first writable one gets new files."""
    here = Path(__file__).parent
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if (numba := sys.modules.get("numba")) is not None:
        chosen = numba.config.CACHE_DIR
    # All installations share it, because each application of Spark copies an archive to another path.
    if chosen:
        return [Path(chosen) / _OURS]
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # unchanged if there is no home
    folders = [here / "__pycache__", Path(user) / _OURS] if os.path.isabs(user) else [here / "__pycache__"]
    return [*folders, *_temporary()]


def _temporary() -> list[Path]:
    """Return a folder for temporary files that only this user can write to; none if another user has made it."""
    if not hasattr(os, "getuid"):
        return []
    private = Path(tempfile.gettempdir()) / f"ivjoin-{os.getuid()}"
    with suppress(OSError):
        private.mkdir(mode=0o700, exist_ok=True)
        owner = private.lstat()
        if stat.S_ISDIR(owner.st_mode) and owner.st_uid == os.getuid() and not owner.st_mode & 0o022:
            return [private / _OURS]
    return []


def _file(folder: Path, name: str, key: str) -> Path:
    return folder / f"{name}.{key[:32]}.o"


def find(name: str, key: str, stamp: str | None = None) -> bytes | None:
    """Return the code stored under a name and key, or of a wheel, if the file exists and is complete."""
    for file in _files(name, key, stamp):
        try:
            content = file.read_bytes()
        except OSError:
            continue
        if content[:_DIGEST] == hashlib.sha256(content[_DIGEST:]).digest():
            _mark_used(file)
            return content[_DIGEST:]
    return None


def is_there(name: str, key: str, stamp: str | None = None) -> bool:
    return any(file.exists() for file in _files(name, key, stamp))


@contextmanager
def alone(name: str, key: str) -> Iterator[None]:
    """Make other processes that need the same kernel wait until it is stored, or until this process has ended.

    After a timeout, or without locks, two processes may write the same file. Look for the file again inside the block.
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
    """Delete all but a kernel's last used files, and files that interrupted writers left."""
    with suppress(OSError):
        kept = [(_used(file), file) for file in folder.glob(_file(folder, name, "?" * 32).name)]
        old = [file for _, file in sorted(kept)[:-_MOST_FILES]]
        left = [file for kind in ("tmp", "lock") for file in folder.glob(f"{name}.*.{kind}")]
        old += [file for file in left if time.time() - _used(file) > _DAY]
        for file in old:
            file.unlink(missing_ok=True)
