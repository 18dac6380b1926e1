"""Kinds of columns, small tables of them, and Arrow columns as plain Python values.

Two images of a value are used. The *comparison value* is what a condition sees: times are whole nanoseconds, dates
whole days. The *canonical value* is what an output row shows: hashable, exact to the bit but for NaN's payload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

Ids = Counter[tuple[int | None, int | None]]

NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
NOON = 1_706_702_400  # 2024-01-31T12:00:00Z in seconds: a month's end in a leap year
DAY = 86_400


@dataclass(frozen=True)
class Kind:
    """A kind of column: its Arrow type and a small domain of physical values, edges included."""

    name: str
    type: pa.DataType
    domain: tuple[Any, ...] = field(repr=False)
    family: str = "int"  # int uint f32 f64 dec date ts dur time str bin bool

    @property
    def is_float(self) -> bool:
        return self.family in ("f32", "f64")

    @property
    def is_time(self) -> bool:
        return self.family in ("date", "ts", "dur", "time")


def _f32(*values: float) -> tuple[float, ...]:
    return tuple(float(np.float32(v)) for v in values)


NAN, INF = float("nan"), float("inf")
_SMALL = tuple(range(-12, 13))
_UNSIGNED = tuple(range(25))
_DOUBLES = (
    -INF, -7.5, -1.0, -0.5, -0.0, 0.0, 0.1, 0.30000000000000004, 0.5, 1.0, 1.1, 1.5, 2.0, 3.0, 4.5, 8.0, INF, NAN,
)
_SINGLES = _f32(-INF, -7.5, -1.0, -0.5, -0.0, 0.0, 0.1, 0.3, 0.5, 1.0, 1.1, 1.5, 2.0, 3.0, 4.5, 8.0, INF, NAN)
_CENTS = tuple(Decimal(n) / 100 for n in (-1200, -375, -100, -1, 0, 1, 99, 100, 101, 150, 200, 250, 375, 500, 1200))
_WORDS = ("", "a", "ab", "abc", "abd", "b", "B", "ba", "z", "é", "日本", "a" * 20)


def _instants(unit: str) -> tuple[int, ...]:
    ticks = 1_000_000_000 // NANOS[unit]
    halves = [NOON * ticks + n * ticks // 2 for n in range(-16, 17)]
    edges = [NOON * ticks + n * ticks + e for n in (-4, 0, 3) for e in (-1, 1)] if unit != "s" else []
    return tuple(sorted({*halves, *edges}))


def _spans(unit: str) -> tuple[int, ...]:
    ticks = 1_000_000_000 // NANOS[unit]
    return tuple(n * ticks for n in range(-8, 9)) + ((1, ticks - 1) if unit != "s" else ())


KINDS: dict[str, Kind] = {
    k.name: k
    for k in (
        Kind("int8", pa.int8(), _SMALL), Kind("int16", pa.int16(), _SMALL), Kind("int32", pa.int32(), _SMALL),
        Kind("int64", pa.int64(), _SMALL), Kind("uint8", pa.uint8(), _UNSIGNED, "uint"),
        Kind("uint16", pa.uint16(), _UNSIGNED, "uint"), Kind("uint32", pa.uint32(), _UNSIGNED, "uint"),
        Kind("uint64", pa.uint64(), _UNSIGNED, "uint"), Kind("float32", pa.float32(), _SINGLES, "f32"),
        Kind("float64", pa.float64(), _DOUBLES, "f64"), Kind("dec10", pa.decimal128(10, 2), _CENTS, "dec"),
        Kind("dec20", pa.decimal128(20, 2), _CENTS, "dec"),
        Kind("date32", pa.date32(), tuple(NOON // DAY + n for n in range(-12, 13)), "date"),
        Kind("date64", pa.date64(), tuple((NOON // DAY + n) * DAY * 1000 for n in range(-12, 13)), "date"),
        *(Kind(f"ts_{u}", pa.timestamp(u), _instants(u), "ts") for u in NANOS),
        *(Kind(f"tsz_{u}", pa.timestamp(u, "UTC"), _instants(u), "ts") for u in ("s", "us", "ns")),
        Kind("tsz_tokyo", pa.timestamp("ms", "Asia/Tokyo"), _instants("ms"), "ts"),
        *(Kind(f"dur_{u}", pa.duration(u), _spans(u), "dur") for u in ("s", "ms", "us", "ns")),
        Kind("time32", pa.time32("s"), tuple(range(0, 40, 2)), "time"),
        Kind("time64", pa.time64("us"), tuple(range(0, 40, 2)), "time"),
        Kind("string", pa.string(), _WORDS, "str"),
        Kind("large_string", pa.large_string(), _WORDS, "str"),
        Kind("string_view", pa.string_view(), _WORDS, "str"),
        Kind("dictionary", pa.dictionary(pa.int8(), pa.string()), _WORDS, "str"),
        Kind("dict_int", pa.dictionary(pa.int32(), pa.int64()), _SMALL),
        Kind("binary", pa.binary(), tuple(w.encode() for w in _WORDS), "bin"),
        Kind("fixed", pa.binary(2), (b"aa", b"ab", b"\x00\xff", b"zz"), "bin"),
        Kind("bool", pa.bool_(), (False, True), "bool"),
    )
}


def column(kind: Kind | pa.DataType, values: Sequence[Any]) -> pa.Array:
    """An Arrow array from physical values (None is null)."""
    t = kind.type if isinstance(kind, Kind) else kind
    if pa.types.is_dictionary(t):
        return pa.array(list(values), t.value_type).dictionary_encode().cast(t)
    if pa.types.is_timestamp(t) or pa.types.is_duration(t) or pa.types.is_date64(t) or pa.types.is_time64(t):
        return pa.array(list(values), pa.int64()).view(t)
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return pa.array(list(values), pa.int32()).view(t)
    if pa.types.is_string_view(t) or pa.types.is_large_string(t):
        return pa.array(list(values), pa.string()).cast(t)
    return pa.array(list(values), t)


def physical(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values of a column; times as whole ticks, dictionaries decoded."""
    t = array.type
    if isinstance(array, pa.ChunkedArray):
        return [v for chunk in array.chunks for v in physical(chunk)]
    if pa.types.is_dictionary(t):
        return physical(array.dictionary_decode())
    if pa.types.is_timestamp(t) or pa.types.is_duration(t) or pa.types.is_date64(t) or pa.types.is_time64(t):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return array.view(pa.int32()).to_pylist()
    if isinstance(array, pa.ExtensionArray):
        return physical(array.storage)
    return array.to_pylist()


def compared(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Comparison values of a column: times in nanoseconds, dates in days."""
    t, values = array.type, physical(array)
    if pa.types.is_timestamp(t) or pa.types.is_duration(t) or pa.types.is_time(t):
        return [None if v is None else v * NANOS[t.unit] for v in values]
    if pa.types.is_date64(t):
        return [None if v is None else v // (DAY * 1000) for v in values]
    return values


def canonical(value: Any) -> Hashable:
    """A hashable stand-in that tells -0.0 from 0.0 and takes all NaN for one."""
    if isinstance(value, float):
        return "NaN" if value != value else ("float", value.hex())
    if isinstance(value, (list, tuple)):
        return tuple(canonical(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, canonical(v)) for k, v in value.items())
    if isinstance(value, np.ndarray):
        return tuple(canonical(v) for v in value.tolist())
    return (type(value).__name__, value) if isinstance(value, (bool, Decimal)) else value


def rows(table: pa.Table | pa.RecordBatch) -> list[tuple[Hashable, ...]]:
    """The rows of a table as canonical tuples."""
    if table.num_columns == 0:
        return [()] * table.num_rows
    return list(zip(*([canonical(v) for v in physical(c)] for c in table.columns)))


def records(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries of comparison values."""
    columns = {name: compared(table.column(name)) for name in table.schema.names}
    return [{name: values[i] for name, values in columns.items()} for i in range(table.num_rows)]


def ids(batches: Iterable[pa.RecordBatch], how: str) -> Ids:
    """The columns ``id`` and ``id_right`` of joined rows, None for the side that a semi or anti join leaves out."""
    rows = [row for b in batches for row in b.to_pylist()]
    if how.endswith(("semi", "anti")):
        left = how.startswith("left")
        return Counter((r["id"] if left else None, None if left else r["id"]) for r in rows)
    return Counter((r["id"], r["id_right"]) for r in rows)
