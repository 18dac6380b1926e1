"""Read the next piece of an input on another thread while the previous piece is joined."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Thread
from typing import Generic, TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")
Item = TypeVar("Item")


class _Reading(Thread, Generic[Item, T]):
    """A thread that makes one call, and stores its result or its error."""

    def __init__(self, read: Callable[[Item], T], item: Item) -> None:
        super().__init__(name="ivjoin reading")
        self._read, self._item = read, item
        self._found: list[T] = []
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._found.append(self._read(self._item))
        except BaseException as e:
            self._error = e

    def taken(self) -> T:
        self.join()
        if self._error is not None:
            raise self._error
        return self._found.pop()


def read_ahead(items: Sequence[Item], read: Callable[[Item], T]) -> Iterator[T]:
    """Yield ``read(item)`` for each item, and read at most one item ahead.

    An error is raised in place of the item that caused it. If the caller stops early, the current read still ends.
    """
    under_way: _Reading[Item, T] | None = None
    for i, item in enumerate(items):
        found = read(item) if under_way is None else under_way.taken()
        under_way = _Reading(read, items[i + 1]) if i + 1 < len(items) else None
        yield found
        del found
