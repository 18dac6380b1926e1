"""Evaluate expressions exactly on Arrow arrays, with Spark's ANSI semantics.

A list of expressions is compiled once to a program. It contains each distinct node once, with a kernel for its argument
types and constants. Rows that overflow, divide by zero or fail a cast are marked, and do not raise exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.failure import describe
from ivjoin.errors import EvaluationError
from ivjoin.expr.kernels.cells import Cell, Kernel, Rule, const_cell, objects, repeated, unsupported
from ivjoin.expr.kernels.columns import load, loader
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.types import Type
from ivjoin.functions.table import meaning_of, operator_of

__all__ = [
    "Vector", "check_supported", "compiled", "constant", "evaluate", "first_error", "from_arrow_array", "no_column",
]  # fmt: skip

Column = Callable[[str, str], Any]
Program = Callable[[Column, int], list["Vector"]]


@dataclass(slots=True)
class Vector:
    """The values of one expression for n rows.

    ``values`` are physical values (see ``ivjoin.expr.types``). They are arbitrary in rows that are not valid.

    - Decimals are int64 up to 18 digits, and Python ints above.
    - Dates and months are int32, times are int64.
    - Strings are ``large_string`` arrays, bytes are ``large_binary`` arrays.
    """

    values: Any
    valid: np.ndarray | None  # bool[n]: rows that are not NULL; None means all
    error: np.ndarray | None  # bool[n]: rows with an error, even if they are not valid; None means no row


def no_column(side: str, name: str) -> Any:
    """Serve as the ``column`` argument of :func:`evaluate` for expressions without columns."""
    raise AssertionError("a constant reads no column")


def evaluate(roots: Sequence[Node], column: Column, n: int) -> list[Vector]:
    """Return a Vector for each expression. Shared sub-expressions are computed once.

    ``column(side, name)`` returns the Arrow array (or chunked array) of n rows. Unsupported types raise an
    UnsupportedError, whatever the values are. A text function raises an EvaluationError for text that is not UTF-8.
    """
    try:
        return _program(tuple(roots))(column, n)
    except UnicodeDecodeError as e:
        raise _not_utf8(e.object[:40]) from e
    except pa.ArrowInvalid as e:
        if "UTF8" not in str(e):
            raise
        raise _not_utf8(None) from e


def constant(node: Node) -> tuple[bool, Any]:
    """Return whether a constant expression has an error, and its physical value (None for NULL and for errors)."""
    (v,) = evaluate([node], no_column, 1)
    return _first_row(v)


def _first_row(v: Vector) -> tuple[bool, Any]:
    errs = v.error is not None and bool(v.error[0])
    if errs or (v.valid is not None and not v.valid[0]):
        return errs, None
    return errs, v.values[:1].tolist()[0] if isinstance(v.values, np.ndarray) else v.values[0]


def _not_utf8(data: bytes | None) -> EvaluationError:
    shown = "" if data is None else f", such as {data!r}"
    return EvaluationError(
        f"a text that the condition reads is not in UTF-8{shown}; expected UTF-8. Read the column as binary, or "
        "convert it before the join"
    )


def compiled(roots: Sequence[Node]) -> Program:
    """Return a function ``(column, n) -> list of Vector`` for these expressions. :func:`evaluate` caches it."""
    place: dict[Node, int] = {}
    constants: dict[int, Cell] = {}
    loads: list[tuple[int, str, str, Callable[[Any], Cell]]] = []
    steps: list[tuple[int, Kernel, list[int]]] = []
    spread: list[tuple[int, Cell]] = []
    quiet = False
    with np.errstate(all="ignore"):
        for node in walk(*roots):
            i = place[node] = len(place)
            if node.op == "column":
                side, name = node.params
                loads.append((i, side, name, loader(node.type)))
                continue
            if node.op == "literal":
                constants[i] = const_cell(node.params[0], node.type)
                continue
            at = [place[a] for a in node.args]
            known = [constants.get(j) for j in at]
            clean = tuple(c if c is not None and c[1] is None and c[2] is None else None for c in known)
            kernel = _rule(node)(node, clean)
            if at and all(c is not None for c in known):
                constants[i] = kernel(*known)
                continue
            quiet = quiet or _may_warn(node)
            steps.append((i, kernel, at))
    # If a constant is NULL or has an error, it is repeated, because masks must have an entry for each row.
    start: list[Any] = [None] * len(place)
    for j, cell in constants.items():
        if cell[1] is None and cell[2] is None:
            start[j] = cell
        else:
            spread.append((j, cell))
    finish = [(place[r], _finisher(r.type, place[r] in constants)) for r in roots]

    def run(column: Column, n: int) -> list[Vector]:
        cells = start.copy()
        for i, side, name, fetch in loads:
            cells[i] = fetch(column(side, name))
        if spread:
            for i, cell in spread:
                cells[i] = _spread(cell, n)
        for i, kernel, at in steps:
            cells[i] = kernel(*[cells[j] for j in at])
        return [wrap(cells[i], n) for i, wrap in finish]

    if not quiet:
        return run

    def run_quietly(column: Column, n: int) -> list[Vector]:
        with np.errstate(all="ignore"):
            return run(column, n)

    return run_quietly


_program = lru_cache(256)(compiled)


def _may_warn(node: Node) -> bool:
    """Return whether the kernel could cause a NumPy warning. Sums of integer arrays wrap without one."""
    operator = operator_of(node)
    if operator is not None and operator.warns is not None:
        return operator.warns
    return any(n.type.kind == "float" for n in (node, *node.args))


def _rule(node: Node) -> Rule:
    """Return the evaluation rule for a node's operator and argument kinds, or raise UnsupportedError."""
    meaning = meaning_of(node)
    if meaning is None:
        raise unsupported(node)
    return meaning.exact


def check_supported(*roots: Node) -> None:
    """Raise UnsupportedError if a sub-expression cannot be evaluated. This needs no rows."""
    compiled(roots)


def from_arrow_array(array: Any, type: Type) -> Vector:
    """Return the physical values of an Arrow array of ``type`` as a Vector, without a copy where possible."""
    return _wrap(type, load(array, type))


def _wrap(t: Type, cell: Cell) -> Vector:
    if t.kind == "decimal":
        return Vector(_as_declared(cell[0], t), cell[1], cell[2])
    return Vector(*cell)


def _finisher(t: Type, constant: bool) -> Callable[[Cell, int], Vector]:
    return lambda cell, n: _wrap(t, _spread(cell, n) if constant else cell)


def _spread(cell: Cell, n: int) -> Cell:
    """Repeat a constant for n rows."""
    v, ok, err = cell
    if len(v) != n or n == 0:
        v = repeated(v, n)
        ok = None if ok is None else np.repeat(ok[:1], n)
        err = None if err is None else np.repeat(err[:1], n)
    return v, ok, err


def _as_declared(values: np.ndarray, t: Type) -> np.ndarray:
    """Convert decimals from the dtype of the kernels to the dtype that Vector documents."""
    if t.precision > 18:
        return values if values.dtype == object else objects(values.tolist())
    if values.dtype == object:  # only rows without a value can be too large
        return np.array([v if -(1 << 63) <= v < 1 << 63 else 0 for v in values.tolist()], dtype=np.int64)
    return values


def first_error(root: Node, column: Column, row: int) -> str:
    """Explain why an expression has an error in a row, with the failing sub-expression and its values.

    For example, ``"integer overflow in l.a + 10 (int32) at l.a = 2147483647"``.
    """
    arrays: dict[tuple[str, str], Any] = {}

    def here(side: str, name: str) -> Any:
        if (side, name) not in arrays:
            arrays[side, name] = column(side, name).slice(row, 1)
        return arrays[side, name]

    def probe(node: Node) -> tuple[bool, Any]:
        (v,) = compiled([node])(here, 1)
        return _first_row(v)

    def shown(node: Node) -> str:
        scalar = here(*node.params)[0]
        try:
            value = scalar.as_py()
        except (ValueError, OverflowError, ImportError):  # a time that Python's datetime cannot represent
            return str(probe(node)[1])
        return repr(value) if isinstance(value, (str, bytes)) else "NULL" if value is None else str(value)

    return describe(root, probe, shown)
