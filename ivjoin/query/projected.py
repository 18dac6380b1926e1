"""The output of a query: joined rows that satisfy WHERE, as the columns of the select list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, check_supported, evaluate, first_error
from ivjoin.errors import EvaluationError, ProtocolError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.metrics import JoinMetrics
from ivjoin.outer.values import has_value, plain_array
from ivjoin.shj.plain import rows_at
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.running import Run

if TYPE_CHECKING:
    from ivjoin.conditions.written import Value

__all__ = ["ProjectedStream", "Projection"]


class Projection:
    """Filters joined rows and computes output columns.

    Parameters
    ----------
    schema : pa.Schema
        Of the joined rows.
    names : mapping of (str, str) to str
        The joined column of each ``(alias, column)``.
    after : sequence of Node
        Rows are emitted for which all of these are TRUE.
    output : sequence of (str, Node)
        The output columns.
    """

    def __init__(
        self, schema: pa.Schema, names: Mapping[tuple[str, str], str], after: Sequence[Node],
        output: Sequence[tuple[str, Node]],
    ) -> None:
        self._places = {key: schema.get_field_index(name) for key, name in names.items() if name in schema.names}
        self._after = build.and_(*after) if len(after) > 1 else after[0] if after else None
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
        """Return the output of joined rows.

        Raises
        ------
        EvaluationError
            If WHERE or an output column has an error for a row.
        """
        if self._after is not None:
            v = self._values(self._after, batch)
            there = has_value(v)
            true = np.asarray(v.values, dtype=bool)
            true = true if there is None else true & there
            if not true.all():
                batch = rows_at(batch, np.flatnonzero(true))
        arrays = {n: plain_array(self._values(n, batch), n) for n in self._computed}
        columns = [
            batch.column(self._places[n.params]) if n.op == "column" else arrays[n] for n in self._nodes
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _values(self, node: Node, batch: pa.RecordBatch) -> Vector:
        def column(alias: str, name: str) -> pa.Array:
            return batch.column(self._places[alias, name])

        (v,) = evaluate([node], column, batch.num_rows)
        if v.error is not None and v.error.any():
            raise EvaluationError(first_error(node, column, int(np.flatnonzero(v.error)[0])))
        return v


class _Projected(Run):
    def __init__(self, inner: JoinStream, projection: Projection) -> None:
        self._inner, self._projection = inner, projection

    def output(self) -> Iterator[pa.RecordBatch]:
        for batch in self._inner:
            made = self._projection.of(batch)
            if made.num_rows:
                yield made

    def release(self) -> None:
        self._inner.close()


class ProjectedStream(JoinStream):
    """The output of :func:`ivjoin.sql`; see :class:`JoinStream`. ``metrics`` counts the last join."""

    def __init__(self, inner: JoinStream, projection: Projection) -> None:
        self._inner, self._projection = inner, projection
        self._read_from = inner._read_from
        self._open(_Projected(inner, projection))

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._projection.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts of the join so far, before WHERE is decided."""
        return self._inner.metrics

    @property
    def sorting(self) -> str:
        """What was done to inputs without an order, in a line."""
        return self._inner.sorting

    @property
    def row_groups_skipped(self) -> tuple[int, int] | None:
        """As :attr:`JoinStream.row_groups_skipped`."""
        return self._inner.row_groups_skipped

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        """Refuse: the bounds belong to joined columns.

        Raises
        ------
        ProtocolError
        """
        raise ProtocolError("output_bounds() is not defined for ivjoin.sql(); call band_join, whose output has bounds")
