"""Along which expressions a static join is sorted: those whose order prunes best, whatever the rows' order was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.outer.values import has_value
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import beside, picking_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.separation.separate import BandTerm
from ivjoin.spark.rows.arrow import as_spark_sql
from ivjoin.spark.rows.pack import MapStage, fitted

__all__ = ["SortKey", "image_adder", "sort_key"]


@dataclass(frozen=True)
class SortKey:
    """Expressions of one type, one a side, that rise together.

    Attributes
    ----------
    nodes : (Node, Node)
    sql : (str, str) or None
        As Spark SQL, or None when only ivjoin can evaluate them.
    """

    nodes: tuple[Node, Node]
    sql: tuple[str, str] | None


def sort_key(plan: JoinPlan) -> SortKey | None:
    """The sides of the band term that prunes best, None when the condition has no band.

    Where rows are picked, what they are picked by, and what it is compared with.
    """
    if plan.spec.picks_one:
        return _pick_key(plan)
    hinted = {node for side in plan.sides for node, _, _ in side.orders}
    names = [side.schema.names for side in plan.sides]
    best: tuple[tuple[int, ...], SortKey] | None = None
    for t in plan.kernel_terms or plan.terms:
        if not has_ordinal(t.left.type) or not has_ordinal(t.right.type):
            continue
        left, right = as_spark_sql(t.left, names[0]), as_spark_sql(t.right, names[1])
        sql = None if left is None or right is None else (left, right)
        key = SortKey((t.left, t.right), sql)
        score = (*_worth(t), (t.left in hinted) + (t.right in hinted), int(sql is not None))
        if best is None or score > best[0]:
            best = score, key
    return best[1] if best else None


def _pick_key(plan: JoinPlan) -> SortKey | None:
    picking = picking_of(plan)
    found = beside(picking)
    if found is None:
        return None
    left, right = (
        as_spark_sql(n, side.schema.names) for n, side in zip((found, picking.place), plan.sides, strict=True)
    )
    return SortKey((found, picking.place), None if left is None or right is None else (left, right))


def _worth(t: BandTerm) -> tuple[int, ...]:
    """A term closed on both ends frees both stores; one that is open frees one."""
    return ((t.lo is not None) + (t.hi is not None),)


def image_adder(spec: JoinSpec, side: int, node: Node) -> MapStage:
    """A map stage that puts the int64 image of an expression before the columns, for Spark to sort by."""

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

    return add
