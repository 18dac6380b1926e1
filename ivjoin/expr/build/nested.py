"""Constructors for nested values: fields, sizes, members, and comparisons by sort keys.

A sort key is a byte string that compares in the same order as the value. The order is Spark's:

- A comparison with a NULL value is NULL. Inside a value, NULL equals NULL and is less than all others.
- NaN equals NaN and is the greatest number, and -0.0 equals 0.0.
- Structs and arrays are compared element by element, and a prefix is less.
- Intervals are compared by months, then days, then nanoseconds. (Spark cannot compare them.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.common import common_type
from ivjoin.expr.kernels.columns import load
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import BINARY, BOOL, FLOAT64, INT32, UINT64, duration, from_arrow, nested_arrow

__all__ = ["array_contains", "as_length", "as_list", "common_nested", "field", "size", "sort_key_values", "sort_keys"]


def field(x: Node, name: str, case_sensitive: bool = True) -> Node:
    t = nested_arrow(x.type)
    if t is None or not pa.types.is_struct(t):
        error = ConditionError if t is None else UnsupportedError
        raise error(f"{x} is of type {x.type}, which has no field {name!r}")
    names = [f.name for f in t]
    if not case_sensitive and name not in names:
        name = next((n for n in names if n.lower() == name.lower()), name)
    if names.count(name) != 1:
        found = "more than one" if name in names else "none"
        raise ConditionError(f"{x} has {found} of its fields named {name!r}: {', '.join(names)}")
    return make("field", (x,), (name,), from_arrow(t.field(name).type))


def _is_list(t: pa.DataType | None) -> bool:
    pt = pa.types
    kinds = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)
    return t is not None and any(is_kind(t) for is_kind in kinds)


def size(x: Node) -> Node:
    """Return ``size(x)``, the number of elements of an array or map. As in ANSI mode, it is NULL for NULL."""
    t = nested_arrow(x.type)
    if not _is_list(t) and not (t is not None and pa.types.is_map(t)):
        raise ConditionError(f"size needs an array or a map, not {x.type}: {x}")
    return make("size", (x,), (), INT32)


def array_contains(x: Node, value: Node, zone: str = "UTC") -> Node:
    """Return ``array_contains(x, value)``. It is NULL if the value is not found and an element is NULL."""
    t = nested_arrow(x.type)
    if t is None or not _is_list(t):
        raise ConditionError(f"array_contains needs an array, not {x.type}: {x}")
    element = from_arrow(t.value_type)
    common = common_type(element, value.type, zone)
    if element.kind == "opaque" or common != element or "string" in {element.kind, value.type.kind} - {common.kind}:
        raise UnsupportedError(
            f"array_contains cannot find {value.type} among {element}: {value}; cast it to the type of "
            "the elements"
        )
    return make("array_contains", (x, cast(value, element, zone)), (), BOOL)


def sort_keys(a: Node, b: Node, what: str) -> tuple[Node, Node]:
    """Return the sort keys of two nested values as nodes."""
    s, t = nested_arrow(a.type), nested_arrow(b.type)
    if s is None or t is None or not _alike(s, t):
        hint = "nested values are compared with their like, and maps not at all"
        if isinstance(s, pa.BaseExtensionType) or isinstance(t, pa.BaseExtensionType):
            hint = "values of extension types are not compared; cast the columns to their storage types first"
        raise UnsupportedError(f"{what} cannot take {a.type} and {b.type}: {a} and {b}; {hint}")
    return make("sort_key", (a,), (), BINARY), make("sort_key", (b,), (), BINARY)


Meeting = Callable[[pa.DataType, pa.DataType], pa.DataType]


def common_nested(s: pa.DataType, t: pa.DataType, leaf: Meeting) -> pa.DataType:
    """Return the common type of two nested types. ``leaf`` returns the common type of two plain types."""
    if s == t:
        return s
    if pa.types.is_null(s) or pa.types.is_null(t):
        return t if pa.types.is_null(s) else s
    if pa.types.is_struct(s) and pa.types.is_struct(t):
        return pa.struct([
            pa.field(f.name, common_nested(f.type, g.type, leaf), f.nullable or g.nullable) for f, g in zip(s, t)
        ])  # fmt: skip
    if _is_list(s) and _is_list(t):
        item = pa.field(
            s.value_field.name, common_nested(s.value_type, t.value_type, leaf),
            s.value_field.nullable or t.value_field.nullable,
        )  # fmt: skip
        if pa.types.is_fixed_size_list(s) and pa.types.is_fixed_size_list(t) and s.list_size == t.list_size:
            return pa.list_(item, s.list_size)
        pt = pa.types
        large = any(pt.is_large_list(x) or pt.is_large_list_view(x) for x in (s, t))
        return pa.large_list(item) if large else pa.list_(item)
    return leaf(s, t)


def as_length(x: Node) -> Node:
    """Convert an Arrow interval (months, days, nanoseconds) to a duration. Return other expressions unchanged."""
    t = nested_arrow(x.type)
    return make("interval_length", (x,), (), duration("us")) if t is not None and _is_span(t) else x


def _is_span(t: pa.DataType) -> bool:
    return t == pa.month_day_nano_interval()


def _alike(s: pa.DataType, t: pa.DataType) -> bool:
    """Return whether the values of two types can be compared part by part."""
    if pa.types.is_null(s) or pa.types.is_null(t):
        return True
    if _is_list(s) and _is_list(t):
        return _alike(s.value_type, t.value_type)
    if pa.types.is_struct(s) and pa.types.is_struct(t):
        return [f.name for f in s] == [f.name for f in t] and all(_alike(f.type, g.type) for f, g in zip(s, t))
    if _is_span(s) or _is_span(t):
        return bool(s == t)
    a, b = from_arrow(s), from_arrow(t)
    if "opaque" in (a.kind, b.kind) or (a.kind != b.kind and {a.kind, b.kind} != {"decimal", "decimal256"}):
        return False
    return a.unit == b.unit and bool(a.tz) == bool(b.tz)


def as_list(array: Any) -> Any:
    """Return a list array of any kind as a plain list array."""
    import pyarrow.compute as pc

    t = array.type
    if pa.types.is_list(t) or pa.types.is_map(t):
        return array
    # Arrow's cast reads wrong elements if a fixed-size list or a list view has nulls.
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pc.list_flatten(array), mask=array.is_null())


def sort_key_values(array: Any) -> list[bytes | None]:
    """Return the sort key of each row as bytes, or None for NULL.

    Parts are encoded as in FoundationDB tuples. A NULL part is the byte 0, and any other part begins with the byte 1. A
    part of variable length ends with zeros, in a form that cannot occur inside it.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    t = array.type
    if pa.types.is_struct(t):
        parts = [_marked(sort_key_values(child)) for child in array.flatten()]
        return _where(array, [b"".join(row) for row in zip(*parts)] if parts else [b""] * len(array))
    if _is_list(t):
        plain = as_list(array)
        ends = plain.offsets.to_pylist()
        start = ends[0] if ends else 0  # skip values outside the slice
        values = sort_key_values(plain.values.slice(start, ends[-1] - start if ends else 0))
        elements = [b"\1" + v for v in _marked(values)]
        rows = [b"".join(elements[i - start : j - start]) + b"\0" for i, j in itertools.pairwise(ends)]
        return _where(array, rows)
    if _is_span(t):
        return [None if v is None else b"".join(map(_of_int, v)) for v in array.to_pylist()]
    return _leaves(array)


def _marked(values: list[bytes | None]) -> list[bytes]:
    return [b"\0" if v is None else b"\1" + v for v in values]


def _leaves(array: Any) -> list[bytes | None]:
    t = from_arrow(array.type)
    v, valid, _ = load(array, t)
    if t.kind in ("string", "binary"):
        texts = v.cast(pa.large_binary()).to_pylist()
        return [None if x is None else x.replace(b"\0", b"\0\xff") + b"\0\0" for x in texts]
    if t.kind in ("decimal", "decimal256"):
        unit = 10 ** (_FINEST - t.scale)
        rows = [_of_int(n * unit) for n in v.tolist()]
    elif t.kind == "bool":
        rows = [b"\1" if x else b"\0" for x in v.tolist()]
    elif t == UINT64:
        rows = [_of_int(n) for n in v.tolist()]
    else:
        rows = _of_words(ordinals(v.astype(np.float64), FLOAT64) if t.kind == "float" else v.astype(np.int64))
    return list(rows) if valid is None else [x if ok else None for x, ok in zip(rows, valid.tolist())]


_FINEST = 76  # the greatest number of digits after the point of a decimal


def _of_words(v: np.ndarray) -> list[bytes]:
    """Encode int64[n] in the same form as :func:`_of_int`."""
    raw = (v ^ np.int64(-1 << 63)).astype(">i8").tobytes()
    return [b"\x80" + raw[i : i + 8] for i in range(0, len(raw), 8)]


def _of_int(n: int) -> bytes:
    """Encode a whole number. If it does not fit int64, its length comes first; negative numbers sort first."""
    if -(1 << 63) <= n < 1 << 63:
        return b"\x80" + (n + (1 << 63)).to_bytes(8, "big")
    width = (abs(n).bit_length() + 7) // 8
    if n > 0:
        return bytes([0x80 + width]) + n.to_bytes(width, "big")
    return bytes([0x80 - width]) + ((1 << 8 * width) + n).to_bytes(width, "big")


def _where(array: Any, rows: list[bytes]) -> list[bytes | None]:
    if array.null_count == 0:
        return list(rows)
    return [row if ok else None for row, ok in zip(rows, array.is_valid().to_pylist())]
