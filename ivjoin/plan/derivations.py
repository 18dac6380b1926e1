"""Values that are computed from a plan once, for all operators of the plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Derived"]

_Value = TypeVar("_Value")


class Derived:
    """What operators have computed from a plan so far. Its values are immutable.

    An operator whose keys or axes change starts with an empty one. The values are typed by the functions that compute
    them, so this module needs to know none of them.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return what ``make`` returned the first time.

        Parameters
        ----------
        name : hashable
            The function that computes the value, or a tuple of it and what the value depends on besides the plan.
        make : callable
            Called without arguments. Two threads may both call it; they return the same value.
        """
        found: _Value | None = self._found.get(name)
        return self._found.setdefault(name, make()) if found is None else found
