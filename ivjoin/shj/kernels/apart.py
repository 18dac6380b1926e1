"""Kernels compiled in a process of their own: where the memory of this one is limited, or before they are needed.

A compiler takes more than a hundred megabytes, once for an installation: more than a join may stay under that has been
given a limit. So once an operator has one, what is not on disk yet is put there by another process of this interpreter.
Where that cannot be, it is compiled here.

Where a join is planned in one process and done in others, these would compile at their first rows. So who plans it
starts that (:func:`begin`) and goes on; who needs a kernel meanwhile waits for it (``objects.alone``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from threading import Thread

__all__ = ["ask", "asked", "begin", "compile_there"]

_SECONDS = 120
_asked: list[bool] = []  # no Event: one whose set() is interrupted may wait for ever the next time


def ask() -> None:
    """Compile apart from now on."""
    _asked[:] = [True]


def asked() -> bool:
    return bool(_asked)


def compile_there(module: str) -> bool:
    """Have all kernels of a module put on disk; whether the other process came to its end."""
    return _elsewhere("compile_all", [module])


_begun: set[tuple[str | None, str]] = set()  # by the folder and the name; what failed once is left to who needs it


def begin(names: Iterable[str]) -> Thread | None:
    """Have kernels put on disk, in this order, by another process, without waiting for it; of each once.

    Parameters
    ----------
    names : iterable of str
        ``"push_kernels.push_batch"``; those that ``compiling.not_on_disk`` says.

    Returns
    -------
    Thread or None
        It ends when the process does; whatever fails is left to who needs the kernels. None where there is nothing to
        do.
    """
    folder = os.environ.get("NUMBA_CACHE_DIR")
    wanted = [name for name in names if (folder, name) not in _begun]
    if not wanted:
        return None
    _begun.update((folder, name) for name in wanted)
    thread = Thread(target=_elsewhere, args=("compile_named", wanted), name="ivjoin-kernels", daemon=True)
    thread.start()
    return thread


def _elsewhere(function: str, arguments: list[str]) -> bool:
    """Have another process of this interpreter call a function of ``compiling``; whether it came to its end."""
    import subprocess

    if not sys.executable:
        return False
    path = os.pathsep.join(p or os.curdir for p in sys.path)
    code = f"from ivjoin.shj.kernels.compiling import {function}; {function}(*{arguments!r})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, timeout=_SECONDS, env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
