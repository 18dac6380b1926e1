"""Kernels that call a Python function for each row, for functions that NumPy and Arrow lack."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.expr.kernels.cells import LARGE, Cell, Consts, Kernel, combined, dtype_of, flagged, met, rows
from ivjoin.expr.nodes import Node

__all__ = ["by_row", "listed"]


def listed(cell: Cell, n: int) -> list[Any]:
    """Return the values of a cell as a list for n rows. Values of invalid rows are arbitrary."""
    v = cell[0]
    values: list[Any] = v.to_pylist() if isinstance(v, (pa.Array, pa.ChunkedArray)) else v.tolist()
    return values * n if len(values) == 1 and n != 1 else values


def by_row(f: Callable[..., Any], most: int = 1 << 16) -> Callable[[Node, Consts], Kernel]:
    """Return the rule of a function of the values in one row.

    The function raises ValueError for an error, and returns None for NULL. Its results are cached for up to ``most``
    distinct rows.
    """

    def rule(node: Node, consts: Consts) -> Kernel:
        t = node.type
        text = LARGE.get(t.kind)

        @lru_cache(most)
        def value(*args: Any) -> Any:
            try:
                return f(*args)
            except ValueError:
                return ValueError

        def kernel(*cells: Cell) -> Cell:
            n = rows(*(c[0] for c in cells))
            ok = err = None
            for _, valid, errs in cells:
                ok, err = met(ok, valid), combined(err, errs)
            if ok is not None:
                ok = np.broadcast_to(ok, (n,))
            skipped = np.zeros(n, dtype=bool) if ok is None else ~ok
            found = [None if s else value(*a) for s, *a in zip(skipped, *(listed(c, n) for c in cells))]
            bad = np.array([x is ValueError for x in found], dtype=bool)
            null = np.array([x is None for x in found], dtype=bool)
            err = flagged(err, bad, None)
            valid = ~(null | skipped) if null.any() or ok is not None else None
            if text is not None:
                return pa.array([None if x is ValueError else x for x in found], type=text), valid, err
            dtype = dtype_of(t)
            fill = dtype.type(0)
            return np.array([fill if x is None or x is ValueError else x for x in found], dtype=dtype), valid, err

        return kernel

    return rule
