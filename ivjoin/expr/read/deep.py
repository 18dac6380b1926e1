"""Calls that recurse deeply, as a parser does for text with many nested parentheses."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from ivjoin.errors import ConditionError

__all__ = ["deeply"]

T = TypeVar("T")
_FRAMES = 60_000  # of Python; a parenthesis takes about 25
_STACK = 1 << 28  # bytes, of which the system reserves addresses alone
_one_at_a_time = threading.Lock()  # the recursion limit belongs to the whole process


def deeply(call: Callable[[], T]) -> T:
    """Return what a call returns; if Python's recursion limit stops it, call it again in a thread with a larger one.

    Raises
    ------
    ConditionError
        If the larger limit is not enough.
    """
    try:
        return call()
    except RecursionError:
        pass
    try:
        return _in_thread(call)
    except (RecursionError, RuntimeError) as e:
        raise ConditionError(
            "the condition is nested too deeply to be read: about 1,000 parentheses or operators can stand within each "
            "other; split it at its ANDs, or compute a part of it in a column"
        ) from e


def _in_thread(call: Callable[[], T]) -> T:
    found: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as e:
            raised.append(e)

    with _one_at_a_time:
        limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
        try:
            sys.setrecursionlimit(max(limit, _FRAMES))
            thread = threading.Thread(target=run, name="ivjoin-parser")
            thread.start()
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if raised:
        raise raised[0]
    return found[0]
