"""Assemble output batches from matched pairs, null-extended rows and rows of one side; ``jointype`` selects them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.errors import EvaluationError, came
from ivjoin.expr import build
from ivjoin.expr.types import Type, from_arrow
from ivjoin.outer.values import plain_array
from ivjoin.shj.arrow import bitmap, fixed_array, fixed_view, take, taken
from ivjoin.shj.plain import from_plain, nulls, plain_type, to_plain
from ivjoin.shj.store.rows.side import SideStore

__all__ = ["BatchRows", "BatchBuilder", "OutputField", "Rows", "StoredRows", "pieces_of"]


class Rows(Protocol):
    """Rows of one input, in a batch or in a store."""

    def __len__(self) -> int: ...
    def column(self, index: int) -> pa.Array: ...


class BatchRows:
    """Rows of a batch, all of them or those at ``index`` : int32[n] or int64[n]; -1 is a row of nulls."""

    __slots__ = ("_batch", "_index", "_there", "_widths")

    def __init__(self, batch: pa.RecordBatch, index: np.ndarray | None, widths: Sequence[int | None]) -> None:
        self._batch = batch
        self._index = index
        self._there = None if index is None or index.min(initial=0) >= 0 else index >= 0
        self._widths = widths

    def __len__(self) -> int:
        return self._batch.num_rows if self._index is None else len(self._index)

    def column(self, index: int) -> pa.Array:
        column, width = self._batch.column(index), self._widths[index]
        if self._index is None:
            return column
        if self._there is None:
            return take(column, self._index, width)
        if width is not None and not column.null_count and len(column):
            values = fixed_view(column, width).take(self._index, axis=0, mode="clip")
            return fixed_array(values, self._there, column.type)
        buffers = [bitmap(self._there), pa.py_buffer(self._index)]
        return taken(column, pa.Array.from_buffers(pa.from_numpy_dtype(self._index.dtype), len(self), buffers))


class StoredRows:
    """Rows of a side store, by id."""

    __slots__ = ("_columns", "_ids", "_place_of", "_places")

    def __init__(self, store: SideStore, place_of: Sequence[int], ids: np.ndarray) -> None:
        self._columns, self._place_of, self._ids = store.columns, place_of, ids
        self._places = store.places(ids)

    def __len__(self) -> int:
        return len(self._ids)

    def column(self, index: int) -> pa.Array:
        return self._columns[self._place_of[index]].gather(self._ids, self._places)


@dataclass(frozen=True, slots=True)
class OutputField:
    """The source of an output column: a left column, a right column, or for a join key either of them."""

    left: int | None
    right: int | None


class BatchBuilder:
    """Builds output batches of at most ``batch_size`` rows; local times become instants in ``zone``."""

    def __init__(self, schema: pa.Schema, fields: Sequence[OutputField], batch_size: int, zone: str) -> None:
        self.schema = schema
        self.batch_size = batch_size
        self._fields = list(fields)
        self._types = schema.types
        self._zone = zone

    def batch(self, left: Rows | None, right: Rows | None) -> pa.RecordBatch:
        """Return one batch from rows of the two sides; None stands for a side of nulls."""
        n = len(left) if left is not None else len(right)  # type: ignore[arg-type]
        arrays = []
        for i, (field, t) in enumerate(zip(self._fields, self._types, strict=True)):
            if left is not None and field.left is not None:
                array = left.column(field.left)
            elif right is not None and field.right is not None:
                array = right.column(field.right)
            else:
                array = nulls(n, t)
            arrays.append(array if array.type == t else self._in_common(array, i))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _in_common(self, array: pa.Array, i: int) -> pa.Array:
        """Return a key column of one side in the common type of both sides."""
        t = self._types[i]
        try:
            if pa.types.is_dictionary(t):
                if not pa.types.is_dictionary(array.type):
                    array = array.dictionary_encode()
                return from_plain(to_plain(array, plain_type(t)), t)
            have, want = from_arrow(array.type), from_arrow(t)
            plain = have.kind == want.kind and bool(have.tz) == bool(want.tz)
            if plain or have.kind == "null" or (have.is_numeric and want.is_numeric):
                return from_plain(array, t)
            return self._as_compared(array, have, t)
        except pa.ArrowInvalid as e:
            raise EvaluationError(
                f"the key column {self.schema.names[i]!r} of the output is {self._types[i]}, which cannot represent a "
                f"value of {array.type}: {e}. Rename the column on one side and name both columns in on="
            ) from e

    def _as_compared(self, array: pa.Array, have: Type, t: pa.DataType) -> pa.Array:
        """Return texts, dates or local times cast as the condition casts them."""
        node = build.cast(build.column("left", "k", have), from_arrow(t), self._zone)
        found = evaluate([node], lambda _, __: array, len(array))[0]
        if found.error is not None and found.error.any():
            row = array.slice(int(found.error.argmax()), 1)
            if have.kind in ("date", "timestamp"):  # Python may have no such day
                row = row.view(pa.int32() if row.type.bit_width == 32 else pa.int64())
            raise pa.ArrowInvalid(f"{came(row[0].as_py())} cannot be cast")
        return from_plain(plain_array(found, node), t)

    def slices(self, n: int) -> Iterator[slice]:
        """Cut n rows into pieces of at most ``batch_size`` rows."""
        for start in range(0, n, self.batch_size):
            yield slice(start, min(start + self.batch_size, n))


def pieces_of(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in batches of at most ``most`` rows."""
    for start in range(0, batch.num_rows, most):
        yield batch.slice(start, most) if batch.num_rows > most else batch
