"""Write expressions of one side as Spark SQL, so that Spark itself can hash keys to buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr import ops
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import Type
from ivjoin.plan.join_plan import JoinPlan

__all__ = [
    "as_spark_sql", "hash_sql", "hashable", "in_order", "in_places",
    "key_sql", "place", "retyped", "type_name", "union", "widens",
]  # fmt: skip

_INTS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_KINDS = {"bool": "BOOLEAN", "string": "STRING", "binary": "BINARY", "date": "DATE"}


def place(index: int) -> str:
    """Return the internal name of a side's column. Users' column names may contain any character, and may collide."""
    return f"c{index}"


def in_places(frame: Any) -> Any:
    """Return a frame with its columns under their :func:`place` names."""
    return frame.toDF(*[place(i) for i in range(len(frame.schema))])


def union(frames: Sequence[Any]) -> Any:
    return reduce(lambda a, b: a.union(b), frames)


def retyped(t: pa.DataType, change: Callable[[pa.DataType], pa.DataType], element: str = "") -> pa.DataType:
    """Return a type with its innermost types changed. ``element`` is a new name for the elements of lists."""

    def field(f: pa.Field, name: str = "") -> pa.Field:
        return f.with_name(name or f.name).with_type(retyped(f.type, change, element))

    if pa.types.is_list(t):
        return pa.list_(field(t.value_field, element))
    if pa.types.is_map(t):
        return pa.map_(field(t.key_field), field(t.item_field))
    if pa.types.is_struct(t):
        return pa.struct([field(f) for f in t])
    return change(t)


def hashable(schema: Any) -> list[int]:
    """Return the positions of the columns that Spark can hash."""
    kinds = [f.dataType.simpleString() for f in schema]
    return [i for i, kind in enumerate(kinds) if "map<" not in kind and "variant" not in kind]


def as_spark_sql(node: Node, names: Sequence[str]) -> str | None:
    """Return a column, or a column cast to a wider type, as Spark SQL over :func:`place` names; None for anything else.

    Spark and ivjoin evaluate these forms in the same way. A shuffle must not use other forms.
    """
    if node.op == "column":
        return f"`{place(list(names).index(node.params[1]))}`"
    if node.op == ops.CAST:
        inner = as_spark_sql(node.args[0], names)
        target = type_name(node.type)
        if inner is None or target is None or not widens(node.args[0].type, node.type):
            return None
        return f"CAST({inner} AS {target})"
    return None


def widens(a: Type, b: Type) -> bool:
    """Return whether a cast of every value from the first type to the second succeeds, in any session."""
    if a.kind == b.kind == "int":
        return a.bits <= b.bits
    if a.kind == b.kind == "float":
        return a.bits <= b.bits
    if a.kind == b.kind == "decimal":
        return b.scale >= a.scale and b.precision - b.scale >= a.precision - a.scale
    if (a.kind, b.kind) == ("int", "decimal"):
        return b.precision - b.scale >= {8: 3, 16: 5, 32: 10, 64: 20}[a.bits]
    if b.kind == "timestamp" and a.kind in ("date", "timestamp"):
        # the instant of a local time depends on a zone; Spark uses the session's zone, even if the join has another
        return bool(a.tz) == bool(b.tz)
    return (a.kind, b.kind) in {("int", "float"), ("decimal", "float")}


def type_name(t: Type) -> str | None:
    if t.kind == "int" and t.signed:
        return _INTS[t.bits]
    if t.kind == "float":
        return "DOUBLE" if t.bits == 64 else "FLOAT"
    if t.kind == "decimal":
        return f"DECIMAL({t.precision},{t.scale})"
    if t.kind == "timestamp":
        return "TIMESTAMP" if t.tz else "TIMESTAMP_NTZ"
    return _KINDS.get(t.kind)


def key_sql(plan: JoinPlan, by_name: bool = False) -> list[tuple[str, str]]:
    """Return the join keys that Spark can hash on both sides, as (left, right) SQL."""
    names = [side.schema.names for side in plan.sides]
    out = []
    keys = plan.separation.keys
    for key in sorted(keys, key=lambda k: (str(k.left), str(k.right))) if by_name else keys:
        left, right = as_spark_sql(key.left, names[0]), as_spark_sql(key.right, names[1])
        if left is not None and right is not None:
            out.append((left, right))
    return out


def hash_sql(keys: Sequence[tuple[str, str]], side: int) -> str:
    return f"hash({', '.join(pair[side] for pair in keys)})" if keys else "0"


def in_order(plan: JoinPlan, side: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sort the batch along the primary axis, ascending. The index needs this order; Spark promises no order."""
    axes = plan.sides[side].axes
    if not axes:
        return batch
    v = evaluate([axes[0]], lambda _, name: batch.column(name), batch.num_rows)[0]
    image = ordinals(v.values, axes[0].type)
    if len(image) < 2 or bool((image[1:] >= image[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(image, kind="stable")))
