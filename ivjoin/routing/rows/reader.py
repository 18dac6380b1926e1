"""Read a batch for routing: the hash of each key, the places and ranges of rows, and rows that cannot match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.errors import SchemaError, came
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.plan.cutting import shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.routing.rows.hashing import hash_of_keys
from ivjoin.routing.rows.reach import Axis, Reach
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import plain_type
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Features", "Reader", "as_batch"]


@dataclass(slots=True)
class Features:
    """The features of n rows of one side; arrays have n elements. Range and home need an axis."""

    n: int
    key: np.ndarray | None  # uint64: the hash of each key; None for a join without a key
    lone: np.ndarray | None  # bool: rows that cannot match; None if all rows can
    wild: np.ndarray | None = None  # bool: lone rows whose key or place raises an error; they go to all cells
    low: np.ndarray | None = None  # int64: the closed range of the axis to which a row is sent
    high: np.ndarray | None = None
    home: np.ndarray | None = None  # int64: the row's own place

    def range_of(self, at: np.ndarray | slice) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Return low, high and home of the given rows; equal arrays stay one object."""
        if self.low is None or self.high is None or self.home is None:
            return None, None, None
        low = self.low[at]
        return low, low if self.high is self.low else self.high[at], low if self.home is self.low else self.home[at]

    def part(self, start: int, stop: int) -> Features:
        stop = min(stop, self.n)
        return self._at(slice(start, stop), stop - start)

    def taken(self, rows: np.ndarray) -> Features:
        return self._at(rows, len(rows))

    def _at(self, at: np.ndarray | slice, n: int) -> Features:
        key, lone, wild = (None if a is None else a[at] for a in (self.key, self.lone, self.wild))
        return Features(n, key, lone, wild, *self.range_of(at))


class Reader:
    """Read batches of both sides of one join.

    ``key_hash`` is an int64 column of both sides that distinguishes keys (SchemaError if a side lacks it), or None.
    """

    def __init__(self, plan: JoinPlan, reach: Reach, key_hash: str | None = None) -> None:
        self.plan = plan
        self.reach = reach
        self.key_hash = key_hash
        self.schemas = plan.sides[0].schema, plan.sides[1].schema
        for s, schema in enumerate(self.schemas):
            if key_hash is not None and (key_hash not in schema.names or schema.field(key_hash).type != pa.int64()):
                raise SchemaError(
                    f"key_hash is {key_hash!r}; expected an int64 column of both sides, but the {SIDES[s]} side has "
                    f"{', '.join(f'{f.name} {f.type}' for f in schema)}"
                )
        self._index = tuple({name: i for i, name in enumerate(s.names)} for s in self.schemas)

    def check(self, s: int, batch: pa.RecordBatch) -> None:
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(f"batch is a {type(batch).__name__}; expected a pyarrow.RecordBatch")
        want, got = self.schemas[s], batch.schema
        if got is want or got.equals(want):
            return
        if got.names != want.names:
            raise SchemaError(f"a {SIDES[s]} batch has columns {got.names}; the plan was made for {want.names}")
        for a, b in zip(got, want, strict=True):
            if plain_type(a.type) != plain_type(b.type):  # a combined sample may have wider indices
                raise SchemaError(
                    f"column {a.name!r} of a {SIDES[s]} batch is {a.type}; the plan was made for {b.type}"
                )

    def values(self, s: int, batch: pa.RecordBatch, nodes: list[Node]) -> dict[Node, Vector]:
        index = self._index[s]
        distinct = list(dict.fromkeys(nodes))
        vectors = evaluate(distinct, lambda _, name: batch.column(index[name]), batch.num_rows) if distinct else []
        return dict(zip(distinct, vectors, strict=True))

    def features(self, s: int, batch: pa.RecordBatch, axis: Axis | None, both: bool) -> Features:
        """Return the features of a batch of side s.

        ``both``: rows of the divided side also go to the home of each row that they can match.
        """
        keys, filters = self.reach.keys[s], self.plan.sides[s].filters
        there = self.reach.lone[s]
        n = batch.num_rows
        values = self.values(s, batch, [*keys, *filters, *there, *(axis.nodes(s) if axis is not None else [])])
        out = Features(n, self._keys(s, batch, values) if keys else None, np.zeros(n, dtype=bool))
        for node, safe in zip(keys, self.reach.null_safe, strict=True):
            self._nulls(out, values[node], not safe)
        for node in there:
            self._nulls(out, values[node], True)
        if axis is not None:
            if s == axis.divided:
                self._places(out, axis, both, values)
            else:
                self._ranges(out, axis, both, values)
        for node in filters:
            v = values[node]
            passes = v.values if v.valid is None else v.values & v.valid
            self._excluded(out, ~passes if v.error is None else ~passes & ~v.error)
        if self.plan.never:
            self._excluded(out, np.ones(n, dtype=bool))
        if out.lone is not None and not out.lone.any():
            out.lone = None
        return out

    def _keys(self, s: int, batch: pa.RecordBatch, values: dict[Node, Vector]) -> np.ndarray:
        if self.key_hash is not None:
            given: np.ndarray = np.asarray(batch.column(self._index[s][self.key_hash]))
            return given.view(np.uint64)
        keys = self.reach.keys[s]
        return hash_of_keys(keys, [values[k] for k in keys], batch.num_rows)

    @staticmethod
    def _excluded(out: Features, rows: np.ndarray) -> None:
        """Mark rows that cannot match, and for which nothing is evaluated that could raise an error."""
        out.lone = rows if out.lone is None else out.lone | rows
        if out.wild is not None:
            out.wild = out.wild & ~rows

    @staticmethod
    def _nulls(out: Features, v: Vector, null: bool) -> None:
        """Mark rows whose value raises an error or is null: they cannot match."""
        assert out.lone is not None
        if null and v.valid is not None:
            out.lone |= ~v.valid
        if v.error is not None and v.error.any():
            out.lone |= v.error
            out.wild = v.error if out.wild is None else out.wild | v.error

    def _places(self, out: Features, axis: Axis, both: bool, values: dict[Node, Vector]) -> None:
        v = values[axis.node]
        self._nulls(out, v, True)
        at = ordinals(v.values, axis.node.type)
        out.low = out.high = out.home = at
        if both:
            out.low = np.minimum(at, shifted(at, axis.back[0]))
            out.high = np.maximum(at, shifted(at, axis.back[1]))

    def _ranges(self, out: Features, axis: Axis, both: bool, values: dict[Node, Vector]) -> None:
        low = self._end(axis.low, values, out, False)
        high = self._end(axis.high, values, out, True)
        assert out.lone is not None
        out.lone |= low > high
        if both and axis.home is not None:
            v = values[axis.home]
            self._nulls(out, v, True)
            out.home = shifted(ordinals(v.values, axis.home.type), axis.shift)
            low, high = np.minimum(low, out.home), np.maximum(high, out.home)
        else:
            out.home = low
        out.low, out.high = low, high

    def _end(
        self, terms: tuple[tuple[Node, int], ...], values: dict[Node, Vector], out: Features, up: bool
    ) -> np.ndarray:
        """Return the least high end (``up``), or the greatest low end, of all terms : int64[n].

        A term whose error does not exclude a match has no end.
        """
        end: np.ndarray | None = None
        for node, offset in terms:
            v = values[node]
            at = shifted(ordinals(v.values, node.type), offset)
            if v.error is not None and node not in self.reach.surely:
                at = np.where(v.error, I64_MAX if up else I64_MIN, at)
                # An error hides a null, so a null next to an error does not exclude a match.
                v = Vector(v.values, None if v.valid is None else v.valid | v.error, None)
            self._nulls(out, v, True)
            end = at if end is None else np.minimum(end, at) if up else np.maximum(end, at)
        return np.full(out.n, I64_MAX if up else I64_MIN) if end is None else end


def as_batch(data: Any, what: str) -> pa.RecordBatch:
    """Return one batch from a table, a batch, a list of batches or an Arrow stream, or raise SchemaError."""
    if isinstance(data, pa.RecordBatch):
        return data
    if isinstance(data, (list, tuple)) and data and all(isinstance(b, pa.RecordBatch) for b in data):
        data = pa.Table.from_batches(data)
    if not isinstance(data, pa.Table):
        if not hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
            raise SchemaError(f"the {what} is {came(data)}; expected a pyarrow Table, a RecordBatch or a list of these")
        data = pa.table(data)
    arrays = []
    for column in combined(data).columns:
        whole = column.combine_chunks()
        if isinstance(whole, pa.ChunkedArray):  # without chunks, or with more than one array can contain
            if whole.num_chunks > 1:
                raise SchemaError(f"the {what} has too much text in a column for one array; give a smaller sample")
            whole = whole.chunk(0) if whole.num_chunks else pa.nulls(0, column.type)
        arrays.append(whole)
    fields = [f.with_type(a.type) for f, a in zip(data.schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=data.schema.metadata))
