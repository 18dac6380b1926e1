"""The data that kernels exchange: cells, masks and constants.

A cell is ``(values, valid, error)``:

- the values of a node for n rows, or for one row if it is a constant
- a mask of the rows that are not NULL (None: all rows)
- a mask of the rows with an error (None: no row)

Rows that are NULL or have an error contain arbitrary but harmless values.

A kernel computes the cell of a node from the cells of its arguments. A *rule* creates the kernel once for each plan,
from the node and its constant arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import UnsupportedError
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import Type

__all__ = [
    "LARGE", "Cell", "Consts", "Kernel", "Mask", "Rule", "absent", "checked", "combined", "const_cell", "const_values",
    "dtype_of", "flagged", "met", "narrowest", "objects", "of_values", "present", "repeated", "rows",
    "unsupported",
]

Mask = np.ndarray | None
Cell = tuple[Any, Mask, Mask]
Kernel = Callable[..., Cell]
Consts = tuple[Cell | None, ...]  # the cell of each argument that is a constant without NULL or error, else None
Rule = Callable[[Node, Consts], Kernel]

count = np.count_nonzero
LARGE = {"string": pa.large_string(), "binary": pa.large_binary()}  # the Arrow types of texts in cells


def met(a: Mask, b: Mask) -> Mask:
    """Return the rows that are valid in both."""
    if a is None:
        return b
    return a if b is None else a & b


def combined(a: Mask, b: Mask) -> Mask:
    """Return the rows with an error in either."""
    if a is None:
        return b
    return a if b is None else a | b


def flagged(error: Mask, bad: Mask, valid: Mask) -> Mask:
    """Add the ``bad`` rows that are valid to an error mask."""
    if bad is None or not count(bad):
        return error
    if valid is not None:
        bad = bad & valid
        if not count(bad):
            return error
    return bad if error is None else error | bad


def present(cell: Cell) -> Mask:
    """Return a mask of the rows that are valid and have no error (None: all rows)."""
    _, valid, error = cell
    return valid if error is None else ~error if valid is None else valid & ~error


def rows(*values: Any) -> int:
    """Return the common number of rows. Constants have one row."""
    lengths = [len(v) for v in values]
    return 0 if 0 in lengths else max(lengths)


def repeated(values: Any, n: int) -> Any:
    """Return ``values`` if they have n rows, or repeat a constant n times."""
    if len(values) == n:
        return values
    return np.repeat(values, n) if isinstance(values, np.ndarray) else values.take(pa.array(np.zeros(n, np.int64)))


def absent(valid: Mask, n: int) -> np.ndarray:
    return np.zeros(n, dtype=bool) if valid is None else ~valid


def checked(f: Callable[..., tuple[Any, Mask]]) -> Kernel:
    """Return the kernel of a function that returns values and a mask of wrong rows (None: no row).

    A row with a NULL argument is NULL. A wrong row, or a row with an error in an argument, has an error.
    """

    def kernel(*cells: Cell) -> Cell:
        valid: Mask = None
        error: Mask = None
        for _, ok, err in cells:
            if ok is not None:
                valid = met(valid, ok)
            if err is not None:
                error = combined(error, err)
        values, bad = f(*[cell[0] for cell in cells])
        if bad is not None:
            error = flagged(error, bad if len(bad) == len(values) else np.broadcast_to(bad, len(values)), valid)
        return values, valid, error

    return kernel


def of_values(f: Callable[..., Any]) -> Kernel:
    """Return the kernel of a function of values that creates neither errors nor nulls."""
    return checked(lambda *values: (f(*values), None))


_FIXED: dict[str, Any] = {
    "bool": np.bool_, "date": np.int32, "months": np.int32, "timestamp": np.int64, "time": np.int64,
    "duration": np.int64, "null": np.bool_,
}


def dtype_of(t: Type) -> np.dtype:
    """Return the dtype of the values of a type. Decimals are int64 if they fit, else object."""
    if t.kind == "int":
        return np.dtype(f"{'i' if t.signed else 'u'}{t.bits // 8}")
    if t.kind == "float":
        return np.dtype(f"f{t.bits // 8}")
    if t.kind in _FIXED:
        return np.dtype(_FIXED[t.kind])
    raise AssertionError(f"{t} has no numpy dtype")


def const_cell(value: Any, t: Type) -> Cell:
    """Return the one-row cell of a literal."""
    null = np.zeros(1, dtype=bool) if value is None else None
    if value is None and t.kind not in ("string", "binary"):
        value = 0
    return const_values([value], t), null, None


def const_values(values: list[Any], t: Type) -> Any:
    """Return literals of a type in the same form as the values of a column."""
    if t.kind in ("string", "binary"):
        return pa.array(values, type=LARGE[t.kind])
    if t.kind == "opaque":
        raise UnsupportedError(f"a literal of type {t} cannot take part in an expression")
    if t.kind in ("decimal", "decimal256"):
        return narrowest([int(v) for v in values])
    return np.array(values, dtype=dtype_of(t))


def narrowest(integers: list[int]) -> np.ndarray:
    """Return Python ints as an int64 array if all fit, else as an object array."""
    try:
        return np.array(integers, dtype=np.int64)
    except OverflowError:
        return objects(integers)


def objects(items: list[Any]) -> np.ndarray:
    """Return a one-dimensional object array of the items."""
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def unsupported(node: Node, why: str = "") -> UnsupportedError:
    """Return the error for an operator without a rule for its argument types."""
    types = ", ".join(str(a.type) for a in node.args)
    reason = f"; {why}" if why else ""
    name = node.params[0] if node.op == "function" else node.op
    return UnsupportedError(f"{node} cannot be evaluated: no rule for {name}({types}) -> {node.type}{reason}")
