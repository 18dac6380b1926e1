"""Read JSON lines: objects whose fields are columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json
from pyarrow import types as is_

from ivjoin.errors import came
from ivjoin.files.atomic import FileError
from ivjoin.files.text.blocks import BLOCK
from ivjoin.files.text.inference import inexact, is_large, number_type, time_type
from ivjoin.files.text.reading import Text

__all__ = ["JsonText"]

_BOM = b"\xef\xbb\xbf"
# Arrow's parser and Python's call themselves for each bracket, and Arrow's ends the process at about 10,000.
_MOST_DEEP = 100
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1
_QUOTE = ord('"')
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_SPACE = " \t\r\n"


class _Number(str):
    """A number as it is written in the file."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number)


class JsonText(Text):
    """JSON lines, with one object per line. Fields that the first block lacks are ignored."""

    kind = "json"
    option = "ivjoin.json(path, schema={{{column!r}: {type!r}, ...}}), with all fields to read"

    def __init__(self, name: str, opened: Callable[[], Any], live: bool, schema: pa.Schema | None = None) -> None:
        self._declared, self._is_declared = schema, schema is not None
        super().__init__(name, opened, live)

    def _end(self, text: bytes) -> int:
        return text.rfind(b"\n") + 1

    def _inferred(self, text: bytes, first: bool, names: Sequence[str] | None) -> pa.Schema:
        if self._declared is not None:
            return self._declared
        text.decode()  # raises for text that is not UTF-8; Arrow's parser does not check
        _refuse_deep(text)
        found = self._read(text, None).schema
        chosen = [f for f in found if names is None or f.name in names]
        table = self._read(text, pa.schema([f.with_type(_wire(f.type)) for f in chosen]))
        objects = list(_objects(text)) if any(_has(f.type, is_.is_float64) for f in chosen) else []
        fields = []
        for i, f in enumerate(chosen):
            values = [o[f.name] for o in objects if f.name in o]
            fields.append(f.with_type(self._refined(f.name, f.type, table.column(i).combine_chunks(), values)))
        return pa.schema(fields)

    def _refined(self, path: str, t: pa.DataType, column: Any, values: list[Any]) -> pa.DataType:
        """Return the type of a column of an inferred type, by its values as Arrow and as Python have them."""
        if is_.is_struct(t):
            return pa.struct([
                f.with_type(self._refined(f"{path}.{f.name}", f.type, column.field(i), list(_inside(values, f.name))))
                for i, f in enumerate(t)
            ])  # fmt: skip
        if is_.is_list(t):
            return pa.list_(self._refined(path, t.value_type, column.values, list(_inside(values, None))))
        if is_.is_timestamp(t) or is_.is_string(t):
            return time_type(column) or pa.string()
        if is_.is_float64(t):
            numbers = [v for v in values if isinstance(v, _Number)]
            found = number_type(numbers)
            if found is None:
                self._troubles[path.partition(".")[0]] = self._lossy(path, next(filter(inexact, numbers), ""))
            return t if found is None else found
        return t

    def _parsed(self, text: bytes, first: bool, types: pa.Schema, threads: bool) -> pa.Table:
        text.decode()  # raises for text that is not UTF-8; Arrow's parser does not check
        _refuse_deep(text)
        if not text.strip():
            return types.empty_table()
        try:
            return self._converted(text, types, threads)
        except pa.ArrowInvalid:
            # Arrow does not always name the field.
            for f in types:
                try:
                    self._converted(text, pa.schema([f]), threads)
                except pa.ArrowInvalid as e:
                    raise FileError(
                        f"cannot read {self._name} as json: field {came(f.name)} is {f.type} by its first rows: "
                        f"{self._reason(e)}; {self._declare(f.name, 'string')}"
                    ) from e
            raise

    def _converted(self, text: bytes, types: pa.Schema, threads: bool) -> pa.Table:
        table = self._read(text, pa.schema([f.with_type(_wire(f.type)) for f in types]), threads)
        if not len(types):
            return table
        chunks = [[_cast(c, f.type) for c in table.column(f.name).chunks] for f in types]
        return pa.table([pa.chunked_array(c, f.type) for c, f in zip(chunks, types, strict=True)], schema=types)

    def _read(self, text: bytes, schema: pa.Schema | None, threads: bool = False) -> pa.Table:
        read = arrow_json.ReadOptions(block_size=8 * BLOCK, use_threads=threads)
        parse = None
        if schema is not None:
            parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        return arrow_json.read_json(pa.BufferReader(text), read, parse)

    def _check(self, table: pa.Table, text: bytes, first: bool) -> None:
        if self._declared is not None:
            return
        doubtful = [f for f in table.schema if any(map(is_large, _doubles(table.column(f.name).combine_chunks())))]
        for one in _objects(text) if doubtful else ():
            for f in doubtful:
                for number in _numbers(f.type, [one.get(f.name)]):
                    if inexact(number):
                        raise FileError(f"cannot read {self._name} as json: {self._lossy(f.name, number)}")

    def _lossy(self, column: str, number: str) -> str:
        return (
            f"field {came(column)} has the number {number[:60]}, which a double cannot represent exactly; "
            f"{self._declare(column, 'decimal128(38, 0)')}"
        )


def _refuse_deep(text: bytes) -> None:
    """Refuse a text with more nested brackets than a parser may meet, counted up to its first mistake."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # an escaped quote ends no string
    # Both quotes of a string without brackets are removed, which leaves few quotes.
    marks = np.frombuffer(text.translate(None, _NO_MARKS).replace(b'""', b""), np.uint8)
    outside = 1 - (np.cumsum(marks == _QUOTE, dtype=np.int8) & 1)
    deepest = int(np.cumsum(_STEPS[marks] * outside, dtype=np.int32).max(initial=0))
    if deepest > _MOST_DEEP:
        raise ValueError(f"a value has {deepest:,} brackets within each other; expected {_MOST_DEEP} at most")


def _wire(t: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow reads a column of a type: times as text, with their zone; nulls as text."""
    if is_.is_struct(t):
        return pa.struct([f.with_type(_wire(f.type)) for f in t])
    if is_.is_list(t):
        return pa.list_(_wire(t.value_type))
    # Arrow returns damaged lists of nulls for an explicit null type.
    return pa.string() if is_.is_null(t) or (is_.is_temporal(t) and not is_.is_duration(t)) else t


def _cast(column: Any, t: pa.DataType) -> Any:
    """Cast a column that Arrow read; Arrow's own cast damages a struct with a child of no type."""
    if column.type == t:
        return column
    if is_.is_struct(t) and is_.is_struct(column.type):
        children = [_cast(column.field(i), f.type) for i, f in enumerate(t)]
        return pa.StructArray.from_arrays(children, fields=list(t), mask=column.is_null()) if children else column
    if is_.is_list(t) and is_.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, _cast(column.values, t.value_type), t, mask=column.is_null())
    if is_.is_null(t):
        if column.null_count < len(column):
            raise pa.ArrowInvalid("a value where the first rows have only null")
        return pa.nulls(len(column))
    return column.cast(t)


def _has(t: pa.DataType, kind: Callable[[pa.DataType], bool]) -> bool:
    return kind(t) or any(_has(t.field(i).type, kind) for i in range(t.num_fields))


def _objects(text: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of a text, numbers as they are written."""
    whole, at = text.removeprefix(_BOM).decode(), 0
    while True:
        while at < len(whole) and whole[at] in _SPACE:
            at += 1
        if at == len(whole):
            return
        one, at = _DECODER.raw_decode(whole, at)
        yield one


def _inside(values: list[Any], name: str | None) -> Iterator[Any]:
    """Yield the field of a name of all objects, or the items of all arrays."""
    for v in values:
        if name is None and isinstance(v, list):
            yield from v
        elif name is not None and isinstance(v, dict) and name in v:
            yield v[name]


def _doubles(column: Any) -> Iterator[Any]:
    """Yield the columns of doubles in a column."""
    if is_.is_struct(column.type):
        for i in range(column.type.num_fields):
            yield from _doubles(column.field(i))
    elif is_.is_list(column.type):
        yield from _doubles(column.values)
    elif is_.is_float64(column.type):
        yield column


def _numbers(t: pa.DataType, values: list[Any]) -> Iterator[_Number]:
    """Yield the numbers that a column of a type has as doubles."""
    if is_.is_struct(t):
        for f in t:
            yield from _numbers(f.type, list(_inside(values, f.name)))
    elif is_.is_list(t):
        yield from _numbers(t.value_type, list(_inside(values, None)))
    elif is_.is_float64(t):
        yield from (v for v in values if isinstance(v, _Number))
