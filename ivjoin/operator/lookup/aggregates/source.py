"""Read the right rows for aggregates: all rows of a run, or rows that were chosen pair by pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate, first_error
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.operator.lookup.rows import Rows
from ivjoin.outer.values import has_value, plain_array
from ivjoin.plan.layout import RowLayout
from ivjoin.shj.arrow import byte_width, counted, take

__all__ = ["RightValues", "keys_of"]


class RightValues:
    """Columns of right rows. Each expression is evaluated once and cached in ``kept``.

    - ``layout`` gives the place of each column among the stored columns.
    - ``order`` is the order of first and last, and whether it falls. None means the order of arrival.
    - ``in_order``: whether the rows of each key are stored in that order.
    """

    def __init__(
        self, rows: Rows, layout: RowLayout, kept: dict[Any, Any], order: tuple[Node, bool] | None, in_order: bool
    ) -> None:
        self._rows, self._layout, self._kept, self.order, self.in_order = rows, layout, kept, order, in_order

    def __len__(self) -> int:
        return len(self._rows)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def column(self, _: str, name: str) -> pa.Array:
        return self._rows.column(self._layout.places[self._layout.index[name]])

    def vector(self, node: Node) -> Vector:
        found: Vector = self.once(("vector", node), lambda: evaluate([node], self.column, len(self))[0])
        return found

    def array(self, node: Node) -> pa.Array:
        """Return the values of an expression as an Arrow array. A column is returned unchanged."""
        if node.op == "column":
            return self.column("right", node.params[1])
        return self.once(("array", node), lambda: plain_array(self.vector(node), node))

    def some(self, node: Node, at: np.ndarray) -> pa.Array:
        """Return the values of an expression for some rows. For few rows, a column reads only these."""
        if node.op != "column" or len(at) > len(self):
            return _taken(self.array(node), at)
        return self._rows.some(self._layout.places[self._layout.index[node.params[1]]], at)

    def why(self, node: Node, row: int) -> str:
        return first_error(node, self.column, row)

    @property
    def seq(self) -> np.ndarray:
        return self._rows.seq

    def places(self, at: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return arrays that rank rows by the order of first and last, most significant first. NULLs come last."""
        if self.order is None:
            return (self.seq[at],)
        node, falls = self.order
        v = self.vector(node)
        image, there = ordinals(v.values, node.type), has_value(v)
        null = np.zeros(len(self), dtype=bool) if there is None else ~there
        return null[at], np.where(null, 0, ~image if falls else image)[at], self.seq[at]

    def ranks(self, by: Sequence[Node], falls: bool) -> np.ndarray:
        """Return the rank of each row by expressions, then by arrival : int64[n]. NULLs come last."""
        def made() -> np.ndarray:
            keys = keys_of(evaluate(by, self.column, len(self)), by, falls)
            return _ranks(np.lexsort((self.seq, *keys[::-1])))

        return self.once(("ranks", *by), made)

    def images(self, node: Node) -> np.ndarray:
        """Return integers that rise with the values of an expression : int64[n]. NULLs have arbitrary ones."""
        return self.once(("images", node), lambda: _images(self.vector(node), node))


def keys_of(vectors: Sequence[Vector], nodes: Sequence[Node], falls: bool) -> list[np.ndarray]:
    """Return arrays that rank rows by expressions, most significant first. NULLs come last."""
    keys: list[np.ndarray] = []
    for node, v in zip(nodes, vectors, strict=True):
        there = has_value(v)
        image = _images(v, node)
        image = ~image if falls else image
        if there is not None:
            keys += [~there, np.where(there, image, 0)]
        else:
            keys.append(image)
    return keys


def _images(v: Vector, node: Node) -> np.ndarray:
    """Return integers that rise with the values : int64[n]."""
    if has_ordinal(node.type):
        return ordinals(v.values, node.type)
    if isinstance(v.values, np.ndarray):
        return np.unique(v.values, return_inverse=True)[1].astype(np.int64)
    import pyarrow.compute as pc

    array = v.values.combine_chunks() if isinstance(v.values, pa.ChunkedArray) else v.values
    words = array.dictionary_encode(null_encoding="encode")
    order = counted(pc.array_sort_indices(words.dictionary, null_placement="at_start"))
    return _ranks(order)[counted(words.indices)] if len(words) else np.zeros(0, dtype=np.int64)


def _ranks(order: np.ndarray) -> np.ndarray:
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _taken(array: pa.Array, at: np.ndarray) -> pa.Array:
    return take(array, at, byte_width(array.type))
