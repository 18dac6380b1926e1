"""Write expressions of one side as Spark SQL, so that Spark itself can hash keys to buckets and sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import MAX_PREC, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.expr.types import Type
from ivjoin.outer.values import has_value
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import beside, picking_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.pack import fitted

__all__ = [
    "SortKey", "as_spark_sql", "bucket_sql", "condition_sql", "hash_sql", "hashable", "in_order", "in_places",
    "key_sql", "literal_sql", "place", "sort_key", "type_name", "widens", "with_image",
]  # fmt: skip

_INTS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_KINDS = {"bool": "BOOLEAN", "string": "STRING", "binary": "BINARY", "date": "DATE"}


def place(index: int) -> str:
    """Return the internal name of a side's column. Names of users may contain any character, and may collide."""
    return f"c{index}"


def in_places(frame: Any) -> Any:
    """Return a frame with its columns under their :func:`place` names."""
    return frame.toDF(*[place(i) for i in range(len(frame.schema))])


def hashable(schema: Any) -> list[int]:
    """Return the positions of the columns that Spark can hash."""
    kinds = [f.dataType.simpleString() for f in schema]
    return [i for i, kind in enumerate(kinds) if "map<" not in kind and "variant" not in kind]


def as_spark_sql(node: Node, names: Sequence[str]) -> str | None:
    """Return a column, or a column cast to a wider type, as Spark SQL over :func:`place` names; None for anything else.

    Spark and ivjoin certainly evaluate these forms alike. A shuffle may use no others.
    """
    if node.op == "column":
        return f"`{place(list(names).index(node.params[1]))}`"
    if node.op == "cast":
        inner = as_spark_sql(node.args[0], names)
        target = type_name(node.type)
        if inner is None or target is None or not widens(node.args[0].type, node.type):
            return None
        return f"CAST({inner} AS {target})"
    return None


_COMPARED = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>"}


def condition_sql(node: Node, names: Sequence[str]) -> str | None:
    """Return a condition on columns of one input and literals as Spark SQL, which raises no errors.

    Like :func:`as_spark_sql`, return None unless Spark certainly gives the same answer.
    """
    if node.op in _COMPARED or node.op == "in":
        ends = [_operand(n, names) for n in node.args]
        if node.op == "in":
            ends += [literal_sql(v, node.args[0].type) for v in node.params]
        if None in ends:
            return None
        first, *others = [str(e) for e in ends]
        what = f"IN ({', '.join(others)})" if node.op == "in" else f"{_COMPARED[node.op]} {others[0]}"
        return f"({first} {what})"
    if node.op in ("and", "or", "not"):
        parts = [condition_sql(n, names) for n in node.args]
        if None in parts:
            return None
        return f"(NOT {parts[0]})" if node.op == "not" else f"({f' {node.op.upper()} '.join(map(str, parts))})"
    if node.op == "is_null":
        inner = as_spark_sql(node.args[0], names)
        return None if inner is None else f"({inner} IS NULL)"
    return as_spark_sql(node, names) if node.op == "column" and node.type.kind == "bool" else None


def _operand(node: Node, names: Sequence[str]) -> str | None:
    return literal_sql(node.params[0], node.type) if node.op == "literal" else as_spark_sql(node, names)


def literal_sql(value: Any, t: Type) -> str | None:
    """Return SQL for a node's value that Spark reads alike under all settings; None if no such SQL exists."""
    name = type_name(t)
    if value is None or name is None:
        return None
    if t.kind == "int":
        return f"CAST('{value}' AS {name})"
    if t.kind == "float":
        return f"CAST('{float(value)!r}' AS {name})"
    if t.kind == "decimal":
        return f"CAST('{Decimal(value).scaleb(-t.scale, Context(prec=MAX_PREC)):f}' AS {name})"
    if t.kind == "bool":
        return str(bool(value)).upper()
    if t.kind == "string" and isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if t.kind == "date":
        return f"date_from_unix_date({value})"
    if t.kind == "timestamp" and t.tz and t.unit == "us":
        return f"timestamp_micros({value}L)" if value > -(2**63) else None
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
    """Return the join keys that Spark can hash on both sides, as (left, right) SQL.

    The nodes already have the common type of both sides, on which hashes depend. ``by_name`` sorts the keys, whatever
    their order in the condition.
    """
    names = [side.schema.names for side in plan.sides]
    out = []
    keys = plan.separation.keys
    for key in sorted(keys, key=lambda k: (str(k.left), str(k.right))) if by_name else keys:
        left, right = as_spark_sql(key.left, names[0]), as_spark_sql(key.right, names[1])
        if left is not None and right is not None:
            out.append((left, right))
    return out


def bucket_sql(keys: Sequence[tuple[str, str]], side: int, buckets: int) -> str:
    """Return SQL for the bucket number of a row of a side; 0 for all rows of a join without keys."""
    return "0" if buckets == 1 else f"pmod({hash_sql(keys, side)}, {buckets})"


def hash_sql(keys: Sequence[tuple[str, str]], side: int) -> str:
    return f"hash({', '.join(pair[side] for pair in keys)})" if keys else "0"


@dataclass(frozen=True)
class SortKey:
    """Two expressions of one type, one of each side, that rise together."""

    nodes: tuple[Node, Node]
    sql: tuple[str, str] | None  # None if only ivjoin can evaluate them


def sort_key(plan: JoinPlan) -> SortKey | None:
    """Return the sides of the band term that prunes best; None without a band.

    If one row is picked, return what it is picked by, and what that is compared with.
    """
    if plan.spec.picks_one:
        picking = picking_of(plan)
        found = beside(picking)
        return None if found is None else _key(plan, found, picking.place)
    hinted = {node for side in plan.sides for node, _, _ in side.orders}
    best: tuple[tuple[int, ...], SortKey] | None = None
    for t in plan.kernel_terms or plan.terms:
        if not has_ordinal(t.left.type) or not has_ordinal(t.right.type):
            continue
        key = _key(plan, t.left, t.right)
        ends = (t.lo is not None) + (t.hi is not None)  # an open term evicts rows of one side alone
        score = ends, (t.left in hinted) + (t.right in hinted), int(key.sql is not None)
        if best is None or score > best[0]:
            best = score, key
    return best[1] if best else None


def _key(plan: JoinPlan, left: Node, right: Node) -> SortKey:
    a, b = (as_spark_sql(node, side.schema.names) for node, side in zip((left, right), plan.sides, strict=True))
    return SortKey((left, right), None if a is None or b is None else (a, b))


def in_order(plan: JoinPlan, side: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sort the batch along the primary axis, ascending. The index of a side has this order; Spark promises no order."""
    axes = plan.sides[side].axes
    if not axes:
        return batch
    image = _image(axes[0], batch)[1]
    if len(image) < 2 or bool((image[1:] >= image[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(image, kind="stable")))


def with_image(rows: Any, spec: JoinSpec, side: int, node: Node) -> Any:
    """Return a frame with the int64 image of an expression before the columns, for Spark to sort by."""

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for raw in batches:
            v, image = _image(node, fitted(raw, spec.schemas[side]))
            present = has_value(v)
            mask = None if present is None else ~present
            column = pa.array(np.ascontiguousarray(image), pa.int64(), mask=mask)
            yield pa.RecordBatch.from_arrays([column, *raw.columns], names=["o", *raw.schema.names])

    fields = [StructField("o", LongType()), *[StructField(f.name, f.dataType) for f in rows.schema]]
    return rows.mapInArrow(add, StructType(fields))


def _image(node: Node, batch: pa.RecordBatch) -> tuple[Any, np.ndarray]:
    v = evaluate([node], lambda _, name: batch.column(name), batch.num_rows)[0]
    return v, ordinals(v.values, node.type)
