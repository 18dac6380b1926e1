"""Resolve names in a condition to columns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

import pyarrow as pa

from ivjoin.errors import ColumnError, ConditionError, OptionError, came
from ivjoin.expr.literals import literal
from ivjoin.expr.nodes import LEFT, RIGHT, Node, make
from ivjoin.expr.types import from_arrow

__all__ = ["Scope", "nearest"]

_QUALIFIERS = {"l": LEFT, "left": LEFT, "r": RIGHT, "right": RIGHT}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ``"; did you mean 'ts'?"``, or an empty text."""
    by_fold = {k.casefold(): k for k in known}
    hits = difflib.get_close_matches(name.casefold(), list(by_fold), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(by_fold[h]) for h in hits)}?" if hits else ""


class Scope:
    """The columns of both inputs, by the names that a condition may use.

    ``on`` are the key columns. A bare name that both sides of a key have is the key. ``aliases`` maps further
    qualifiers to a side, in addition to ``l``, ``left``, ``r`` and ``right``. ``params`` contains the values of
    ``:name`` parameters.
    """

    __slots__ = (
        "_exact", "_folded", "_inputs", "_merged", "_of_two", "_qualifiers", "case_sensitive", "left", "on", "params",
        "right",
    )  # fmt: skip

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        on: Iterable[tuple[str, str]] = (),
        case_sensitive: bool = True,
        aliases: Mapping[str, str] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> None:
        self.params = _checked(params)
        self._merged: dict[str, Node] = {}
        self.left, self.right = left, right
        self.on = [(a, b) for a, b in on]
        self.case_sensitive = case_sensitive
        self._qualifiers = dict(_QUALIFIERS)
        for alias, side in (aliases or {}).items():
            if side not in (LEFT, RIGHT):
                raise ConditionError(f"the alias {alias!r} must name 'left' or 'right', not {side!r}")
            self._qualifiers[alias.lower()] = side
        self._of_two = True
        self._read({LEFT: left, RIGHT: right})

    @classmethod
    def of_inputs(
        cls, inputs: Mapping[str, pa.Schema], case_sensitive: bool = True,
        params: Mapping[str, object] | None = None, merged: Mapping[str, Node] | None = None,
    ) -> Scope:
        """Return a scope of any number of inputs. Columns are ``alias.name``, or a name that only one input has.

        The side of a column node is the alias. ``merged`` maps further bare names, in lower case, to their nodes.
        """
        empty = pa.schema([])
        self = cls(empty, empty, case_sensitive=case_sensitive, params=params)
        self._merged = dict(merged or {})
        self._of_two = False
        self._qualifiers = {alias.lower(): alias for alias in inputs}
        self._read(inputs)
        return self

    def _read(self, inputs: Mapping[str, pa.Schema]) -> None:
        self._inputs = dict(inputs)
        self._exact: dict[str, dict[str, list[int]]] = {side: {} for side in inputs}
        self._folded: dict[str, dict[str, list[int]]] = {side: {} for side in inputs}
        for side, schema in inputs.items():
            for i, name in enumerate(schema.names):
                self._exact[side].setdefault(name, []).append(i)
                self._folded[side].setdefault(name.lower(), []).append(i)

    def side_of(self, qualifier: str) -> str | None:
        """Return ``"left"``, ``"right"`` or an alias, or None if the qualifier is unknown."""
        return self._qualifiers.get(qualifier.lower())

    def resolve(self, qualifier: str | None, name: str) -> Node:
        """Return the node of ``qualifier.name`` or a bare name. Raise ColumnError if it is unknown or ambiguous."""
        if qualifier is not None:
            side = self.side_of(qualifier)
            if side is None:
                raise self._unknown_qualifier(qualifier, name)
            index = self._find(side, name)
            if index is None:
                raise self._unknown(side, name)
            return self._column(side, index)
        if name.lower() in self._merged:
            return self._merged[name.lower()]
        found = [(side, i) for side in self._inputs if (i := self._find(side, name)) is not None]
        if not found:
            raise self._unknown(None, name)
        if len(found) > 1 and not (self._of_two and self._is_key(found[0][1], found[1][1])):
            who = "both inputs have it" if len(self._inputs) == 2 else f"{len(found)} inputs have it"
            such = " or ".join(f"{self._qualifier(side)}.{name}" for side, _ in found)
            known = [n for side in self._inputs for n in self._schema(side).names]
            raise ColumnError(f"column {name!r} is ambiguous: {who}; write {such}").of(name, None, known)
        return self._column(*found[0])

    def parameter(self, name: str) -> Node:
        """Return the literal of ``:name``. Raise ConditionError if the caller gave no value."""
        if name not in self.params:
            given = f"params= has {', '.join(sorted(self.params))}" if self.params else "params= is not given"
            raise ConditionError(
                f":{name} has no value: {given}; pass params={{{name!r}: value}} (--param {name}=value)"
                f"{nearest(name, self.params)}"
            )
        return literal(self.params[name])

    def path(self, parts: list[str]) -> tuple[Node, list[str]]:
        """Split a dotted name into the node of its column and the names of fields after it, or raise ColumnError."""
        if len(parts) > 1 and self.side_of(parts[0]) is not None:
            return self.resolve(parts[0], parts[1]), parts[2:]
        if len(parts) > 1 and not any(self._find(side, parts[0]) is not None for side in self._inputs):
            raise self._unknown_qualifier(parts[0], parts[1])
        return self.resolve(None, parts[0]), parts[1:]

    def _qualifier(self, side: str) -> str:
        return side[0] if self._of_two else side

    def _is_key(self, left: int, right: int) -> bool:
        a, b = self.left.names[left], self.right.names[right]
        return any(self._same(a, x) and self._same(b, y) for x, y in self.on)

    def _same(self, a: str, b: str) -> bool:
        return a == b or (not self.case_sensitive and a.lower() == b.lower())

    def _find(self, side: str, name: str) -> int | None:
        hits = self._exact[side].get(name) if self.case_sensitive else self._folded[side].get(name.lower())
        if not hits:
            return None
        if len(hits) > 1:
            exact = self._exact[side].get(name, hits)
            if len(exact) == 1:
                return exact[0]
            names = self._schema(side).names
            raise ColumnError(f"column {name!r} is ambiguous: {side} has {', '.join(repr(names[i]) for i in hits)}")
        return hits[0]

    def _schema(self, side: str) -> pa.Schema:
        return self._inputs[side]

    def _column(self, side: str, index: int) -> Node:
        field = self._schema(side).field(index)
        return make("column", (), (side, field.name), from_arrow(field.type))

    def _unknown(self, side: str | None, name: str) -> ColumnError:
        sides = [s for s in (self._inputs if side is None else (side,)) if len(self._schema(s).names) or side]
        known = [n for s in sides for n in self._schema(s).names]
        hint = nearest(name, known)
        if not hint and side is not None:
            others = [s for s in self._inputs if s != side and self._find(s, name) is not None]
            if others:
                hint = f"; {others[0]} has it: write {self._qualifier(others[0])}.{name}"
        there = "; ".join(f"{s} has {_listed(self._schema(s).names)}" for s in sides) or "there are no columns"
        many = ("the input", sides[0] if sides else "", "either input")
        where = side if side is not None else many[len(sides)] if len(sides) < 3 else "any input"
        return ColumnError(f"column {came(name)} is not in {where}: {there}{hint}").of(name, side, known)

    def _unknown_qualifier(self, qualifier: str, name: str) -> ColumnError:
        return ColumnError(
            f"{qualifier!r} in {qualifier}.{name} names no input; expected one of {', '.join(sorted(self._qualifiers))}"
            f"{nearest(qualifier, self._qualifiers)}"
        )


def _checked(params: Mapping[str, object] | None) -> dict[str, object]:
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(n, str) and n.isidentifier() for n in params):
        raise OptionError(f"params is {came(params)}; expected names and values such as {{'w': 5}} for :w")
    return dict(params)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:20])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 20 else shown or "no columns"
