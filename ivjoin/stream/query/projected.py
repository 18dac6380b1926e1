"""Compute the output of a query: the joined rows that satisfy WHERE, with the columns of the select list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, check_supported, evaluate, first_error
from ivjoin.errors import EvaluationError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.outer.values import plain_array, rows_where

__all__ = ["Projection"]


class Projection:
    """Filter joined rows and compute output columns.

    - ``names`` has the joined column of each ``(alias, column)``.
    - A row is emitted if all of ``after`` are TRUE.
    - ``output`` has names and nodes.
    """

    def __init__(
        self, schema: pa.Schema, names: Mapping[tuple[str, str], str], after: Sequence[Node],
        output: Sequence[tuple[str, Node]],
    ) -> None:
        self._places = {key: schema.get_field_index(name) for key, name in names.items() if name in schema.names}
        self._after = build.and_(*after) if after else None
        self._nodes = [node for _, node in output]
        self._computed = [n for n in dict.fromkeys(self._nodes) if n.op != "column"]
        check_supported(*self._computed, *([] if self._after is None else [self._after]))
        fields = []
        for name, node in output:
            if node.op == "column":
                fields.append(schema.field(self._places[node.params]).with_name(name))
            else:
                empty = pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
                fields.append(pa.field(name, plain_array(self._values(node, empty), node).type))
        self.schema = pa.schema(fields)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the output for joined rows. An error in WHERE or in an output column raises an EvaluationError."""
        if self._after is not None:
            batch = rows_where(batch, self._values(self._after, batch))
        arrays = {n: plain_array(self._values(n, batch), n) for n in self._computed}
        columns = [
            batch.column(self._places[n.params]) if n.op == "column" else arrays[n] for n in self._nodes
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def all_of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output of batches of joined rows."""
        for batch in batches:
            made = self.of(batch)
            if made.num_rows:
                yield made

    def _values(self, node: Node, batch: pa.RecordBatch) -> Vector:
        def column(alias: str, name: str) -> pa.Array:
            return batch.column(self._places[alias, name])

        (v,) = evaluate([node], column, batch.num_rows)
        if v.error is not None and v.error.any():
            raise EvaluationError(first_error(node, column, int(np.flatnonzero(v.error)[0])))
        return v
