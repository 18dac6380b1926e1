"""End a command that is stopped or fails. This module has few imports, so it works before other modules are loaded."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["fail", "stopping"]

# Other signals that end a process by default and that it can handle. Windows does not have them.
_ENDING = ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU")


@contextmanager
def stopping(on_stop: list[Callable[[], None]]) -> Iterator[None]:
    """On a signal that ends a process by default, call ``on_stop`` and exit at once.

    SIGHUP remains ignored under ``nohup``. The handler raises no exception, because an exception would be lost while
    compiled code calls Python.
    """

    def stop(number: int, _: object) -> None:
        for action in on_stop:
            with suppress(Exception):
                action()
        os._exit(fail("stopped", 128 + number))

    if threading.current_thread() is not threading.main_thread():  # the only thread that may set handlers
        yield
        return
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    heeded = [signal.SIGINT, signal.SIGTERM, *(n for n in numbers if signal.getsignal(n) is signal.SIG_DFL)]
    previous = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def fail(message: str, code: int) -> int:
    """Print an error as one line on standard error, and return ``code``."""
    with suppress(OSError):  # the disk of a log may be full
        print(f"ivjoin: error: {_one_line(message)}", file=sys.stderr, flush=True)
    return code


def _one_line(message: str) -> str:
    """Return a message as one line. Carets under a line of the condition become the words that they mark."""
    lines = message.splitlines()
    if len(lines) > 2 and set(lines[-1]) <= {" ", "^"}:
        marks, text = lines.pop(), lines.pop()
        start = marks.index("^")
        marked, before = text[start : len(marks)].strip(), text[:start].strip()
        lines[-1] += f", at {marked!r}" if marked else f", after {before!r}"
    return " ".join(" ".join(lines).split())
