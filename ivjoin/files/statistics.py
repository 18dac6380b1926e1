"""The ranges of columns, from the statistics of Parquet files and the partitions of datasets."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ivjoin.expr.nodes import Node
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.propagation import Dom

__all__ = ["ColumnRanges", "FragmentRanges", "Ranges"]

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
# Writers that store the greatest string completely or not at all. Other writers truncate it, and some of them do not
# increment the truncated value, so that it is no upper bound.
_WHOLE_STRINGS = ("parquet-cpp",)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of the file in Parquet's schema: its place, its shape and its logical type."""

    index: int
    shape: pq.ColumnSchema
    logical: dict[str, Any]


class Ranges:
    """The known domains of the columns of an input in each of its row groups, which have numbers."""

    schema: pa.Schema
    row_groups: int

    def groups_with_rows(self) -> list[int]:
        raise NotImplementedError

    def of_group(self, group: int, columns: Sequence[Node]) -> dict[Node, Dom]:
        """Return the domains of this side's columns among ``columns`` in one row group."""
        raise NotImplementedError

    def of_groups(self, groups: Sequence[int], columns: Sequence[Node]) -> dict[Node, Dom]:
        """Return the hull of the domains over at least one row group, for each column with a domain in all of them."""
        hull, *rest = (self.of_group(g, columns) for g in groups)
        for other in rest:
            hull = {c: _hull(d, other[c]) for c, d in hull.items() if c in other}
        return hull

    def of_side(self, side: str) -> Ranges:
        """Return the same ranges for the other input."""
        raise NotImplementedError


class ColumnRanges(Ranges):
    """The domains of a file's columns, by row group.

    ``side`` is the input whose columns they are in expressions.
    """

    def __init__(self, schema: pa.Schema, metadata: pq.FileMetaData, side: str) -> None:
        self.schema = schema
        self.row_groups = int(metadata.num_row_groups)
        self._metadata = metadata
        self._side = side
        self._leaves = _leaves(schema, metadata)
        self._whole_strings = _writer(metadata).startswith(_WHOLE_STRINGS)
        self._found: dict[tuple[int, Node], Dom] = {}

    def of_side(self, side: str) -> ColumnRanges:
        return ColumnRanges(self.schema, self._metadata, side)

    def groups_with_rows(self) -> list[int]:
        return [g for g in range(self.row_groups) if self._metadata.row_group(g).num_rows]

    def of_group(self, group: int, columns: Sequence[Node]) -> dict[Node, Dom]:
        return {c: self._dom(group, c) for c in columns if c.params[0] == self._side and c.params[1] in self._leaves}

    def _dom(self, group: int, column: Node) -> Dom:
        dom = self._found.get((group, column))
        if dom is None:
            dom = self._found[group, column] = self._read(group, self._leaves[column.params[1]], column.type)
        return dom

    def _read(self, group: int, leaf: _Leaf, t: Type) -> Dom:
        row_group = self._metadata.row_group(group)
        required = leaf.shape.max_definition_level == 0
        try:
            found = row_group.column(leaf.index).statistics
        except (pa.ArrowException, OSError):  # an encrypted column without its key
            found = None
        if found is None:
            return Dom.of(t, null=not required)
        nulls = found.null_count if found.has_null_count else None
        if nulls is not None and not 0 <= nulls <= row_group.num_rows:
            return Dom.top(t)
        if nulls == row_group.num_rows:
            return Dom.top(t) if found.has_min_max else Dom.empty(t, null=True)
        null = not required and nulls != 0
        ends = _physical_ends(found, leaf, t, self._whole_strings) if found.has_min_max else None
        if ends is None:
            return Dom.of(t, null=null)
        # min and max ignore NaN, and the footer does not count NaN.
        return Dom.of(t, ends[0], ends[1], null=null, nan=True)


class FragmentRanges(Ranges):
    """The same for a dataset of Parquet files, whose row groups are numbered consecutively. Reads all footers.

    A column that has another type in a file than in the dataset has no domain there.
    """

    def __init__(self, fragments: Sequence[Any], schema: pa.Schema, side: str) -> None:
        self.schema = schema
        self._fragments = fragments
        self._side = side
        self._places = [(f, g) for f, part in enumerate(fragments) for g in range(part.metadata.num_row_groups)]
        self._files = [ColumnRanges(f.physical_schema, f.metadata, side) for f in fragments]
        self._constant = [_constants(f) for f in fragments]
        # The folder's value replaces a column that the file has too.
        self._alike = [
            {
                n for n in schema.names
                if n in r.schema.names and n not in known and r.schema.field(n).type == schema.field(n).type
            }
            for r, known in zip(self._files, self._constant, strict=True)
        ]  # fmt: skip
        self.rows = sum(f.metadata.num_rows for f in fragments)
        self.row_groups = len(self._places)

    def groups_with_rows(self) -> list[int]:
        live = [set(r.groups_with_rows()) for r in self._files]
        return [i for i, (f, g) in enumerate(self._places) if g in live[f]]

    def of_group(self, group: int, columns: Sequence[Node]) -> dict[Node, Dom]:
        f, g = self._places[group]
        mine = [c for c in columns if c.params[0] == self._side]
        found = self._files[f].of_group(g, [c for c in mine if c.params[1] in self._alike[f]])
        for c in mine:
            value = self._constant[f].get(c.params[1])
            if type(value) is int and c.type.kind == "int":
                found[c] = Dom.of(c.type, value, value, null=False)
        return found

    def of_side(self, side: str) -> FragmentRanges:
        return FragmentRanges(self._fragments, self.schema, side)

    def subset(self, groups: Sequence[int]) -> list[Any]:
        chosen: dict[int, list[int]] = {}
        for group in groups:
            f, g = self._places[group]
            chosen.setdefault(f, []).append(g)
        return [self._fragments[f].subset(row_group_ids=ids) for f, ids in chosen.items()]


def _constants(fragment: Any) -> dict[str, Any]:
    from pyarrow.dataset import get_partition_keys

    return dict(get_partition_keys(fragment.partition_expression))


def _leaves(schema: pa.Schema, metadata: pq.FileMetaData) -> dict[str, _Leaf]:
    """Return the Parquet column of each flat Arrow column.

    The columns are counted, because a path is ambiguous: a column named "a.b" and the field b of a column a share one.
    """
    leaves: dict[str, _Leaf] = {}
    at = 0
    for field in schema:
        width = _width(field.type)
        if width == 1 and at < metadata.num_columns:
            shape = metadata.schema.column(at)
            if shape.path == field.name and shape.max_repetition_level == 0 and shape.max_definition_level <= 1:
                leaves[field.name] = _Leaf(at, shape, json.loads(shape.logical_type.to_json()))
        at += width
    return leaves if at == metadata.num_columns else {}


def _writer(metadata: pq.FileMetaData) -> str:
    """Return the program that wrote the file; empty if it is not stated, or not in UTF-8."""
    try:
        return metadata.created_by or ""
    except UnicodeDecodeError:
        return ""


def _width(t: pa.DataType) -> int:
    """Return the number of Parquet columns of an Arrow column."""
    if isinstance(t, pa.BaseExtensionType):
        return _width(t.storage_type)
    if pa.types.is_struct(t):
        return sum(_width(t.field(i).type) for i in range(t.num_fields))
    if pa.types.is_map(t):
        return _width(t.key_type) + _width(t.item_type)
    return _width(t.value_type) if pa.types.is_nested(t) and hasattr(t, "value_type") else 1


def _hull(a: Dom, b: Dom) -> Dom:
    null, nan = a.may_null or b.may_null, a.may_nan or b.may_nan
    if a.is_empty or b.is_empty:
        whole = b if a.is_empty else a
        if whole.is_empty:
            return Dom.empty(a.type, null=null, nan=nan)
        return Dom.of(a.type, whole.lo, whole.hi, null=null, nan=nan)
    lo = None if a.lo is None or b.lo is None else min(a.lo, b.lo)
    hi = None if a.hi is None or b.hi is None else max(a.hi, b.hi)
    return Dom.of(a.type, lo, hi, null=null, nan=nan)


def _physical_ends(found: Any, leaf: _Leaf, t: Type, whole_strings: bool) -> tuple[Any, Any] | None:
    """Return the least and greatest physical value, None for an unknown end of text; None if they cannot be trusted."""
    try:
        low, high = found.min_raw, found.max_raw
        if t.kind in ("string", "binary"):
            exact = getattr(found, "is_max_value_exact", None)
            return _text_ends(low, high, t, whole_strings if exact is None else bool(exact))
        ends = _value(low, leaf, t), _value(high, leaf, t)
    except (pa.ArrowException, NotImplementedError, ValueError, TypeError, struct.error):
        return None
    lo, hi = ends
    if lo is None or hi is None or lo != lo or hi != hi:
        return None
    if t.kind == "float":
        # In old files, either zero may stand for both, and the least of -0.0 and 0.0 is either one.
        lo, hi = lo if lo else -0.0, hi if hi else 0.0
    elif t.kind in ("timestamp", "time"):
        scaled = _in_unit(lo, hi, leaf.logical["timeUnit"], t)
        if scaled is None:
            return None
        lo, hi = scaled
    if lo > hi:
        return None
    if t.is_discrete:
        least, most = t.limits
        if lo < least or hi > most:
            return None
    return lo, hi


def _value(raw: Any, leaf: _Leaf, t: Type) -> Any:
    """Return a raw statistic as a number; None if the types of Parquet and Arrow do not correspond."""
    kind, physical = leaf.logical["Type"], leaf.shape.physical_type
    if t.kind == "bool":
        return bool(raw) if physical == "BOOLEAN" else None
    if t.kind == "float":
        if kind == "Float16":
            return struct.unpack("<e", raw)[0]
        return float(raw) if physical in ("FLOAT", "DOUBLE") else None
    if t.kind == "decimal":
        if kind != "Decimal" or leaf.logical["scale"] != t.scale:
            return None
        if not isinstance(raw, bytes):
            return raw
        whole = physical == "BYTE_ARRAY" or len(raw) == leaf.shape.length
        return int.from_bytes(raw, "big", signed=True) if raw and whole else None
    if physical not in ("INT32", "INT64"):
        return None  # INT96 has no order
    if t.kind == "int":
        if kind == "Int" and not leaf.logical["isSigned"]:
            return raw % (1 << (32 if physical == "INT32" else 64))
        return raw if kind in ("Int", "None") else None
    if t.kind == "duration":
        return raw if kind == "None" and physical == "INT64" else None
    expected = {"date": "Date", "timestamp": "Timestamp", "time": "Time"}.get(t.kind)
    return raw if kind == expected else None


def _in_unit(lo: int, hi: int, stored: str, t: Type) -> tuple[int, int] | None:
    """Convert ticks of the file's unit to the column's unit: exact if that is finer, else rounded outward."""
    if stored not in _UNITS:
        return None
    here, there = TICKS_PER_SECOND[_UNITS[stored]], TICKS_PER_SECOND[t.unit]
    return lo * there // here, -(-hi * there // here)


def _text_ends(low: bytes, high: bytes, t: Type, exact: bool) -> tuple[Any, Any] | None:
    if low > high:
        return None
    if t.kind == "binary":
        return low, high if exact else _above_bytes(high)
    # Text may be cut within a character. Its complete characters are a lower bound, and their successor an upper one.
    least, top = low.decode(errors="ignore"), high.decode(errors="ignore")
    # Other bytes that are not UTF-8 give no bound.
    lo = least if low.startswith(least.encode()) else None
    if not high.startswith(top.encode()):
        return lo, None
    return lo, top if exact and top.encode() == high else _above_text(top)


def _above_bytes(stump: bytes) -> bytes | None:
    """Return a value that no value with the prefix ``stump`` exceeds; None if it does not exist."""
    kept = stump.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _above_text(stump: str) -> str | None:
    """As :func:`_above_bytes`, for text, because UTF-8 is ordered as code points are."""
    kept = stump.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if last == 0xD800 else last)
