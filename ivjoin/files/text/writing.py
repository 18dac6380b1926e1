"""Write JSON lines: one object for each line, made column by column."""

from __future__ import annotations

import json
import math
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as is_

from ivjoin.errors import came
from ivjoin.files.atomic import FileError

__all__ = ["JsonWriter"]

_MUST_ESCAPE = "[\"\\\\\x00-\x1f]"


class JsonWriter:
    """Writes record batches as JSON lines. FileError if a column is binary.

    Numbers retain all their digits. Dates and times are text (ISO 8601), with ``Z`` for a zone. Durations are whole
    numbers of their unit. NaN and infinity, which JSON lacks, are null.
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        for field in schema:
            if _has_binary(field.type):
                raise FileError(
                    f"JSON lines cannot store column {came(field.name)}, which is {field.type}; leave it out of "
                    "columns=, or write Parquet"
                )
        self._file, self._names = file, schema.names

    def write_batch(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        parts: list[Any] = []
        for i, (name, column) in enumerate(zip(self._names, batch.columns, strict=True)):
            name = f"{', ' if i else '{'}{json.dumps(name, ensure_ascii=False)}: "
            parts += [pa.scalar(name, pa.large_string()), _texts(column).cast(pa.large_string())]
        ends = [pa.scalar("}\n", pa.large_string()), pa.scalar("", pa.large_string())]  # and no separator
        lines = pc.binary_join_element_wise(*parts, *ends)
        self._file.write("".join(lines.to_pylist()).encode())

    def close(self) -> None:
        """Do nothing: the file belongs to the caller."""


def _has_binary(t: pa.DataType) -> bool:
    if isinstance(t, pa.BaseExtensionType):
        return False
    binary = is_.is_binary(t) or is_.is_large_binary(t) or is_.is_binary_view(t) or is_.is_fixed_size_binary(t)
    return binary or any(_has_binary(t.field(i).type) for i in range(t.num_fields))


def _texts(column: pa.Array) -> pa.Array:
    """Return a column of values as JSON, ``null`` for null."""
    t = column.type
    if is_.is_null(t):
        return pa.array(["null"] * len(column))
    if is_.is_string(t) or is_.is_large_string(t):
        return pc.fill_null(_quoted(column), "null")
    if is_.is_boolean(t) or is_.is_integer(t) or is_.is_decimal(t):
        return pc.fill_null(column.cast(pa.string()), "null")
    if is_.is_floating(t):
        return _floats(column)
    if is_.is_duration(t):
        return pc.fill_null(column.cast(pa.int64()).cast(pa.string()), "null")
    if is_.is_timestamp(t):
        # Arrow writes local times with a blank, and times of a zone in the zone: an instant is written in UTC
        plain = column.cast(pa.timestamp(t.unit)).cast(pa.string())
        marks = ('"', 'Z"') if t.tz is not None else ('"', '"')
        return pc.fill_null(_joined(marks[0], pc.replace_substring(plain, " ", "T"), marks[1]), "null")
    if is_.is_temporal(t):
        return pc.fill_null(_joined('"', column.cast(pa.string()), '"'), "null")
    return pa.array([json.dumps(_plain(v), default=str, ensure_ascii=False) for v in column.to_pylist()], pa.string())


def _joined(before: str, texts: pa.Array, after: str) -> pa.Array:
    first, last, between = (pa.scalar(x, texts.type) for x in (before, after, ""))
    return pc.binary_join_element_wise(first, texts, last, between)


def _quoted(column: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(column, _MUST_ESCAPE)).as_py():
        return _joined('"', column, '"')
    return pa.array([None if v is None else json.dumps(v, ensure_ascii=False) for v in column.to_pylist()], column.type)


def _floats(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.float64() if column.type.bit_width == 16 else column.type).cast(pa.string())
    # a whole number stays a float for its reader
    whole = pc.match_substring_regex(texts, r"^-?\d+$")
    texts = pc.if_else(whole, _joined("", texts, ".0"), texts)
    finite = pc.fill_null(pc.is_finite(column.cast(pa.float64())), False)
    return pc.if_else(finite, texts, pa.scalar("null", texts.type))


def _plain(value: Any) -> Any:
    """Return a nested value with nothing in it that JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
