"""The state of a bucket in plain Python, as both backends see it: a dictionary of names and what they hold."""

from __future__ import annotations

from typing import Any


class Value:
    """One name of a state; ``updates`` counts how often it was set."""

    def __init__(self, held: dict[str, list[Any]], name: str) -> None:
        self._held, self._name, self.updates = held, name, 0

    @property
    def value(self) -> list[Any]:
        return self._held.get(self._name, [])

    def update(self, value: Any) -> None:
        self._held[self._name] = [value]
        self.updates += 1

    def appendValue(self, value: Any) -> None:
        self._held[self._name] = [*self.value, value]

    def clear(self) -> None:
        self._held.pop(self._name, None)


class Property(Value):
    """``GroupState``: ``exists`` and ``get`` are properties."""

    @property
    def exists(self) -> bool:
        return bool(self.value)

    @property
    def get(self) -> Any:
        return self.value[0]


class Method(Value):
    """``ValueState`` and ``ListState``: they are methods."""

    def exists(self) -> bool:
        return bool(self.value)

    def get(self) -> Any:
        return iter(self.value) if self._name == "log" else self.value[0]


class Handle:
    def __init__(self, held: dict[str, list[Any]]) -> None:
        self._held = held

    def getValueState(self, name: str, schema: str) -> Method:
        return Method(self._held, name)

    getListState = getValueState
