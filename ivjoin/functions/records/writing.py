"""Write operators as SQL text, with parentheses by precedence."""

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
    """Return the text of argument ``i``, in parentheses if its precedence is below ``level``."""

    def __call__(self, i: int, level: int = 0) -> str: ...


Written = Callable[[Node, Arg], tuple[str, int]]


def _parts(n: Node, arg: Arg, level: int) -> list[str]:
    # AND and OR are associative. For other operators, only the left operand may have the same precedence.
    first = level + 1 if level in (COMPARE, BIT) else level
    rest = level if level in (OR, AND) else level + 1
    return [arg(i, first if i == 0 else rest) for i in range(len(n.args))]


def infix(symbol: str, level: int) -> Written:
    """Write the arguments with a symbol between them."""
    return lambda n, arg: (f" {symbol} ".join(_parts(n, arg, level)), level)


def by_width(symbol: str, level: int) -> Written:
    """Write an infix operator whose result type depends on the precision of each decimal argument."""

    def written(n: Node, arg: Arg) -> tuple[str, int]:
        parts = [with_width(a) or part for a, part in zip(n.args, _parts(n, arg, level), strict=True)]
        return f" {symbol} ".join(parts), level

    return written


def narrowed(written: Written) -> Written:
    """Write a remainder of decimals as a cast to its type if the text alone would give another type."""

    def cast(n: Node, arg: Arg) -> tuple[str, int]:
        text, level = written(n, arg)
        if n.type.kind == "decimal" and n.type != n.args[0].type:
            return f"CAST({text} AS {type_text(n.type)})", ATOM
        return text, level

    return cast


def called(name: str, params: bool = False) -> Written:
    """Write a function call. With ``params``, the parameters of the node follow the arguments."""
    return lambda n, arg: written_call(name, [arg(i) for i in range(len(n.args))], n.params if params else ())


def written_call(name: str, args: list[str], options: Any = ()) -> tuple[str, int]:
    """Return the text of a function call. Options with the value None are omitted."""
    return f"{name}({', '.join(args + [_option(p) for p in options if p is not None])})", ATOM


def _option(p: Any) -> str:
    return string_text(p) if isinstance(p, str) else str(p)
