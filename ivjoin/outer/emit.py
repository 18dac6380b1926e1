"""Assemble output batches from matched pairs, null-extended rows and rows of one side.

The join type (``jointype.py``) decides which rows are emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.expr import build
from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.types import from_arrow
from ivjoin.shj.arrow import take
from ivjoin.shj.plain import from_plain, nulls
from ivjoin.shj.store.side import SideStore

__all__ = ["BatchRows", "Emitter", "OutputField", "Rows", "StoredRows"]


class Rows(Protocol):
    """Rows of one input, in a batch or in a store."""

    def __len__(self) -> int: ...
    def column(self, index: int) -> pa.Array: ...


class BatchRows:
    """Rows of a batch, all of them or those at ``index`` : int64[n]."""

    __slots__ = ("_batch", "_index", "_widths")

    def __init__(self, batch: pa.RecordBatch, index: np.ndarray | None, widths: Sequence[int | None]) -> None:
        self._batch = batch
        self._index = index
        self._widths = widths

    def __len__(self) -> int:
        return self._batch.num_rows if self._index is None else len(self._index)

    def column(self, index: int) -> pa.Array:
        column = self._batch.column(index)
        return column if self._index is None else take(column, self._index, self._widths[index])


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
    """The source of an output column: a left column, a right one, or for a join key either of them."""

    left: int | None
    right: int | None


class Emitter:
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
            local = getattr(t, "tz", None) is not None and getattr(array.type, "tz", None) is None
            return self._as_instants(array, t) if local else from_plain(array, t)
        except pa.ArrowInvalid as e:
            raise EvaluationError(
                f"the key column {self.schema.names[i]!r} of the output is {self._types[i]}, which cannot represent a "
                f"value of {array.type}: {e}; rename the column on one side and name both columns in on="
            ) from e

    def _as_instants(self, array: pa.Array, t: pa.TimestampType) -> pa.Array:
        """Return dates or local times as the instants that the condition compares."""
        found = evaluate([build.cast(build.column("left", "k", from_arrow(array.type)), from_arrow(t), self._zone)],
                         lambda _, __: array, len(array))[0]  # fmt: skip
        if found.error is not None and found.error.any():
            ticks = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())  # Python may not have this day
            raise pa.ArrowInvalid(f"{ticks[int(found.error.argmax())]} is beyond the ends of its type")
        missing = None if found.valid is None else ~found.valid
        return pa.array(np.ascontiguousarray(found.values, np.int64), pa.int64(), mask=missing).cast(t)

    def slices(self, n: int) -> Iterator[slice]:
        """Cut n rows into pieces of at most ``batch_size`` rows."""
        for start in range(0, n, self.batch_size):
            yield slice(start, min(start + self.batch_size, n))
