"""Arrow batches as pandas frames whose columns stay Arrow, so that rows leave a pandas function exactly as they are.

PySpark turns each pandas column that a stateful function returns into an Arrow array. Through numpy or Python objects a
long with nulls, a timestamp of the year 3000 or a map would be changed or slow on that way. A column of
:class:`ArrowColumn` hands its Arrow values over untouched (``__arrow_array__``).
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype

__all__ = ["ArrowColumn", "ArrowColumnDtype", "as_frame"]


class ArrowColumnDtype(ExtensionDtype):
    """One dtype for all Arrow types: nothing in pandas needs to know which."""

    name = "ivjoin.arrow"
    type = object
    kind = "O"
    na_value = None

    @classmethod
    def construct_array_type(cls) -> builtins.type[ArrowColumn]:
        return ArrowColumn

    @classmethod
    def construct_from_string(cls, string: str) -> ArrowColumnDtype:
        if string != cls.name:
            raise TypeError(f"cannot construct an ArrowColumnDtype from {string!r}")
        return cls()

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        # PySpark pads a frame with rows of None (dtype object); they are nulls of this column.
        return self


class ArrowColumn(ExtensionArray):
    """A pandas column over a ``pa.ChunkedArray``; it can be sliced, concatenated and handed to Arrow, no more."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._values = values

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> ArrowColumn:
        if isinstance(scalars, ArrowColumn):
            return scalars
        values = pa.array(list(scalars), from_pandas=True)
        return cls(pa.chunked_array([values]))

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[ArrowColumn]) -> ArrowColumn:
        types = {c._values.type for c in to_concat if not pa.types.is_null(c._values.type)}
        t = types.pop() if types else pa.null()
        chunks: list[pa.Array] = []
        for column in to_concat:
            chunks.extend(column._values.chunks if column._values.type == t else column._values.cast(t).chunks)
        return cls(pa.chunked_array(chunks, t))

    @property
    def dtype(self) -> ArrowColumnDtype:
        return ArrowColumnDtype()

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, np.integer)):
            return self._values[int(item)].as_py()
        if isinstance(item, slice):
            start, stop, step = item.indices(len(self))
            if step == 1:
                return ArrowColumn(self._values.slice(start, max(stop - start, 0)))
            return self.take(np.arange(start, stop, step))
        index = np.asarray(item)
        return self.take(np.flatnonzero(index) if index.dtype == bool else index)

    def isna(self) -> np.ndarray:
        return np.asarray(self._values.is_null())

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> ArrowColumn:
        index = np.asarray(indices, dtype=np.int64)
        missing = index < 0
        if allow_fill and missing.any():
            return ArrowColumn(self._values.take(pa.array(np.where(missing, 0, index), mask=missing)))
        return ArrowColumn(self._values.take(pa.array(np.where(missing, index + len(self), index))))

    def copy(self) -> ArrowColumn:
        return self

    def map(self, mapper: Any, na_action: Any = None) -> ArrowColumn:
        # PySpark maps a column of arrays, maps or structs to the Python objects from which Arrow would build these
        # values; they are Arrow values already.
        return self

    def __arrow_array__(self, type: Any = None) -> pa.Array:
        values = self._values if type is None or self._values.type == type else self._values.cast(type)
        if values.num_chunks == 0:
            return pa.nulls(0, values.type)
        return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)


def as_frame(batch: pa.RecordBatch | pa.Table) -> pd.DataFrame:
    """The batch as a frame of :class:`ArrowColumn`, by position."""
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    index = pd.RangeIndex(table.num_rows)
    series = [pd.Series(ArrowColumn(c), index=index, copy=False) for c in table.columns]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=index)
    frame.columns = table.column_names
    return frame
