"""Convert expression types from and to Arrow types and type names.

Types that few operators accept (lists, structs, ...) are ``opaque``.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ivjoin.errors import UnsupportedError, came
from ivjoin.interval.machine.types import DAY, TICKS_PER_SECOND, Type

__all__ = [
    "DAY", "TICKS_PER_SECOND", "Type", "arrow_type", "finer_unit", "from_arrow", "named", "nested_arrow", "to_arrow",
]  # fmt: skip

_UNITS = ("s", "ms", "us", "ns")

BOOL = Type("bool")
INT8, INT16, INT32, INT64 = (Type("int", b) for b in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (Type("int", b, signed=False) for b in (8, 16, 32, 64))
FLOAT32, FLOAT64 = Type("float", 32), Type("float", 64)
STRING, BINARY, DATE, MONTHS, NULL = Type("string"), Type("binary"), Type("date"), Type("months"), Type("null")
UUID = Type("binary", text="uuid")  # sixteen bytes, which can be compared with the text of a UUID


def decimal(precision: int, scale: int) -> Type:
    return Type("decimal", precision=precision, scale=scale)


def timestamp(unit: str, tz: str | None = None) -> Type:
    return Type("timestamp", unit=unit, tz=tz)


def duration(unit: str) -> Type:
    return Type("duration", unit=unit)


def finer_unit(a: str, b: str) -> str:
    """Return the finer of two time units. Times of both units are compared in it."""
    return max(a, b, key=_UNITS.index)


def from_arrow(t: pa.DataType) -> Type:
    """Return the expression type of an Arrow type.

    - A dictionary or run-end encoded type becomes the type of its values.
    - float16 becomes float32, and date64 becomes date.
    - A view or large type becomes the plain type.
    - JSON becomes text. A UUID becomes sixteen bytes, which are shown as a UUID.
    - Nested types become opaque.
    """
    pt = pa.types
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return from_arrow(t.value_type)
    extension = getattr(t, "extension_name", None)
    if extension in ("arrow.uuid", "arrow.json"):
        return UUID if extension == "arrow.uuid" else STRING
    if pt.is_integer(t):
        return Type("int", t.bit_width, signed=pt.is_signed_integer(t))
    if pt.is_floating(t):
        return FLOAT64 if t.bit_width == 64 else FLOAT32
    if pt.is_boolean(t):
        return BOOL
    if pt.is_decimal32(t) or pt.is_decimal64(t) or pt.is_decimal128(t):
        return decimal(t.precision, t.scale)
    if pt.is_decimal256(t):
        return Type("decimal256", precision=t.precision, scale=t.scale)
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t):
        return STRING
    if pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t) or pt.is_fixed_size_binary(t):
        return BINARY
    if pt.is_date(t):
        return DATE
    if pt.is_timestamp(t):
        return timestamp(t.unit, t.tz)
    if pt.is_time(t):
        return Type("time", unit=t.unit)
    if pt.is_duration(t):
        return duration(t.unit)
    if pt.is_null(t):
        return NULL
    out = Type("opaque", text=str(t))
    _nested[out.text] = t
    return out


_nested: dict[str, pa.DataType] = {}  # by text: the Arrow types of opaque types


def nested_arrow(t: Type) -> pa.DataType | None:
    """Return the Arrow type of an opaque type, or None if this process has not converted it."""
    return _nested.get(t.text) if t.kind == "opaque" else None


def to_arrow(t: Type) -> pa.DataType:
    """Return the plain Arrow type for values of ``t``."""
    if t.kind == "int":
        return getattr(pa, f"{'' if t.signed else 'u'}int{t.bits}")()
    if t.kind == "float":
        return pa.float64() if t.bits == 64 else pa.float32()
    if t.kind == "decimal":
        return pa.decimal128(t.precision, t.scale)
    if t.kind == "decimal256":
        whole = t.precision - t.scale
        return pa.decimal256(min(t.precision, 76), min(t.scale, max(76 - whole, 0)))
    if t.kind == "timestamp":
        return pa.timestamp(t.unit, t.tz)
    if t.kind == "time":
        return pa.time32(t.unit) if t.unit in ("s", "ms") else pa.time64(t.unit)
    if t.kind == "duration":
        return pa.duration(t.unit)
    if t.kind == "months":
        return pa.int32()
    if t == UUID:
        return pa.uuid()
    simple: dict[str, pa.DataType] = {
        "bool": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(), "null": pa.null(),
    }
    if t.kind in simple:
        return simple[t.kind]
    raise UnsupportedError(f"a value of type {t} cannot be part of an expression; it can only be an output column")


def named(name: Any) -> Type:
    """Return the type with a name such as ``"int64"`` or ``"timestamp[us, UTC]"``, or the type of an Arrow type."""
    if isinstance(name, Type):
        return name
    return from_arrow(arrow_type(name))


def arrow_type(name: Any) -> pa.DataType:
    """Return the Arrow type with a Spark or Arrow type name, or raise UnsupportedError."""
    if isinstance(name, pa.DataType):
        return name
    if not isinstance(name, str):
        raise UnsupportedError(f"a type is {came(name)}; expected its name, such as 'int64', or an Arrow type")
    return _arrow_named(name.strip().lower(), name.strip())


def _arrow_named(lower: str, text: str) -> pa.DataType:
    spark = {
        "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(), "short": pa.int16(), "int": pa.int32(),
        "integer": pa.int32(), "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(), "real": pa.float32(),
        "double": pa.float64(), "boolean": pa.bool_(), "bool": pa.bool_(), "str": pa.string(), "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "decimal": pa.decimal128(10, 0),
        "float16": pa.float16(), "half": pa.float16(),
    }
    if lower in spark:
        return spark[lower]
    head, _, rest = text.partition("[" if "[" in text else "(")
    args = [a.strip() for a in rest.rstrip("])").split(",") if a.strip()]
    head = head.strip().lower()
    try:
        if head == "timestamp":
            tz = args[1].removeprefix("tz=") if len(args) > 1 else None
            return pa.timestamp(args[0].lower(), tz)
        if head == "duration":
            return pa.duration(args[0].lower())
        if head in ("time32", "time64"):
            return getattr(pa, head)(args[0].lower())
        if head in ("decimal", "decimal128"):
            return pa.decimal128(int(args[0]), int(args[1]) if len(args) > 1 else 0)
        return pa.type_for_alias(lower)
    except (ValueError, IndexError) as e:
        raise UnsupportedError(
            f"unknown type name {came(text)}; expected an Arrow or Spark name such as int64, double, date, "
            "timestamp[us, UTC], decimal(10, 2)"
        ) from e
