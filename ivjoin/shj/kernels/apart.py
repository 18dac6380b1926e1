"""Kernels compiled in a process of their own, where the memory of this one is limited.

A compiler takes more than a hundred megabytes, once for an installation: more than a join may stay under that has been
given a limit. So once an operator has one, what is not on disk yet is put there by another process of this interpreter.
Where that cannot be, it is compiled here.
"""

from __future__ import annotations

import os
import sys
from threading import Event

__all__ = ["ask", "asked", "compile_there"]

_SECONDS = 120
_asked = Event()


def ask() -> None:
    """Compile apart from now on."""
    _asked.set()


def asked() -> bool:
    return _asked.is_set()


def compile_there(module: str) -> bool:
    """Have all kernels of a module put on disk; whether the other process came to its end."""
    import subprocess

    if not sys.executable:
        return False
    path = os.pathsep.join(p or os.curdir for p in sys.path)
    code = f"from ivjoin.shj.kernels.compiling import compile_all; compile_all({module!r})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, timeout=_SECONDS, env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
