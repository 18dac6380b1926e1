"""A join of many static frames: each row sent to the cells of a hypercube where it may meet others, a join in each.

::

    q -- cells, order, side 0 --+
    t -- cells, order, side 1 --+-- union -- repartition(cell) -- sortWithinPartitions(cell, order) -- mapInArrow(join)
    n -- cells, order, side 2 --+

A row has a coordinate in each dim that its input is a member of, and is copied along the others. Rows that make a
result agree in every dim, so they meet in one cell, and each result comes out once. Coordinates are hashes, of an
attribute or of the whole row: a task that is run again sends the same rows to the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import Order
from ivjoin.multi.operator import MultiJoin
from ivjoin.multi.pace import sorted_along
from ivjoin.multi.question import MultiSpec
from ivjoin.multi.spread import attributes
from ivjoin.multi.steps import laid_out
from ivjoin.multi.trees import Seen, best_shape
from ivjoin.routing import HypercubePlan
from ivjoin.spark.columns import as_spark_sql, place, type_name
from ivjoin.spark.pack import MapStage
from ivjoin.spark.slots import share_slots

__all__ = ["cell_sql", "hashable", "joined_in_cells"]


def cell_sql(spec: MultiSpec, plan: HypercubePlan, alias: str, columns: list[int]) -> str:
    """The cells of a row of an input, an array of int, as Spark SQL over :func:`place` names."""
    named = attributes(spec)
    names = spec.wide(alias).names
    stride, terms, copies = 1, ["0"], "array(0)"
    for seed, (dim, size) in enumerate(plan.dims.items()):
        if dim in plan.members[alias]:
            if dim in named:
                by = as_spark_sql(named[dim][alias], names)
                assert by is not None
            else:  # a random dim of the input's own: by all that its rows hold
                by = ", ".join([f"{seed}", *(f"`{place(i)}`" for i in columns)])
            terms.append(f"CAST(pmod(xxhash64({by}), {size}) AS INT) * {stride}")
        else:
            steps = f"transform(sequence(0, {size - 1}), y -> y * {stride})"
            copies = f"flatten(transform({copies}, x -> transform({steps}, y -> x + y)))"
        stride *= size
    return f"transform({copies}, x -> x + {' + '.join(terms)})"


def hashable(schema: StructType) -> list[int]:
    """Columns that Spark can hash."""
    return [i for i, f in enumerate(schema) if "map<" not in f.dataType.simpleString()
            and "variant" not in f.dataType.simpleString()]  # fmt: skip


def joined_in_cells(
    frames: Mapping[str, Any], spec: MultiSpec, plan: HypercubePlan, out: StructType, rows: Mapping[str, float]
) -> Any:
    """The joined frame."""
    shape = best_shape(spec, {a: Seen(n) for a, n in rows.items()})
    along = sorted_along(spec, laid_out(spec, shape).steps, spec.aliases)
    sql: dict[str, str] = {}
    for a, (_, node) in along.items():
        text = as_spark_sql(node, spec.wide(a).names)
        if text is not None:
            sql[a] = text
    run = spec.with_orders({a: (Order(along[a][0]),) if a in sql else () for a in spec.aliases})
    types = {a: [f.dataType for f in frame.schema] for a, frame in frames.items()}
    first, *others = types.values()
    slots, *places = share_slots(first, *others)
    kind = next((along[a][1] for a in sql), None)
    tagged = []
    for side, (a, frame) in enumerate(frames.items()):
        given = frame.toDF(*[place(i) for i in range(len(types[a]))])
        cell = cell_sql(spec, plan, a, hashable(frame.schema))
        order = F.lit(None).cast("int") if kind is None else F.expr(sql.get(a, _none_like(kind)))
        where = {slot: i for i, slot in enumerate(places[side])}
        columns = [
            (F.col(place(where[slot])) if slot in where else F.lit(None).cast(t)).alias(f"s{slot}")
            for slot, t in enumerate(slots)
        ]
        own = given.select(F.explode(F.expr(cell)).alias("cell"), F.lit(side).cast("tinyint").alias("side"),
                           order.alias("o"), *columns)  # fmt: skip
        tagged.append(own)
    all_of = tagged[0]
    for one in tagged[1:]:
        all_of = all_of.union(one)
    spread = all_of.coalesce(1) if plan.workers == 1 else all_of.repartition(plan.workers, "cell")
    spread = spread.sortWithinPartitions("cell", "o")
    payload = spread.select("cell", "side", *[f"s{i}" for i in range(len(slots))])
    return payload.mapInArrow(_joiner(run, shape, places), out)


def _none_like(node: Node) -> str:
    """A null of an expression's type, as Spark SQL."""
    return f"CAST(NULL AS {type_name(node.type)})"


def _joiner(spec: MultiSpec, shape: Any, places: list[list[int]]) -> MapStage:
    """The function of a task: rows of its cells, one cell after the other, each in order."""

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        op: MultiJoin | None = None
        at = None
        for batch in batches:
            cells = np.asarray(batch.column(0))
            edges = [0, *(np.flatnonzero(np.diff(cells)) + 1), len(cells)]
            for start, end in pairwise(edges):
                if start == end:
                    continue
                if op is None or cells[start] != at:
                    if op is not None:
                        yield from op.finish()
                    op, at = MultiJoin.from_spec(spec, shape), cells[start]
                yield from _pushed(op, batch.slice(start, end - start), places)
        if op is not None:
            yield from op.finish()

    return join


def _pushed(op: MultiJoin, batch: pa.RecordBatch, places: list[list[int]]) -> Iterator[pa.RecordBatch]:
    tags = np.asarray(batch.column(1))
    for side, alias in enumerate(op.aliases):
        index = np.flatnonzero(tags == side)
        if not len(index):
            continue
        columns = [batch.column(2 + slot) for slot in places[side]]
        if len(index) < batch.num_rows:
            taken = pa.array(index)
            columns = [c.take(taken) for c in columns]
        schema = op.spec.schemas[alias]
        fit = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
        yield from op.push(alias, pa.RecordBatch.from_arrays(fit, schema=schema))
