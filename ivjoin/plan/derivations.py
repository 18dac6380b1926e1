"""Cache values that are computed once for all operators of a plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Derived"]

_Value = TypeVar("_Value")


class Derived:
    """The cached values of a plan, which are immutable.

    An operator that changes its keys or axes starts with an empty cache.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the cached value of ``name``, or call ``make`` to compute it. All threads get the same value."""
        found: _Value | None = self._found.get(name)
        return self._found.setdefault(name, make()) if found is None else found
