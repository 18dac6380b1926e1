"""Concatenate Parquet files without decoding a value: their row groups in order, under one footer.

The bytes of a row group do not depend on their place; only the footer has it. So the bodies of the files are copied,
and their footers are read, merged with all offsets moved, and written as one. Footers are Thrift structs in the compact
protocol (Apache Thrift, doc/specs/thrift-compact-protocol.md; Apache Parquet, src/main/thrift/parquet.thrift). Unknown
fields are copied unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from ivjoin.errors import IvjoinError

__all__ = ["concatenate_parquet"]

_MAGIC = b"PAR1"
_TAIL = 8  # the footer's length, and the magic
_COPY = 4 << 20
# Types of values in the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

# A struct is a dict of field number -> (type, value); a list is (type of its items, items).
Struct = dict[int, tuple[int, Any]]

# parquet.thrift: the fields with a place in the file.
_FILE_SCHEMA, _FILE_ROWS, _FILE_GROUPS = 2, 3, 4
_GROUP_COLUMNS, _GROUP_OFFSET, _GROUP_ORDINAL = 1, 5, 7
_CHUNK_OFFSETS, _CHUNK_META = (2, 4, 6), 3  # file_offset, offset_index_offset, column_index_offset
_META_OFFSETS = (9, 10, 11, 14)  # data page, index page, dictionary page, bloom filter


def concatenate_parquet(paths: Sequence[str], target: str) -> None:
    """Write one Parquet file with the rows of several, in their order.

    Parameters
    ----------
    paths : sequence of str
        Files of one schema, at least one. They stay unchanged.
    target : str
        A new file.

    Raises
    ------
    IvjoinError
        If a file is not Parquet, or its schema differs from the first one's.
    """
    whole: Struct | None = None
    groups: list[Struct] = []
    rows = 0
    with open(target, "xb") as out:
        out.write(_MAGIC)
        for path in paths:
            with open(path, "rb") as source:
                footer, end = _footer(source, path)
                if whole is None:
                    whole = footer
                elif footer[_FILE_SCHEMA] != whole[_FILE_SCHEMA]:
                    raise IvjoinError(f"{path!r} has another schema than {paths[0]!r}; expected files of one schema")
                moved = out.tell() - len(_MAGIC)
                _copy(source, out, len(_MAGIC), end)
            rows += footer[_FILE_ROWS][1]
            for group in footer[_FILE_GROUPS][1][1]:
                _move(group, moved, len(groups))
                groups.append(group)
        if whole is None:
            raise IvjoinError("there are no files to concatenate; expected at least one")
        whole[_FILE_ROWS] = (_I64, rows)
        whole[_FILE_GROUPS] = (_LIST, (_STRUCT, groups))
        text = bytearray()
        _write_struct(whole, text)
        out.write(text + len(text).to_bytes(4, "little") + _MAGIC)


def _footer(source: BinaryIO, path: str) -> tuple[Struct, int]:
    """Return a file's footer, and its offset."""
    size = source.seek(0, os.SEEK_END)
    source.seek(max(0, size - _TAIL))
    tail = source.read(_TAIL)
    begin = size - _TAIL - int.from_bytes(tail[:4], "little")
    if size < len(_MAGIC) + _TAIL or tail[4:] != _MAGIC or begin < len(_MAGIC):
        raise IvjoinError(f"{path!r} is no Parquet file, or not all of one")
    source.seek(begin)
    return _Reader(source.read(size - _TAIL - begin)).struct(), begin


def _copy(source: BinaryIO, out: BinaryIO, begin: int, end: int) -> None:
    source.seek(begin)
    left = end - begin
    while left > 0:
        piece = source.read(min(left, _COPY))
        if not piece:
            raise IvjoinError("a Parquet file grew shorter while it was read")
        out.write(piece)
        left -= len(piece)


def _move(group: Struct, by: int, ordinal: int) -> None:
    """Move every offset in a row group. ``ordinal`` is its number in the file."""
    _shift(group, (_GROUP_OFFSET,), by)
    if _GROUP_ORDINAL in group:
        del group[_GROUP_ORDINAL]
    if ordinal < 1 << 15:
        group[_GROUP_ORDINAL] = (_I16, ordinal)
    for chunk in group[_GROUP_COLUMNS][1][1]:
        _shift(chunk, _CHUNK_OFFSETS, by)
        if _CHUNK_META in chunk:
            _shift(chunk[_CHUNK_META][1], _META_OFFSETS, by)


def _shift(struct: Struct, fields: tuple[int, ...], by: int) -> None:
    for field in fields:
        # 0 stands for "unknown". No data can be at 0, because the magic is there.
        if field in struct and struct[field][1]:
            struct[field] = (struct[field][0], struct[field][1] + by)


class _Reader:
    """Reads structs of the compact protocol from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def struct(self) -> Struct:
        out: Struct = {}
        field = 0
        while (head := self._byte()) != 0:
            kind = head & 0x0F
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            out[field] = (kind, self._value(kind))
        return out

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 != 0x0F else self._varint()
            inner = head & 0x0F
            # In a list, a truth value is a byte.
            return inner, [self._byte() if inner in (_TRUE, _FALSE) else self._value(inner) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct()
        raise IvjoinError(f"a Parquet footer has a Thrift value of type {kind}, which Parquet's format does not use")


def _write_varint(value: int, out: bytearray) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_zigzag(value: int, out: bytearray) -> None:
    _write_varint(value << 1 if value >= 0 else (-value << 1) - 1, out)


def _write_struct(struct: Struct, out: bytearray) -> None:
    before = 0
    for field in sorted(struct):
        kind, value = struct[field]
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        if 0 < field - before < 16:
            out.append((field - before) << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(field, out)
        before = field
        _write_value(kind, value, out)
    out.append(0)


def _write_value(kind: int, value: Any, out: bytearray) -> None:
    if kind in (_TRUE, _FALSE):
        return
    if kind == _BYTE:
        out.append(value)
    elif kind in (_I16, _I32, _I64):
        _write_zigzag(value, out)
    elif kind == _DOUBLE:
        out += value
    elif kind == _BINARY:
        _write_varint(len(value), out)
        out += value
    elif kind in (_LIST, _SET):
        inner, items = value
        if len(items) < 15:
            out.append(len(items) << 4 | inner)
        else:
            out.append(0xF0 | inner)
            _write_varint(len(items), out)
        for item in items:
            if inner in (_TRUE, _FALSE):
                out.append(item)
            else:
                _write_value(inner, item, out)
    else:
        _write_struct(value, out)
