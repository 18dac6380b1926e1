"""The output columns of a join: their names, types and sources."""

from __future__ import annotations

import pyarrow as pa

from ivjoin.errors import SchemaError
from ivjoin.expr import build
from ivjoin.expr.build.nested import common_nested
from ivjoin.expr.types import UUID, from_arrow, nested_arrow, to_arrow
from ivjoin.outer.batches import OutputField
from ivjoin.outer.jointype import JoinType

__all__ = ["output_fields"]


def output_fields(
    schemas: tuple[pa.Schema, pa.Schema], pairs: list[tuple[str, str]], jt: JoinType, suffix: str
) -> tuple[pa.Schema, list[OutputField]]:
    """Return the schema of a join's output and the source of each of its columns.

    SchemaError if the name of a right column is taken, with and without the suffix.
    """
    left, right = schemas
    if jt.single is not None:
        side = schemas[jt.single]
        made = [OutputField(i, None) if jt.single == 0 else OutputField(None, i) for i in range(len(side))]
        return pa.schema(list(side), metadata=side.metadata), made
    shared = {a for a, b in pairs if a == b}
    fields: list[pa.Field] = []
    places: list[OutputField] = []
    for i, f in enumerate(left):
        if f.name in shared:
            j = right.get_field_index(f.name)
            other = right.field(j)
            t = _merged(f.type, other.type, jt.keep[1])
            nullable = f.nullable or other.nullable
            fields.append(pa.field(f.name, t, nullable=nullable, metadata=f.metadata))
            places.append(OutputField(i, j))
        else:
            fields.append(f.with_nullable(True) if jt.keep[1] else f)
            places.append(OutputField(i, None))
    taken, others = set(left.names), set(right.names)
    for j, f in enumerate(right):
        if f.name in shared:
            continue
        name = f.name
        if name in taken:
            name = f.name + suffix
            if name in taken or name in others:
                raise SchemaError(
                    f"the right column {f.name!r} collides with a left one, and {name!r} is taken too; "
                    "choose another suffix or rename a column"
                )
        taken.add(name)
        f = f.with_name(name)
        fields.append(f.with_nullable(True) if jt.keep[0] else f)
        places.append(OutputField(None, j))
    return pa.schema(fields), places


def _merged(a: pa.DataType, b: pa.DataType, lone: bool) -> pa.DataType:
    """Return the type of a merged key: a dictionary if the left key is one and its values need no wider type.

    With ``lone``, unmatched right rows are emitted; their values may need wider indices than the left dictionary has.
    """
    if a == b and not (lone and pa.types.is_dictionary(a)):
        return a
    if not pa.types.is_dictionary(a):
        return _common_arrow(a, b)
    values = b.value_type if pa.types.is_dictionary(b) else b
    t = _common_arrow(a.value_type, values)
    if from_arrow(t) != from_arrow(a.value_type):
        return t
    if not lone:
        return a
    widths = [a.index_type.bit_width, 32, b.index_type.bit_width if pa.types.is_dictionary(b) else 32]
    return pa.dictionary(pa.int64() if max(widths) > 32 else pa.int32(), a.value_type)


def _common_arrow(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the common type of two keys: Spark's widening, the value type of a dictionary, the left zone."""
    if pa.types.is_dictionary(a):
        a = a.value_type
    if pa.types.is_dictionary(b):
        b = b.value_type
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if nested_arrow(from_arrow(a)) is not None and nested_arrow(from_arrow(b)) is not None:
        return common_nested(a, b, _common_arrow)
    left = build.column("left", "a", from_arrow(a))
    right = build.column("right", "b", from_arrow(b))
    met = build.eq(left, right).args[0].type
    if met.kind in ("string", "binary"):
        large = pa.types.is_large_string(a) or pa.types.is_large_string(b)
        if met.kind == "binary":
            return to_arrow(met) if met == UUID else pa.large_binary()
        return pa.large_string() if large else pa.string()
    if met.kind == "timestamp":
        return pa.timestamp(met.unit, left.type.tz or met.tz)
    return to_arrow(met)
