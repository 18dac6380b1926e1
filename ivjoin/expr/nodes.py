"""The expression DAG: immutable, interned, typed nodes.

Structurally equal expressions are the same object, so ``is`` compares them, and a dictionary can have them as keys.
:func:`make` creates nodes. Callers use ``ivjoin.expr.build`` instead, which inserts casts so that the arguments of an
operator have one type. Arguments have mixed types only where the catalogue states it.

This is the catalogue of operators (``op``: arguments -> type; ``params``). The record of each operator in
``ivjoin.functions`` defines what it computes:

leaves
    ``column`` (): params (side, name), side ``"left"`` or ``"right"``
    ``literal`` (): params (physical value,) as ``types`` defines it; None is NULL
arithmetic, arguments of one type
    ``add sub mul`` ints, floats, decimals: int and decimal overflow is an error. ``add sub`` also duration with
    duration, and timestamp +- duration -> timestamp (in one unit; params (zone,) is the zone of calendar days).
    ``sub`` timestamp, timestamp -> duration.
    ``div`` SQL ``/``: float64 or decimal; ``x / 0`` is an error. ``intdiv`` SQL ``div`` truncates: int64.
    ``mod`` has the sign of the dividend; ``pmod`` is not negative for a positive divisor. ``neg abs sign``.
    ``least greatest`` n >= 2, skip nulls. ``floor ceil`` -> int64 from float, decimal(p,0) from decimal.
    ``round bround`` params (digits,), HALF_UP and HALF_EVEN.
    ``sqrt cbrt exp expm1 ln log10 log2 log1p sin cos tan asin acos atan sinh cosh tanh`` float64 -> float64;
    ``pow hypot`` float64, float64. Logarithms of a value outside their domain are NULL.
    ``next_up next_down`` float -> float is the neighbouring double, used only by relaxed band terms.
times
    ``add_months`` date|timestamp, int32 -> same type, at most the last day of the month; params (zone,)
    ``add_days`` date, int32 -> date. ``date_diff`` date, date -> int32 days.
    ``date_trunc`` params (unit, zone): timestamp -> timestamp. ``trunc_date`` params (unit,): date -> date.
    ``unix_seconds unix_millis unix_micros`` timestamp -> int64, rounded down. ``unix_date`` date -> int32.
    ``extract`` params (field, zone): date|timestamp -> int32.
comparison, arguments of one type -> bool
    ``eq ne lt le gt ge``, ``eq_null_safe`` (never NULL)
truth
    ``and or`` n >= 2, ``not``, ``is_null`` any -> bool, ``is_nan``
choice
    ``coalesce`` n >= 1; ``case`` (when, then, when, then, ..., else)
    ``in`` (x): params (physical value of x's type or None, ...), at least one
cast
    ``cast`` params (target Type, zone): ANSI cast; a value that does not fit is an error. With a third param "met", it
    is an argument of a comparison, converted to the finer unit of two (see `is_met`)
bits
    ``bit_and bit_or bit_xor`` ints of one type, ``bit_not``; ``shiftleft shiftright shiftrightunsigned`` int32|int64,
    int32: shifts by the second argument modulo the width. ``bit_count`` -> int32.
spans
    ``whole_units`` params (unit,): duration -> int64, truncated. ``months_apart`` timestamp, timestamp -> int64.
    ``months_between`` params (zone, rounds) -> float64. ``next_day`` params (weekday,): date -> date.
attempts
    ``attempt`` (arguments of an operation, then the operation): NULL if the operation itself has an error.
nested
    ``field`` params (name,): struct -> any. ``size`` -> int32. ``array_contains`` (array, element) -> bool.
    ``sort_key`` nested -> binary with the same order; comparisons of nested values compare sort keys.
hashes
    ``hash`` -> int32, ``xxhash64`` -> int64: any number of arguments of any type; ``crc32 md5 sha1 sha2`` of binary.
strings
    ``like_column rlike_column`` (text, pattern), ``substring_at`` (text, position, length), ``levenshtein``.
    ``like`` params (pattern, escape): string -> bool. ``function`` params (name, *options): a string function that
    pyarrow.compute evaluates. The node states its result type.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from ivjoin.expr import ops
from ivjoin.expr.types import Type

__all__ = [
    "COMPARISONS", "FLIPPED", "LEFT", "NEGATED", "RIGHT", "Node", "columns_of", "is_met", "make", "rewrite",
    "sides_of", "walk",
]  # fmt: skip

LEFT: Final = "left"
RIGHT: Final = "right"
#: The comparison with its arguments exchanged.
FLIPPED: Final = {
    ops.LT: ops.GT, ops.LE: ops.GE, ops.GT: ops.LT, ops.GE: ops.LE, ops.EQ: ops.EQ, ops.NE: ops.NE,
    ops.EQ_NULL_SAFE: ops.EQ_NULL_SAFE,
}  # fmt: skip
COMPARISONS: Final = frozenset(FLIPPED)
#: The comparison that is TRUE if this one is FALSE, and the reverse.
NEGATED: Final = {ops.LT: ops.GE, ops.LE: ops.GT, ops.GT: ops.LE, ops.GE: ops.LT, ops.EQ: ops.NE, ops.NE: ops.EQ}

# ``ivjoin.conditions``, which imports this module, replaces this function by one that writes SQL.
to_text: Callable[[Any], str] = object.__repr__


class Node:
    """One operator of an expression, with its arguments, parameters and type. The catalogue above lists operators."""

    __slots__ = ("__weakref__", "_hash", "args", "op", "params", "type")

    op: str
    args: tuple[Node, ...]
    params: tuple[Any, ...]
    type: Type

    def __init__(self) -> None:
        raise TypeError("nodes are made by ivjoin.expr.nodes.make, which interns them")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("nodes are frozen")

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return make, (self.op, self.args, self.params, self.type)

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"<{self} : {self.type}>"


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def make(op: str, args: tuple[Node, ...], params: tuple[Any, ...], type: Type) -> Node:
    """Return the unique node with this operator, arguments, parameters and type."""
    # The key contains the Python type and text of a parameter, to distinguish 1, 1.0 and True, or 0.0 and -0.0.
    marks = tuple((p.__class__, repr(p)) if isinstance(p, (bool, int, float)) else p for p in params)
    key = (op, args, marks, type)
    with _lock:
        node = _interned.get(key)
        if node is None:
            node = object.__new__(Node)
            put = object.__setattr__
            put(node, "op", op)
            put(node, "args", args)
            put(node, "params", params)
            put(node, "type", type)
            put(node, "_hash", hash(key))
            _interned[key] = node
    return node


def is_met(n: Node) -> bool:
    """Return whether a node is a time that was converted to the finer of two units for a comparison.

    A coarse value outside the range of the finer unit becomes the end of that range. A fine value at an end becomes the
    next value inside, which no coarse value has. A comparison of the results therefore gives the result for the
    instants, without overflow.
    """
    return n.op == ops.CAST and len(n.params) > 2


def walk(*roots: Node) -> Iterator[Node]:
    """Yield each distinct node of the expressions once, arguments before the nodes that use them."""
    seen: set[Node] = set()
    for root in roots:
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in seen:
                continue
            if ready:
                seen.add(node)
                yield node
            else:
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(node.args) if a not in seen)


def columns_of(*roots: Node) -> list[Node]:
    """Return the distinct column leaves, in order of first appearance."""
    return [n for n in walk(*roots) if n.op == "column"]


def sides_of(*roots: Node) -> frozenset[str]:
    """Return the sides that the expressions read, as a subset of {"left", "right"}."""
    return frozenset(n.params[0] for n in columns_of(*roots))


def rewrite(root: Node, f: Callable[[Node], Node | None]) -> Node:
    """Rebuild an expression bottom-up. ``f`` gets each node with its new arguments, and may return a replacement."""
    done: dict[Node, Node] = {}
    for node in walk(root):
        args = tuple(done[a] for a in node.args)
        new = node if args == node.args else make(node.op, args, node.params, node.type)
        done[node] = f(new) or new
    return done[root]
