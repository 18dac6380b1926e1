"""Evaluate the residual in bulk on candidate pairs, with the errors that AND would raise pair by pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate, first_error
from ivjoin.errors import EvaluationError
from ivjoin.expr.nodes import Node

__all__ = ["holds", "matching"]

Column = Callable[[str, str], pa.Array]


def holds(nodes: Sequence[Node], column: Column, n: int) -> np.ndarray:
    """Return the pairs for which every conjunct is TRUE : bool[n].

    An EvaluationError is raised if a conjunct has an error for a pair, and no earlier conjunct is FALSE for it.
    """
    true = np.ones(n, dtype=bool)
    unrefuted = np.ones(n, dtype=bool)
    for node, v in zip(nodes, evaluate(nodes, column, n), strict=True):
        value = np.asarray(v.values, dtype=bool)
        known: np.ndarray | None = v.valid
        if v.error is not None:
            erred = v.error & unrefuted
            if erred.any():
                raise EvaluationError(first_error(node, column, int(erred.argmax())))
            known = ~v.error if known is None else known & ~v.error
        if known is None:
            true &= value
            unrefuted &= value
        else:
            true &= value & known
            unrefuted &= value | ~known
    return true


def matching(
    nodes: Sequence[Node], columns: Callable[[np.ndarray, np.ndarray], Column], rows: np.ndarray, places: np.ndarray,
    checked: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs for which every conjunct is TRUE. If ``checked``, only inverted rows (~row) need evaluation."""
    still = None
    if checked:
        still = np.flatnonzero(rows < 0)
        rows[still] = ~rows[still]
    if nodes:
        here, there = (rows, places) if still is None else (rows.take(still), places.take(still))
        true = holds(nodes, columns(here, there), len(here))
        if still is not None:
            every = np.ones(len(rows), dtype=bool)
            every[still] = true
            true = every
        rows, places = rows.compress(true), places.compress(true)
    return rows, places
