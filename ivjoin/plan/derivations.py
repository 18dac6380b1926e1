"""Values that are computed from a plan once, for all operators of the plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Derived"]

_Value = TypeVar("_Value")


class Derived:
    """What operators have computed from a plan so far; the values are immutable.

    An operator whose keys or axes change starts with an empty one.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return what ``make`` returned the first time for ``name``, the same value in all threads."""
        found: _Value | None = self._found.get(name)
        return self._found.setdefault(name, make()) if found is None else found
