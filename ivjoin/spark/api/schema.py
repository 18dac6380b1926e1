"""Convert schemas between Spark and Arrow, and refuse inputs and options that are not supported on Spark."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ivjoin.errors import IvjoinError, OrderError, UnsupportedError
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.operator.explaining.explain import why_never_decided
from ivjoin.operator.memory.budget import Budget, Shed, Spill, WhenFull, budget_of
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import retyped
from ivjoin.spark.rows.late import KEEP, REASON
from ivjoin.spark.runtime.catalyst import analyzed, kind_of, walk
from ivjoin.spark.runtime.environment import is_connect
from ivjoin.spark.runtime.eventtime import without_watermark

__all__ = [
    "arrow_schema", "both_streaming", "output_type", "refuse_collation", "refuse_second_state", "refuse_unbuilt",
    "refuse_uncompared", "refuse_undecided", "spark_type", "spelled_alike", "worker_budget",
]  # fmt: skip

def arrow_schema(schema: StructType, timezone: str) -> pa.Schema:
    """Return the Arrow schema in which Spark passes rows of this type to Python; refuse types that it does not pass."""
    fields = []
    for f in schema:
        if _has(f.dataType, "geometry", "geography"):
            raise UnsupportedError(
                f"column {f.name!r} is {f.dataType.simpleString()}, which band_join does not support; convert it to "
                "binary before the join, with st_asbinary"
            )
        try:
            t = _arrow_type(f.dataType, timezone)
        except PySparkTypeError as e:
            raise UnsupportedError(
                f"column {f.name!r} is {f.dataType.simpleString()}, which Spark cannot pass to Python; "
                "drop it, or cast it to another type, before band_join"
            ) from e
        fields.append(pa.field(f.name, t))
    return pa.schema(fields)


def _arrow_type(kind: DataType, timezone: str) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    if "timezone" in signature(to_arrow_type).parameters:
        return to_arrow_type(kind, timezone=timezone)

    def in_zone(t: pa.DataType) -> pa.DataType:
        return pa.timestamp(t.unit, timezone) if pa.types.is_timestamp(t) and t.tz is not None else t

    return retyped(to_arrow_type(kind), in_zone)  # before PySpark 4.2, instants are in UTC


def spark_type(t: pa.DataType) -> DataType:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(t, prefer_timestamp_ntz=True)


def spelled_alike(left: list[str], right: list[str]) -> list[str]:
    """Return the right names. A name that differs only in case from a left name has the spelling of the left name."""
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


SCHEMES = ("auto", "hash", "slices", "grid")
_STATES = {"FlatMapGroupsInPandasWithState": "another band_join", "Aggregate": "an aggregation"}


def refuse_second_state(frame: Any, side: str) -> None:
    """Refuse a stream with a stateful operator of Spark before the join. Over Connect, Spark does this at the start."""
    if is_connect(frame):
        return
    for plan in walk(analyzed(frame)):
        what = _STATES.get(kind_of(plan))
        if what is not None and plan.isStreaming():
            raise UnsupportedError(
                f"the {side} input has {what} before this join, which Spark does not run in one query with "
                'applyInPandasWithState; use backend="transformWithState", for all joins of the query. It needs the '
                "package protobuf and the RocksDB state store"
            )


def refuse_undecided(spec: JoinSpec) -> None:
    """Raise OrderError if the join emits unmatched rows of a side, but later rows never decide which rows these are."""
    plan = plan_of(spec)
    for s in (0, 1):
        why = why_never_decided(plan, s) if plan.how.owes(s) else None
        if why is not None:
            raise OrderError(
                f"how is {spec.how!r}, but {SIDES[s]} rows without a partner would never be emitted, since the "
                f"{SIDES[1 - s]} stream does not end: {why}. Set a watermark or an order on the {SIDES[1 - s]} input "
                "and bound the difference of the two times on both ends, or pass allow_unbounded=True to store these "
                "rows forever"
            )


def worker_budget(
    spec: JoinSpec, memory_limit: int | str | None, when_full: WhenFull, streaming: bool
) -> Budget | None:
    """Return the memory budget of an operator in a worker; None for no limit. Refuse unsupported options."""
    if when_full == "shed" or isinstance(when_full, Shed):
        raise UnsupportedError(
            "when_full is 'shed'; expected 'raise', or 'spill' of static frames: on Spark, joins do not shed rows"
        )
    if streaming and (when_full == "spill" or isinstance(when_full, Spill)):
        raise UnsupportedError(
            "when_full is 'spill' with streams; expected 'raise': Spark keeps the whole state of a bucket as bytes, "
            "which files do not shorten. Take more buckets or a narrower window"
        )
    budget = budget_of(memory_limit, when_full)
    if budget is not None:
        budget.check(plan_of(spec))
    return budget


def refuse_unbuilt(routing: object, hot_keys: object, routing_dir: object, streaming: bool) -> None:
    """Refuse a ``routing`` that is not a scheme, and options that do not apply to these inputs."""
    if routing not in SCHEMES:
        raise IvjoinError(f"routing is {routing!r}; expected {', '.join(map(repr, SCHEMES[:-1]))} or {SCHEMES[-1]!r}")
    if routing_dir is not None and not streaming:
        raise UnsupportedError(f"routing_dir is {routing_dir!r}; expected None: static frames follow one plan")
    if routing_dir is not None and routing == "hash":
        raise UnsupportedError(
            f"routing_dir is {routing_dir!r} with routing='hash'; expected 'auto' or 'slices', or no routing_dir"
        )
    if hot_keys is not None and not streaming:
        raise UnsupportedError(f"hot_keys is {hot_keys!r}; expected None: a sample finds the hot keys of static frames")
    if streaming and routing == "grid":
        raise UnsupportedError("routing is 'grid'; expected 'auto', 'slices' or 'hash': streams have no grids")


def both_streaming(left: Any, right: Any) -> bool:
    """Return whether both sides are streams; raise IvjoinError if one is not a DataFrame."""
    for frame, side in ((left, "left"), (right, "right")):
        if not hasattr(frame, "isStreaming") or not hasattr(frame, "mapInArrow"):
            raise IvjoinError(f"the {side} input is a {type(frame).__name__}; expected a PySpark DataFrame")
    return bool(left.isStreaming and right.isStreaming)
