"""Merge the columns of several files into one schema, by name, each in the widest of its types."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyarrow import types as is_

from ivjoin.errors import came, named
from ivjoin.files.atomic import FileError

__all__ = ["has_null", "unified", "widest"]

_UNITS = ("s", "ms", "us", "ns")
_WHOLE_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def unified(what: str, schemas: Iterable[tuple[str, pa.Schema]], text: bool = False) -> pa.Schema:
    """Return the columns of all files, in the order in which they first appear; FileError if no common type exists.

    ``schemas`` has each file's name and schema. ``text``: types were inferred, so any column may be read as text again.
    A column is nullable if it is nullable in one file, or if one file lacks it.
    """
    given = list(schemas)
    if all(schema.equals(given[0][1]) for _, schema in given[1:]):
        return given[0][1]
    fields: dict[str, pa.Field] = {}
    origin: dict[str, str] = {}
    count: dict[str, int] = {}
    for name, schema in given:
        for field in schema:
            count[field.name] = count.get(field.name, 0) + 1
            before = fields.setdefault(field.name, field)
            t = widest(before.type, field.type)
            if t is None and text and (is_.is_string(before.type) or is_.is_string(field.type)):
                t = pa.string()
            if t is None:
                raise FileError(
                    f"cannot read {what} as one input: column {came(field.name)} is {before.type} in "
                    f"{named(origin[field.name])} and {field.type} in {named(name)}, and no type can represent "
                    "both; write one of the files again with the type of the other"
                )
            if t != before.type or field.name not in origin:
                origin[field.name] = name
            fields[field.name] = pa.field(field.name, t, before.nullable or field.nullable, before.metadata)
    whole = [f if count[f.name] == len(given) else f.with_nullable(True) for f in fields.values()]
    return pa.schema(whole, metadata=given[0][1].metadata)


def has_null(t: pa.DataType) -> bool:
    """Return whether the type, or a type within it, is null: its values are not known yet."""
    if is_.is_dictionary(t):
        return False
    return is_.is_null(t) or any(has_null(t.field(i).type) for i in range(t.num_fields))


def widest(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that has the values of both types; None if no type does.

    Whole numbers and floats give a double. Whole numbers beyond 2^53 are refused when such a file is read.
    """
    if a.equals(b):
        return a
    if is_.is_null(a) or is_.is_null(b):
        return b if is_.is_null(a) else a
    if is_.is_dictionary(a) or is_.is_dictionary(b) or is_.is_run_end_encoded(a) or is_.is_run_end_encoded(b):
        return widest(_plain(a), _plain(b))
    for rule in _RULES:
        found = rule(a, b)
        if found is not None:
            return found
    return None


def _plain(t: pa.DataType) -> pa.DataType:
    return t.value_type if is_.is_dictionary(t) or is_.is_run_end_encoded(t) else t


def _numbers(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    wholes = [is_.is_integer(t) for t in (a, b)]
    floats = [is_.is_floating(t) for t in (a, b)]
    decimals = [is_.is_decimal(t) for t in (a, b)]
    if all(wholes):
        return _whole(a, b)
    if all(floats):
        return a if a.bit_width >= b.bit_width else b
    if any(floats) and any(wholes):
        return pa.float64()
    if any(decimals) and all(d or w for d, w in zip(decimals, wholes, strict=True)):
        return _decimal(*(_digits(t) for t in (a, b)))
    return None


def _whole(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if is_.is_signed_integer(a) == is_.is_signed_integer(b):
        return a if a.bit_width >= b.bit_width else b
    signed, unsigned = (a, b) if is_.is_signed_integer(a) else (b, a)
    bits = max(signed.bit_width, 2 * unsigned.bit_width)
    by_bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
    return by_bits.get(bits) or pa.decimal128(_WHOLE_DIGITS[64], 0)


def _digits(t: pa.DataType) -> tuple[int, int]:
    """Return the digits before and after the point."""
    if is_.is_integer(t):
        return _WHOLE_DIGITS[t.bit_width], 0
    return t.precision - t.scale, t.scale


def _decimal(a: tuple[int, int], b: tuple[int, int]) -> pa.DataType | None:
    whole, scale = max(a[0], b[0]), max(a[1], b[1])
    if whole + scale <= 38:
        return pa.decimal128(whole + scale, scale)
    return pa.decimal256(whole + scale, scale) if whole + scale <= 76 else None


def _times(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if is_.is_date(a) and is_.is_date(b):
        return pa.date64()
    if is_.is_date(a) or is_.is_date(b):
        other = b if is_.is_date(a) else a
        return other if is_.is_timestamp(other) and other.tz is None else None
    same = next((f for f in (is_.is_timestamp, is_.is_time, is_.is_duration) if f(a) and f(b)), None)
    if same is None:
        return None
    unit = max(a.unit, b.unit, key=_UNITS.index)
    if is_.is_timestamp(a):
        # The instants are the same in every zone, but a local time is no instant.
        return pa.timestamp(unit, a.tz) if (a.tz is None) == (b.tz is None) else None
    if is_.is_duration(a):
        return pa.duration(unit)
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _texts(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    def is_text(t: pa.DataType) -> bool:
        return is_.is_string(t) or is_.is_large_string(t) or is_.is_string_view(t)

    def is_binary(t: pa.DataType) -> bool:
        return is_.is_binary(t) or is_.is_large_binary(t) or is_.is_binary_view(t) or is_.is_fixed_size_binary(t)

    if is_text(a) and is_text(b):
        return pa.large_string()
    if is_binary(a) and is_binary(b):
        small = all(is_.is_binary(t) or is_.is_fixed_size_binary(t) for t in (a, b))
        return pa.binary() if small else pa.large_binary()
    return None


def _nested(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if is_.is_struct(a) and is_.is_struct(b):
        fields = {f.name: f for f in a}
        for f in b:
            before = fields.get(f.name, f)
            t = widest(before.type, f.type)
            if t is None:
                return None
            fields[f.name] = pa.field(f.name, t, before.nullable or f.nullable)
        shared = {f.name for f in a} & {f.name for f in b}
        return pa.struct([f if f.name in shared else f.with_nullable(True) for f in fields.values()])
    for kind, make in _LISTS:
        if kind(a) and kind(b):
            t = widest(a.value_type, b.value_type)
            nullable = a.value_field.nullable or b.value_field.nullable
            return None if t is None else make(pa.field(a.value_field.name, t, nullable))
    return None


_LISTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Field], pa.DataType]], ...] = (
    (is_.is_list, pa.list_), (is_.is_large_list, pa.large_list),
)  # fmt: skip
_RULES = (_numbers, _times, _texts, _nested)
