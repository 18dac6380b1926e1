"""Compile kernels without an object file for this processor, in another process of this interpreter.

An installation compiles all kernels, so this runs only after kernels were edited, or numba or the processor changed.
The process of the caller does not compile, for three reasons:

- Compiling the push kernel leaves 360 MB in the process, and a join with a memory limit would exceed the limit.
- ``NUMBA_OPT=0``, without which LLVM optimizes the kernels twice, would also apply to the caller's own functions.
- A session of Spark, and an installation, compile while they do other work, or in two processes at the same time.

If no process can be started, this process compiles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread

__all__ = ["begin", "compile_there", "start"]

_SECONDS = 600
_HERE = "IVJOIN_COMPILES_HERE"  # in the environment of the other process


def start(*modules: str) -> subprocess.Popen[bytes] | None:
    """Start a process that compiles all kernels of some modules; None if that fails, or if this is such a process."""
    if _HERE in os.environ or not sys.executable:
        return None
    path = os.pathsep.join(p or os.curdir for p in sys.path)
    code = "import sys; from ivjoin.shj.kernels.compiling import compile_all; compile_all(*sys.argv[1:])"
    env = {**os.environ, "PYTHONPATH": path, "NUMBA_OPT": "0", _HERE: "1"}
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code, *modules], env=env, stdin=nothing, stdout=nothing, stderr=nothing
        )
    except OSError:
        return None


def compile_there(*modules: str) -> bool:
    """Compile all kernels of some modules in another process; return whether it succeeded."""
    process = start(*modules)
    if process is None:
        return False
    try:
        return process.wait(_SECONDS) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


_begun: set[tuple[str | None, str]] = set()  # by folder; a module is not tried twice


def begin(*modules: str) -> Thread | None:
    """Start compiling modules in another process, once per module; return a thread that ends with it, or None."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    wanted = [name for name in modules if (folder, name) not in _begun]
    if not wanted:
        return None
    _begun.update((folder, name) for name in wanted)
    thread = Thread(target=compile_there, args=wanted, name="ivjoin-kernels", daemon=True)
    thread.start()
    return thread
