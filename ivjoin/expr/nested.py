"""Nested values: fields, sizes, members, and the bytes by which two of them are equal.

Equality is Spark's: NULL where a whole value is NULL, but inside of one NULL equals NULL, NaN NaN, and -0.0 is 0.0.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.coerce import cast, common_type
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.ops_columns import load
from ivjoin.expr.types import BINARY, BOOL, INT32, from_arrow, nested_arrow

__all__ = ["array_contains", "as_list", "field", "identities", "identity_values", "size"]


def field(x: Node, name: str, case_sensitive: bool = True) -> Node:
    """``x.name`` of a struct."""
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
    """``size(x)``: how many elements an array or map has; NULL of NULL, as under ANSI."""
    t = nested_arrow(x.type)
    if not _is_list(t) and not (t is not None and pa.types.is_map(t)):
        raise ConditionError(f"size needs an array or a map, not {x.type}: {x}")
    return make("size", (x,), (), INT32)


def array_contains(x: Node, value: Node, zone: str = "UTC") -> Node:
    """``array_contains(x, value)``: NULL if not found beside NULL elements."""
    t = nested_arrow(x.type)
    if t is None or not _is_list(t):
        raise ConditionError(f"array_contains needs an array, not {x.type}: {x}")
    element = from_arrow(t.value_type)
    common = common_type(element, value.type, zone)
    if element.kind == "opaque" or common != element or "string" in {element.kind, value.type.kind} - {common.kind}:
        raise UnsupportedError(f"array_contains cannot find {value.type} among {element}: {value}; a CAST makes it one")
    return make("array_contains", (x, cast(value, element, zone)), (), BOOL)


def identities(a: Node, b: Node, what: str) -> tuple[Node, Node]:
    """Bytes that are equal where two nested values are."""
    s, t = nested_arrow(a.type), nested_arrow(b.type)
    if s is None or t is None or not _alike(s, t):
        raise UnsupportedError(
            f"{what} cannot take {a.type} and {b.type}: {a} and {b}; nested values are compared with their like, "
            "and maps not at all"
        )
    return make("identity", (a,), (), BINARY), make("identity", (b,), (), BINARY)


def _is_span(t: pa.DataType) -> bool:
    return t == pa.month_day_nano_interval()


def _alike(s: pa.DataType, t: pa.DataType) -> bool:
    """Whether the values of two types can be compared part by part, each part with its own kind."""
    if pa.types.is_null(s) or pa.types.is_null(t):
        return True
    if _is_list(s) and _is_list(t):
        return _alike(s.value_type, t.value_type)
    if pa.types.is_struct(s) and pa.types.is_struct(t):
        return [f.name for f in s] == [f.name for f in t] and all(_alike(f.type, g.type) for f, g in zip(s, t))
    if _is_span(s) or _is_span(t):
        return bool(s == t)
    a, b = from_arrow(s), from_arrow(t)
    if "opaque" in (a.kind, b.kind) or a.kind != b.kind:
        return False
    return a.unit == b.unit and bool(a.tz) == bool(b.tz)


def as_list(array: Any) -> Any:
    """A list array of any kind as a plain one."""
    import pyarrow.compute as pc

    t = array.type
    if pa.types.is_list(t) or pa.types.is_map(t):
        return array
    # Arrow's own cast loses its place where a list of fixed size, or a view, holds nulls.
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pc.list_flatten(array), mask=array.is_null())


def identity_values(array: Any) -> list[Any]:
    """A Python value for each row, None for NULL; values are equal where the rows are."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    t = array.type
    if pa.types.is_struct(t):
        parts = [identity_values(child) for child in array.flatten()]
        rows = list(zip(*parts)) if parts else [()] * len(array)
        return _where(array, rows)
    if _is_list(t):
        plain = as_list(array)
        ends = plain.offsets.to_pylist()
        start = ends[0] if ends else 0  # of a slice, its own values alone
        values = identity_values(plain.values.slice(start, ends[-1] - start if ends else 0))
        return _where(array, [tuple(values[i - start : j - start]) for i, j in itertools.pairwise(ends)])
    if _is_span(t):
        return [None if v is None else tuple(v) for v in array.to_pylist()]
    kind = from_arrow(t)
    v, valid, _ = load(array, kind)
    if kind.kind == "float":
        v = np.where(v == 0, 0.0, v.astype(np.float64))
        found = ["NaN" if x != x else x for x in v.tolist()]
    elif kind.kind in ("decimal", "decimal256"):
        found = [_shortest(int(n), kind.scale) for n in v.tolist()]
    else:
        found = v.to_pylist() if isinstance(v, pa.Array) else v.tolist()
    return found if valid is None else [x if ok else None for x, ok in zip(found, valid.tolist())]


def _shortest(n: int, scale: int) -> tuple[int, int]:
    while n and n % 10 == 0:
        n, scale = n // 10, scale - 1
    return (n, scale) if n else (0, 0)


def _where(array: Any, rows: list[Any]) -> list[Any]:
    if array.null_count == 0:
        return rows
    return [row if ok else None for row, ok in zip(rows, array.is_valid().to_pylist())]


