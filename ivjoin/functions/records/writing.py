"""How operators are written as SQL text, and how strongly each form binds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ivjoin.expr.nodes import Node
from ivjoin.expr.words import string_text, type_text, with_width

__all__ = [
    "ADD", "AND", "ATOM", "BIT", "COMPARE", "MUL", "NOT", "OR", "UNARY", "Arg", "Written", "by_width", "called",
    "infix", "narrowed", "written_call",
]  # fmt: skip

OR, AND, NOT, COMPARE, BIT, ADD, MUL, UNARY, ATOM = range(1, 10)


class Arg(Protocol):
    """The text of argument ``i``, in parentheses if it binds less than ``level``."""

    def __call__(self, i: int, level: int = 0) -> str: ...


Written = Callable[[Node, Arg], tuple[str, int]]


def _parts(n: Node, arg: Arg, level: int) -> list[str]:
    # AND and OR are associative; for other operators, only the left operand may have the same strength.
    first = level + 1 if level in (COMPARE, BIT) else level
    rest = level if level in (OR, AND) else level + 1
    return [arg(i, first if i == 0 else rest) for i in range(len(n.args))]


def infix(symbol: str, level: int) -> Written:
    """Return the arguments with a symbol between them."""
    return lambda n, arg: (f" {symbol} ".join(_parts(n, arg, level)), level)


def by_width(symbol: str, level: int) -> Written:
    """Return infix text; the result type depends on the widths of decimals, which have no common type."""

    def written(n: Node, arg: Arg) -> tuple[str, int]:
        parts = [with_width(a) or part for a, part in zip(n.args, _parts(n, arg, level), strict=True)]
        return f" {symbol} ".join(parts), level

    return written


def narrowed(written: Written) -> Written:
    """Return the text of a remainder, whose decimals were cast to one type; without casts the type would differ."""

    def cast(n: Node, arg: Arg) -> tuple[str, int]:
        text, level = written(n, arg)
        if n.type.kind == "decimal" and n.type != n.args[0].type:
            return f"CAST({text} AS {type_text(n.type)})", ATOM
        return text, level

    return cast


def called(name: str, params: bool = False) -> Written:
    """Return the text of a function of the arguments, with the node's params after them if requested."""
    return lambda n, arg: written_call(name, [arg(i) for i in range(len(n.args))], n.params if params else ())


def written_call(name: str, args: list[str], options: Any = ()) -> tuple[str, int]:
    """Return the text of a call; options with the value None are omitted."""
    return f"{name}({', '.join(args + [_option(p) for p in options if p is not None])})", ATOM


def _option(p: Any) -> str:
    return string_text(p) if isinstance(p, str) else str(p)
