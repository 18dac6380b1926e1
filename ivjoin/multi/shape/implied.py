"""Derive a comparison of two inputs from a conjunct over three or more, as a band of the step that joins these two.

``greatest(a.x, b.x, c.x) - least(a.x, b.x, c.x) < 20`` implies ``greatest(a.x, b.x) - least(a.x, b.x) < 20``. On the
smaller side of a comparison, an expression of other inputs is replaced by a lower bound, on the greater side by an
upper bound. Arguments of ``greatest`` and ``least`` may be dropped if the others are not NULL and not NaN. An ``abs``
or a square becomes 0, because the conjunct is not TRUE if it is NULL.

The result is used only to find bands, and is never evaluated. A sum of floats is NaN if infinities cancel or an
argument is NaN, and NaN is above all numbers. Floats are therefore used only if all addends are literals, or if the
other side is a finite literal. On the smaller side, such a sum is not NaN. On the greater side, no argument may be NaN:
the sum is then NaN only if a term is infinite, and so is its replacement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import combinations

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, columns_of, make
from ivjoin.expr.types import BOOL

__all__ = ["of_two"]

_SMALL_LEFT = {ops.LT: True, ops.LE: True, ops.GT: False, ops.GE: False}
_RISING_CASTS = frozenset({"int", "decimal", "float"})


@dataclass(frozen=True)
class _Replacing:
    """The columns of the two inputs, by name, and known properties of columns."""

    names: Set[str]
    present: Set[Node]
    numbers: Set[Node] | None  # None if a NaN, which is above all numbers, may replace it

    def below(self, n: Node, down: bool) -> Node | None:
        """Return an expression over the two inputs that is never greater than ``n`` (not ``down``: never less)."""
        if self._reads(n):
            return n
        if n.op == (ops.GREATEST if down else ops.LEAST):
            kept = tuple(a for a in n.args if self._reads(a) and self._is_there(a))
            return None if not kept else kept[0] if len(kept) == 1 else make(n.op, kept, n.params, n.type)
        if down and n.type.kind in ("int", "decimal", "float") and (
            n.op == ops.ABS or (n.op == ops.MUL and n.args[0] is n.args[1])
        ):
            return make("literal", (), (0.0 if n.type.kind == "float" else 0,), n.type)
        if n.op in (ops.ADD, ops.SUB, ops.ADD_DAYS, "sub_days", ops.DATE_DIFF):
            return self._rebuilt(n, down, down == n.op.startswith(ops.ADD))
        if n.op == ops.NEG:
            return self._rebuilt(n, not down)
        if n.op == ops.CAST and {n.type.kind, n.args[0].type.kind} <= _RISING_CASTS:
            return self._rebuilt(n, down)
        return None

    def _rebuilt(self, n: Node, *down: bool) -> Node | None:
        args = [self.below(a, d) for a, d in zip(n.args, down, strict=True)]
        return None if any(a is None for a in args) else make(n.op, tuple(a for a in args if a), n.params, n.type)

    def _reads(self, n: Node) -> bool:
        return all(c.params[1] in self.names for c in columns_of(n))

    def _is_there(self, n: Node) -> bool:
        while n.op == ops.CAST:
            n = n.args[0]
        if n.op == "literal":
            return n.params[0] is not None and n.params[0] == n.params[0]
        return n in self.present and (self.numbers is None or n.type.kind != "float" or n in self.numbers)


def of_two(
    conjunct: Node, names: Mapping[str, Set[str]], present: Set[Node], numbers: Set[Node]
) -> Iterable[tuple[frozenset[str], Node]]:
    """Return the implied comparisons of each pair of inputs.

    ``names`` has the wide names that the conjunct reads of each input. ``present`` and ``numbers`` are columns that are
    not NULL, and floats that are not NaN, if the whole condition is TRUE.
    """
    small_left = _SMALL_LEFT.get(conjunct.op)
    if small_left is None or len(names) < 3:
        return
    left, right = conjunct.args
    found: dict[Node, frozenset[str]] = {}
    for a, b in combinations(names, 2):
        both = names[a] | names[b]
        # Each side over both inputs, or over one input, because only this form implies a band for floats.
        for of_left, of_right in ((both, both), (names[a], names[b]), (names[b], names[a])):
            known: Set[Node] | None = numbers
            if left.type.kind == "float":
                small, large = (left, right) if small_left else (right, left)
                if _rises(left) and _rises(right):
                    known = None
                elif not (_is_finite(large) or (_is_finite(small) and _adds_up(large, numbers))):
                    return
            x = _Replacing(of_left, present, known).below(left, small_left)
            y = _Replacing(of_right, present, known).below(right, not small_left)
            if x is not None and y is not None:
                read = {c.params[1] for c in columns_of(x, y)}
                if read & names[a] and read & names[b]:
                    found[make(conjunct.op, (x, y), (), BOOL)] = frozenset((a, b))
    yield from ((pair, node) for node, pair in found.items())


def _rises(n: Node) -> bool:
    """Return whether a float rises with each of its columns, NaN above all: only literals are added."""
    if n.op in (ops.ADD, ops.SUB):
        return _is_finite(n.args[1]) and _rises(n.args[0])
    if n.op in (ops.GREATEST, ops.LEAST, ops.CAST):
        return all(_rises(a) for a in n.args)
    return n.op in ("column", "literal")


def _adds_up(n: Node, numbers: Set[Node], inside: bool = False) -> bool:
    """Return whether a sum is NaN only if infinities cancel, and not ``inside`` of greatest or least."""
    if n.type.kind in ("int", "decimal"):
        return True
    if n.op in (ops.ADD, ops.SUB, ops.NEG):
        return not inside and all(_adds_up(a, numbers) for a in n.args)
    if n.op in (ops.GREATEST, ops.LEAST):
        return all(_adds_up(a, numbers, True) for a in n.args)
    if n.op == ops.CAST:
        return _adds_up(n.args[0], numbers, inside)
    return n in numbers or _is_finite(n)


def _is_finite(n: Node) -> bool:
    return n.op == "literal" and n.params[0] is not None and math.isfinite(n.params[0])
