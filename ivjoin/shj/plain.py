"""Convert types to plain types and back, if Arrow has no ``take`` or ``concat`` for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.shj.arrow import counted, taken, whole_numbers
from ivjoin.shj.dictionaries import combined, has_dictionaries, narrowed, renumbered, sound
from ivjoin.shj.nested import is_taken_apart, made_of, parts_of, with_children

__all__ = [
    "from_plain", "from_plain_rows", "in_few_batches", "no_rows", "nulls", "plain_rows", "plain_type", "rows_at",
    "to_plain", "to_values", "value_type",
]


def plain_type(t: pa.DataType) -> pa.DataType:
    """Return the type that replaces a type without Arrow's ``take`` (views, run ends), also within nested types.

    Lists replace list views, because ``take`` of a list view retains all values. Dictionaries get indices of at least
    32 bits.
    """
    pt = pa.types
    if pt.is_dictionary(t):
        index = t.index_type if t.index_type.bit_width >= 32 else pa.int32()
        return pa.dictionary(index, plain_type(t.value_type), t.ordered)
    if pt.is_string_view(t):
        return pa.large_string()
    if pt.is_binary_view(t):
        return pa.large_binary()
    if pt.is_run_end_encoded(t):
        return plain_type(t.value_type)
    if isinstance(t, pa.BaseExtensionType):
        storage = plain_type(t.storage_type)
        return t if storage == t.storage_type else storage
    if not is_taken_apart(t):
        return t
    if pt.is_list_view(t) or pt.is_large_list_view(t):
        field = t.value_field.with_type(plain_type(t.value_type))
        return pa.list_(field) if pt.is_list_view(t) else pa.large_list(field)
    return with_children(t, [plain_type(t.field(i).type) for i in range(t.num_fields)])


def to_plain(array: pa.Array, t: pa.DataType) -> pa.Array:
    """Convert an array to its :func:`plain_type` ``t``."""
    if array.type == t:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return to_plain(array.storage, t)
    if pa.types.is_run_end_encoded(array.type):
        values = to_plain(array.values, plain_type(array.type.value_type))
        # Arrow's own decoding supports fewer types than its take
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(counted(array.run_ends), rows, side="right")
        return taken(values, whole_numbers(runs))
    if pa.types.is_dictionary(t):
        array = sound(array)
        words = to_plain(array.dictionary, t.value_type)
        return renumbered(array, t.index_type, words)
    if is_taken_apart(array.type):
        if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
            array = _with_plain_values(array)
        parts = parts_of(array)
        return made_of(parts.of([to_plain(a, t.field(i).type) for i, a in enumerate(parts.children)]), t)
    return array.cast(t)


def _with_plain_values(array: pa.Array) -> pa.Array:
    """Return the same list views over values of a plain type. The values may be in any order."""
    values = to_plain(array.values, plain_type(array.type.value_type))
    own = with_children(array.type, [values.type])
    return pa.Array.from_buffers(own, len(array), array.buffers()[:3], array.null_count, array.offset, [values])


def from_plain(array: pa.Array, t: pa.DataType) -> pa.Array:
    """Convert a plain array back to ``t``. If its dictionary cannot address all values, raise CapacityError."""
    if array.type == t:
        return array
    if pa.types.is_run_end_encoded(t):
        runs = _in_runs(array, t.run_end_type)
        if runs.type == t:
            return runs
        return pa.RunEndEncodedArray.from_arrays(runs.run_ends, from_plain(runs.values, t.value_type), type=t)
    if isinstance(t, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(t, from_plain(array, t.storage_type))
    if pa.types.is_dictionary(t) and plain_type(t) == array.type:
        some = narrowed(array, t)
        words = from_plain(some.dictionary, t.value_type)
        return some if words is some.dictionary else renumbered(some, t.index_type, words)
    if is_taken_apart(t) and plain_type(t) == array.type:
        parts = parts_of(array)
        return made_of(parts.of([from_plain(a, t.field(i).type) for i, a in enumerate(parts.children)]), t)
    if pa.types.is_dictionary(array.type) and not pa.types.is_dictionary(t):
        values = array.dictionary
        array = taken(to_plain(values, plain_type(values.type)), array.indices)
    return array.cast(t)


def _in_runs(array: pa.Array, ends: pa.DataType) -> pa.RunEndEncodedArray:
    """Run-end encode an array.

    If Arrow cannot compare values, use one run per row. Too many rows raise a CapacityError.
    """
    import pyarrow.compute as pc

    most = (1 << (ends.bit_width - 1)) - 1
    if len(array) > most:
        raise CapacityError(
            f"a run-end encoded column has {len(array):,} rows; expected at most {most:,} for {ends} run ends. Use a "
            f"batch_size of {most}, or cast the column to its values"
        )
    made = pa.RunEndEncodedArray.from_arrays
    if isinstance(array, pa.ExtensionArray):
        runs = _in_runs(array.storage, ends)
        return made(runs.run_ends, pa.ExtensionArray.from_storage(array.type, runs.values))
    if pa.types.is_dictionary(array.type):
        runs = pc.run_end_encode(sound(array).indices, run_end_type=ends)
        words = pa.DictionaryArray.from_arrays(runs.values, array.dictionary, ordered=array.type.ordered)
        return made(runs.run_ends, words)
    try:
        return pc.run_end_encode(array, run_end_type=ends)
    except pa.ArrowNotImplementedError:
        return made(whole_numbers(np.arange(1, len(array) + 1)).cast(ends), array)


def rows_at(batch: pa.RecordBatch, index: np.ndarray) -> pa.RecordBatch:
    places = whole_numbers(index)
    plain = [plain_type(t) for t in batch.schema.types]
    columns = [
        taken(a, places) if a.type == t else from_plain(taken(to_plain(a, t), places), a.type)
        for a, t in zip(batch.columns, plain, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema) if columns else taken(batch, places)


def nulls(n: int, t: pa.DataType) -> pa.Array:
    """Return n NULLs. ``pyarrow.nulls`` builds unreadable arrays of run ends within a struct."""
    return from_plain(pa.nulls(n, plain_type(t)), t)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a schema without rows. Arrow cannot build one with dictionaries of times or of views."""
    return pa.RecordBatch.from_arrays([nulls(0, t) for t in schema.types], schema=schema)


def value_type(t: pa.DataType) -> pa.DataType:
    """Return the plain type of a column with values in place of dictionaries, also within nested types."""
    plain = plain_type(t)
    if pa.types.is_dictionary(plain):
        return value_type(plain.value_type)
    if not has_dictionaries(plain):
        return plain
    return with_children(plain, [value_type(plain.field(i).type) for i in range(plain.num_fields)])


def to_values(array: pa.Array, t: pa.DataType) -> pa.Array:
    """Convert an array to its :func:`value_type` ``t``."""
    if array.type == t:
        return array
    plain = to_plain(array, plain_type(array.type))
    if pa.types.is_dictionary(plain.type):
        return to_values(taken(plain.dictionary, plain.indices), t)
    if plain.type == t:
        return plain
    parts = parts_of(plain)
    return made_of(parts.of([to_values(a, t.field(i).type) for i, a in enumerate(parts.children)]), t)


def plain_rows(table: pa.Table) -> pa.Table:
    types = [plain_type(t) for t in table.schema.types]
    if types == table.schema.types:
        return table
    columns = [
        c if c.type == t else pa.chunked_array([to_plain(a, t) for a in c.chunks], t)
        for c, t in zip(table.columns, types, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def from_plain_rows(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in the types of ``schema``, in pieces if a dictionary cannot address all values."""
    if batch.schema.types == schema.types:
        yield batch
        return
    try:
        arrays = [from_plain(a, t) for a, t in zip(batch.columns, schema.types, strict=True)]
    except CapacityError:
        half = batch.num_rows // 2
        if half == 0:
            raise
        yield from from_plain_rows(batch.slice(0, half), schema)
        yield from from_plain_rows(batch.slice(half), schema)
    else:
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def in_few_batches(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Combine batches into one, or into as few as can address their text and dictionary values."""
    table = pa.Table.from_batches(batches)
    whole = combined(plain_rows(table)).to_batches()
    return [piece for batch in whole for piece in from_plain_rows(batch, table.schema)]
