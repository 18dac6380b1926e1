"""Choose the expressions along which a static join is sorted: those whose order prunes best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.outer.values import has_value
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import beside, picking_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.arrow import as_spark_sql
from ivjoin.spark.rows.pack import fitted

__all__ = ["SortKey", "sort_key", "with_image"]


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


def with_image(rows: Any, spec: JoinSpec, side: int, node: Node) -> Any:
    """Return a frame with the int64 image of an expression before the columns, for Spark to sort by."""

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = spec.schemas[side]
        index = {name: i for i, name in enumerate(schema.names)}
        for raw in batches:
            batch = fitted(raw, schema)
            v = evaluate([node], lambda _, name: batch.column(index[name]), batch.num_rows)[0]  # noqa: B023
            present = has_value(v)
            mask = None if present is None else ~present
            image = pa.array(np.ascontiguousarray(ordinals(v.values, node.type)), pa.int64(), mask=mask)
            yield pa.RecordBatch.from_arrays([image, *raw.columns], names=["o", *raw.schema.names])

    fields = [StructField("o", LongType()), *[StructField(f.name, f.dataType) for f in rows.schema]]
    return rows.mapInArrow(add, StructType(fields))
