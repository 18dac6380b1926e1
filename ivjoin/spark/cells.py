"""A join of many static frames: each row sent to the cells of a hypercube where it may meet others, a join in each.

::

    q -- cells, order, side 0 --+
    t -- cells, order, side 1 --+-- union -- repartition(cell) -- sortWithinPartitions(order) -- mapInArrow(join)
    n -- cells, order, side 2 --+

A row has a coordinate in each dim that its input is a member of, and is copied along the others. Rows that make a
result agree in every dim, so they meet in one cell, and each result comes out once. Coordinates are hashes, of an
attribute or of the whole row: a task that is run again sends the same rows to the same cells.

Where all inputs have the attributes of all dims, no row is copied, and Spark shuffles by the attributes themselves.
What is shuffled by and sorted by travels in the columns that hold it, where these are columns of all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from ivjoin.spark.buckets import bucket_labels
from ivjoin.spark.columns import as_spark_sql, place, type_name
from ivjoin.spark.pack import MapStage, gathered
from ivjoin.spark.slots import laid_together, null_of, selected

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
    frames: Mapping[str, Any], spec: MultiSpec, plan: HypercubePlan, out: StructType, rows: Mapping[str, float],
    tasks: int | None = None,
) -> Any:
    """The joined frame; with ``tasks`` in so many tasks, where keys alone say to which a row goes."""
    shape = best_shape(spec, {a: Seen(n) for a, n in rows.items()})
    along = _sorted(spec, sorted_along(spec, laid_out(spec, shape).steps, spec.aliases))
    run = spec.with_orders({a: (Order(along[a][0]),) if a in along else () for a in spec.aliases})
    keys = [] if plan.workers == 1 else _keys(spec, plan)
    together = [{a: node for a, (_, node) in along.items()}, *([] if keys is None else keys)]
    types = {a: [f.dataType for f in frame.schema] for a, frame in frames.items()}
    slots, places, by = laid_together(
        list(types.values()), [[_column(spec, a, nodes.get(a)) for a in spec.aliases] for nodes in together]
    )
    tagged = []
    for side, (a, frame) in enumerate(frames.items()):
        names = spec.wide(a).names
        given = frame.toDF(*[place(i) for i in range(len(types[a]))])
        columns: dict[str, Any] = {"side": f"CAST({side} AS TINYINT)"}
        if keys is None:
            columns["cell"] = f"explode({cell_sql(spec, plan, a, hashable(frame.schema))})"
        else:  # a null is equal to nothing
            for own in keys:
                given = given.where(f"{as_spark_sql(own[a], names)} IS NOT NULL")
        for i, (nodes, slot) in enumerate(zip(together, by, strict=True)):
            if nodes and slot is None:
                text = as_spark_sql(nodes[a], names) if a in nodes else _none_like(next(iter(nodes.values())))
                columns[f"b{i}"] = str(text)
        where = {slot: i for i, slot in enumerate(places[side])}
        columns |= {f"s{i}": place(where[i]) if i in where else null_of(t) for i, t in enumerate(slots)}
        tagged.append(selected(given, **columns))
    all_of = tagged[0]
    for one in tagged[1:]:
        all_of = all_of.union(one)
    order, *hashed = [f"b{i}" if slot is None else f"s{slot}" for i, slot in enumerate(by)]
    if plan.workers == 1:
        spread = all_of.coalesce(1)
    elif keys is None:
        labels = F.lit(list(bucket_labels(plan.workers)))
        spread = all_of.repartition(plan.workers, F.element_at(labels, F.col("cell") + 1))
    else:
        spread = all_of.repartition(*([] if tasks is None else [tasks]), *hashed)
    # Not by the cell first, though a task may have several: Spark sorts by one number ten times as fast as by two.
    if along:
        spread = spread.sortWithinPartitions(order)
    cell = [] if keys is not None else ["cell"]
    payload = spread.selectExpr("side", *[f"s{i}" for i in range(len(slots))], *cell)
    return payload.mapInArrow(_joiner(run, shape, places, bool(cell)), out)


def _sorted(spec: MultiSpec, along: Mapping[str, tuple[Node, Node]]) -> dict[str, tuple[Node, Node]]:
    """Those of the inputs that Spark can sort."""
    return {a: ends for a, ends in along.items() if as_spark_sql(ends[1], spec.wide(a).names) is not None}


def _keys(spec: MultiSpec, plan: HypercubePlan) -> list[dict[str, Node]] | None:
    """The attributes that cells are of, by input; None unless all inputs have them all, so that no row is copied."""
    named = attributes(spec)
    if not plan.dims or not all(dim in named and set(named[dim]) == set(spec.aliases) for dim in plan.dims):
        return None
    return [named[dim] for dim in plan.dims]


def _column(spec: MultiSpec, alias: str, node: Node | None) -> int | None:
    return spec.wide(alias).names.index(node.params[1]) if node is not None and node.op == "column" else None


def _none_like(node: Node) -> str:
    """A null of an expression's type, as Spark SQL."""
    return f"CAST(NULL AS {type_name(node.type)})"


def _joiner(spec: MultiSpec, shape: Any, places: list[list[int]], celled: bool) -> MapStage:
    """The function of a task: rows in order, with their cell in the last column if there are cells."""

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, MultiJoin] = {}

        def of_cell(cell: int) -> MultiJoin:
            if cell not in found:
                found[cell] = MultiJoin.from_spec(spec, shape)
            return found[cell]

        for batch in gathered(batches):
            tags = np.asarray(batch.column(0))
            cells = np.asarray(batch.column(batch.num_columns - 1)) if celled else None
            for cell in (0,) if cells is None else np.unique(cells).tolist():
                here = None if cells is None else cells == cell
                yield from _pushed(of_cell(cell), batch, tags, here, places)
        for op in found.values():
            yield from op.finish()

    return join


def _pushed(
    op: MultiJoin, batch: pa.RecordBatch, tags: np.ndarray, here: np.ndarray | None, places: list[list[int]]
) -> Iterator[pa.RecordBatch]:
    for side, alias in enumerate(op.aliases):
        index = np.flatnonzero(tags == side if here is None else (tags == side) & here)
        if not len(index):
            continue
        columns = [batch.column(1 + slot) for slot in places[side]]
        if len(index) < batch.num_rows:
            taken = pa.array(index)
            columns = [c.take(taken) for c in columns]
        schema = op.spec.schemas[alias]
        fit = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
        yield from op.push(alias, pa.RecordBatch.from_arrays(fit, schema=schema))
