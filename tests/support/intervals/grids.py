"""Intervals and values on a grid, and an operator's results over them."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from intervals.conditions import TWO
from intervals.values import array_of

from ivjoin.conditions import scalar
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr import Scope
from ivjoin.expr.nodes import LEFT, Node, make
from ivjoin.functions.rules.domain import NAN, NULL, top
from ivjoin.functions.rules.state import Structure
from ivjoin.interval import truth

BYTES = pa.schema([("a", pa.int8()), ("b", pa.int8())])

STRUCTURE = Structure([(2,), (2,), ()], [(), (), (0, 1)])


class Grid(NamedTuple):
    """An operator at all points of a grid.

    Attributes
    ----------
    node : Node
        Over two columns, ``first`` and ``second`` their values in ascending order.
    values : array[n, m]
        Results ``there``; elsewhere it is NULL, NaN or errs.
    there, null, nan : bool[n, m]
    """

    node: Node
    first: list[Any]
    second: list[Any]
    values: np.ndarray
    there: np.ndarray
    null: np.ndarray
    nan: np.ndarray


def over_columns(node: Node) -> Node:
    """The operator by itself, over columns of its arguments' types."""
    columns = [make("column", (), (LEFT, name), a.type) for name, a in zip("ab", node.args)]
    return make(node.op, tuple(columns), node.params, node.type)


def grid(node: Node, first: Sequence[Any], second: Sequence[Any]) -> Grid:
    n, m = len(first), len(second)
    a = array_of([x for x in first for _ in second], node.args[0].type)
    b = array_of(list(second) * n, node.args[1].type)
    (v,) = evaluate([node], lambda _, name: a if name == "a" else b, n * m)
    values = np.broadcast_to(np.asarray(v.values), (n * m,)).reshape(n, m)
    if values.dtype.kind in "iufb":
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    ok = np.ones(n * m, dtype=bool) if v.error is None else ~np.broadcast_to(np.asarray(v.error), (n * m,))
    valid = np.ones(n * m, dtype=bool) if v.valid is None else np.broadcast_to(np.asarray(v.valid), (n * m,))
    ok, valid = ok.reshape(n, m), valid.reshape(n, m)
    nan = values != values if node.type.kind == "float" else np.zeros((n, m), dtype=bool)
    return Grid(node, list(first), list(second), values, ok & valid & ~nan, ok & ~valid, ok & valid & nan)


def wanted(g: Grid, rng: random.Random) -> list[tuple[Any, np.ndarray]]:
    """Domains of the result, and where the operator is inside them."""
    if g.node.type.kind == "bool":
        v = g.values.astype(bool)
        return [(truth.TRUE, g.there & v), (truth.FALSE, g.there & ~v), (truth.KNOWN, g.there)]
    results = sorted(set(g.values[g.there].tolist()))
    if not results:
        return []
    least, most = top(g.node.type)[:2]
    x, y = sorted(rng.choices(results, k=2))
    ends = {(x, x), (x, y), (results[0],) * 2, (results[-1],) * 2, (least, x), (y, most)}
    out = [((lo, hi, 0), g.there & (g.values >= lo) & (g.values <= hi)) for lo, hi in sorted(ends)]
    return [*out, ((x, x, NULL | NAN), (g.there & (g.values == x)) | g.null | g.nan)]


@functools.cache
def operators_of_bytes() -> dict[str, Node]:
    """The operators by themselves, of those over two columns of int8 that are one operator and casts."""
    out = {}
    for text in TWO:
        node = scalar(text, Scope(BYTES, pa.schema([])))
        if len(node.args) == 2 and all(a.op == "column" or a.op == "cast" for a in node.args):
            out[text] = over_columns(node)
    return out
