"""Run calls that recurse deeply, such as a parser on text with many nested parentheses."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from ivjoin.errors import ConditionError
from ivjoin.expr.nodes import Node

__all__ = ["deeply", "refuse_deep"]

T = TypeVar("T")
_FRAMES = 60_000  # Python frames; a parenthesis takes about 25
_STACK = 1 << 28  # bytes of reserved address space
_MOST_LEVELS = 1_001
_TOO_DEEP = (
    "the condition is nested too deeply to be read: about 1,000 parentheses or operators can be nested; split it "
    "at its ANDs, or compute a part of it in a column"
)
_one_at_a_time = threading.Lock()  # the recursion limit belongs to the whole process


def deeply(call: Callable[[], T]) -> T:
    """Return the result of ``call``.

    If the recursion limit stops it, call it again in a thread with a larger limit. Raise ConditionError if the larger
    limit is not enough.
    """
    try:
        return call()
    except RecursionError:
        pass
    try:
        return _in_thread(call)
    except (RecursionError, RuntimeError) as e:
        raise ConditionError(_TOO_DEEP) from e


def refuse_deep(node: Node) -> None:
    """Raise ConditionError if more than 1,000 operators are nested, because planning would be too slow."""
    level, seen = [node], 0
    while level:
        seen += 1
        if seen > _MOST_LEVELS:
            raise ConditionError(_TOO_DEEP)
        level = list({id(x): x for n in level for x in n.args}.values())


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
