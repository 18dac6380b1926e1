"""Convert schemas between Spark and Arrow, for the inputs and the output."""

from __future__ import annotations

from inspect import signature

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ivjoin.errors import UnsupportedError
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.spark.rows.late import KEEP, REASON
from ivjoin.spark.runtime.eventtime import without_watermark

__all__ = ["arrow_schema", "output_type", "refuse_collation", "refuse_uncompared", "spark_type", "spelled_alike"]


def arrow_schema(schema: StructType, timezone: str) -> pa.Schema:
    """Return the Arrow schema in which Spark passes rows of this type to Python; refuse types that it does not pass."""
    fields = []
    for f in schema:
        if _has(f.dataType, "geometry", "geography"):
            raise UnsupportedError(
                f"column {f.name!r} is {f.dataType.simpleString()}, which band_join cannot carry; convert it to binary "
                "before the join, with st_asbinary"
            )
        try:
            t = _arrow_type(f.dataType, timezone)
        except PySparkTypeError as e:
            raise UnsupportedError(
                f"column {f.name!r} is {f.dataType.simpleString()}, which Spark cannot hand to Python; "
                "drop it, or cast it to another type, before band_join"
            ) from e
        fields.append(pa.field(f.name, t))
    return pa.schema(fields)


def _arrow_type(kind: DataType, timezone: str) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    if "timezone" in signature(to_arrow_type).parameters:
        return to_arrow_type(kind, timezone=timezone)
    return _in_zone(to_arrow_type(kind), timezone)  # before PySpark 4.2, instants are in UTC


def _in_zone(t: pa.DataType, timezone: str) -> pa.DataType:
    def field(f: pa.Field) -> pa.Field:
        return f.with_type(_in_zone(f.type, timezone))

    if pa.types.is_timestamp(t) and t.tz is not None:
        return pa.timestamp(t.unit, timezone)
    if pa.types.is_list(t):
        return pa.list_(field(t.value_field))
    if pa.types.is_map(t):
        return pa.map_(field(t.key_field), field(t.item_field))
    if pa.types.is_struct(t):
        return pa.struct([field(f) for f in t])
    return t


def spark_type(t: pa.DataType) -> DataType:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(t, prefer_timestamp_ntz=True)


def spelled_alike(left: list[str], right: list[str]) -> list[str]:
    """Return the right names, spelled as the left name that differs only in case."""
    known = {n.lower(): n for n in left}
    return [known.get(n.lower(), n) for n in right]


def output_type(plan: JoinPlan, types: tuple[StructType, StructType]) -> StructType:
    """Return the output's schema. A column has the type of its input; a merged key has the common type."""
    out = []
    for field, place in zip(plan.schema, plan.fields, strict=False):
        if place.left is not None and place.right is not None:
            a, b = types[0][place.left], types[1][place.right]
            t = a.dataType if a.dataType == b.dataType else spark_type(field.type)
            source = a
        else:
            side, index = (0, place.left) if place.left is not None else (1, place.right)
            source = types[side][index]
            t = source.dataType
        out.append(StructField(field.name, t, True, without_watermark(source.metadata)))
    for a, field in zip(plan.spec.aggregates, list(plan.schema)[len(plan.fields) :], strict=True):
        t = spark_type(field.type)
        if a.node is not None and a.node.op == "column" and a.function in ("min", "max", "first", "last"):
            t = types[1][plan.sides[1].schema.get_field_index(a.node.params[1])].dataType
        out.append(StructField(a.name, t, True))
    if plan.spec.on_late == KEEP:
        out.append(StructField(REASON, StringType(), True))
    return StructType(out)


def _has(kind: DataType, *names: str) -> bool:
    inside = [f.dataType for f in getattr(kind, "fields", ())]
    inside += [v for n in ("elementType", "keyType", "valueType") if (v := getattr(kind, n, None)) is not None]
    return kind.typeName() in names or any(_has(it, *names) for it in inside)


def refuse_uncompared(nodes: list[Node], types: tuple[StructType, StructType]) -> None:
    """Refuse expressions that read a VARIANT, or a string column whose collation is not by bytes."""
    for column in columns_of(*nodes):
        side, name = column.params
        for f in types[SIDES.index(side)]:
            if f.name == name and _has(f.dataType, "variant"):
                raise UnsupportedError(
                    f"the condition reads column {name!r} of {side}, which is {f.dataType.simpleString()}; Spark does "
                    "not compare a VARIANT. Use variant_get(...) to make a column of another type before the join"
                )
            if f.name == name:
                refuse_collation(f, side, "band_join")


def refuse_collation(f: StructField, side: str, call: str) -> None:
    collation = getattr(f.dataType, "collation", "UTF8_BINARY")
    if collation != "UTF8_BINARY":
        raise UnsupportedError(
            f"column {f.name!r} of {side} has the collation {collation}; {call} compares strings by their bytes: use a "
            "column of collation UTF8_BINARY (for example upper(...)) in the join condition"
        )
