"""Join many static frames: send each row to the cells of a hypercube where it may have matches, and join in each cell.

::

    q -- cells, order, side 0 --+
    t -- cells, order, side 1 --+-- union -- repartition(cell) -- sortWithinPartitions(order) -- mapInArrow(join)
    n -- cells, order, side 2 --+

A row has a coordinate in each dim that its input is a member of, and is copied along the others. Rows that match agree
in every dim, so they meet in one cell, and each result is emitted once. Coordinates are hashes of an attribute or of
the whole row. A task that runs again therefore sends the same rows to the same cells.

If all inputs have the attributes of all dims, no row is copied, and Spark shuffles by the attributes themselves. The
cell and the side are one number. Rows that can be in no result are dropped before the shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.frontier.order import Order
from ivjoin.multi.operator import MultiJoin
from ivjoin.multi.pace import sorted_along
from ivjoin.multi.shape.steps import Step, laid_out, wide
from ivjoin.multi.shape.trees import Seen, best_shape
from ivjoin.multi.spec import MultiSpec
from ivjoin.multi.spread import attributes
from ivjoin.plan.cache import plan_of
from ivjoin.routing import HypercubePlan
from ivjoin.spark.rows.arrow import as_spark_sql, condition_sql, hashable, in_places, place, type_name
from ivjoin.spark.rows.pack import gathered, rows_of
from ivjoin.spark.rows.results import MapStage
from ivjoin.spark.rows.slots import filled, laid_together, selected, union
from ivjoin.spark.spread.buckets import bucket_labels

__all__ = ["in_cells", "joined_in_cells"]


def in_cells(
    frame: Any, spec: MultiSpec, plan: HypercubePlan, alias: str, columns: list[int], stride: int = 1
) -> tuple[Any, str]:
    """Copy each row of an input to its cells. Return the frame, and Spark SQL (int) for the cell times a stride.

    Both use :func:`place` names. ``columns`` are the columns that Spark can hash.
    """
    named = attributes(spec)
    names = spec.wide(alias).names
    terms, copies = [], [0]
    for seed, (dim, size) in enumerate(plan.dims.items()):
        if dim in plan.members[alias]:
            # A random dim has the name of its input. An attribute of other inputs may have the same name.
            if alias in named.get(dim, ()):
                by = as_spark_sql(named[dim][alias], names)
                assert by is not None
            else:  # a random dim of this input: hash all columns of a row
                by = ", ".join([f"{seed}", *(f"`{place(i)}`" for i in columns)])
            terms.append(f"CAST(pmod(xxhash64({by}), {size}) AS INT) * {stride}")
        else:
            copies = [at + y * stride for at in copies for y in range(size)]
        stride *= size
    if len(copies) > 1:
        frame = frame.select("*", F.explode(F.lit(copies)).alias("copy"))
        terms.append("copy")
    return frame, " + ".join(terms) or "0"


def joined_in_cells(
    frames: Mapping[str, Any], spec: MultiSpec, plan: HypercubePlan, out: StructType, rows: Mapping[str, float],
    tasks: int | None = None,
) -> Any:
    """Return the joined frame. If keys alone decide to which task a row goes, ``tasks`` sets the number of tasks."""
    shape = best_shape(spec, {a: Seen(n) for a, n in rows.items()})
    steps = laid_out(spec, shape).steps
    along = _sorted(spec, sorted_along(spec, steps, spec.aliases))
    # Declare the order of the expression that Spark sorts by. Numbers that a cast makes equal may come in any order.
    run = spec.with_orders({a: (Order(along[a][1]),) if a in along else () for a in spec.aliases})
    keys = [] if plan.workers == 1 else _keys(spec, plan)
    together = [{a: node for a, (_, node) in along.items()}, *([] if keys is None else keys)]
    types = {a: [f.dataType for f in frame.schema] for a, frame in frames.items()}
    slots, places, by = laid_together(
        list(types.values()), [[_column(spec, a, nodes.get(a)) for a in spec.aliases] for nodes in together]
    )
    order, *hashed = [f"b{i}" if slot is None else f"s{slot}" for i, slot in enumerate(by)]
    needed = _needed(spec, steps)
    tagged = []
    for side, (a, frame) in enumerate(frames.items()):
        names = spec.wide(a).names
        given = in_places(frame)
        columns = filled(slots, places[side])
        if needed[a]:
            given = given.where(" AND ".join(f"({text})" for text in needed[a]))
        for i, (nodes, slot) in enumerate(zip(together, by, strict=True)):
            if nodes and slot is None:
                null = f"CAST(NULL AS {type_name(next(iter(nodes.values())).type)})"
                columns[f"b{i}"] = as_spark_sql(nodes[a], names) if a in nodes else null
        if keys is None:
            given, cell = in_cells(given, spec, plan, a, hashable(frame.schema), len(frames))
            columns["tag"] = f"{cell} + {side}"
        else:
            columns["tag"] = f"CAST({side} AS TINYINT)"
        tagged.append(selected(given, **columns))
    all_of = union(tagged)
    if plan.workers == 1:
        spread = all_of.coalesce(1)
    elif keys is None:
        cell = F.expr(f"CAST(tag DIV {len(frames)} AS INT) + 1")
        spread = all_of.repartition(plan.workers, F.element_at(F.lit(list(bucket_labels(plan.workers))), cell))
    else:
        spread = all_of.repartition(*([] if tasks is None else [tasks]), *hashed)
    # Do not sort by cell first, though a task may have several. Spark sorts by one number ten times as fast as by two.
    if along:
        spread = spread.sortWithinPartitions(order)
    payload = [name for name in columns if name == "tag" or name.startswith("s")]
    if len(payload) < len(columns):
        spread = spread.selectExpr(*payload)
    places = [[payload.index(f"s{slot}") for slot in own] for own in places]
    return spread.mapInArrow(_joiner(run, shape, places, payload.index("tag"), keys is None), out)


def _needed(spec: MultiSpec, steps: Sequence[Step]) -> dict[str, list[str]]:
    """Return, for each input, Spark SQL conditions that are TRUE for each row that can be in a result.

    These are the conjuncts on that input alone, and that the expressions of keys and bands are not null.
    """
    out: dict[str, dict[str, None]] = {a: {} for a in spec.aliases}
    owner = {f.name: a for a in spec.aliases for f in spec.wide(a)}

    def needs(node: Node, sql: Callable[[Node, Sequence[str]], str | None], rest: str) -> None:
        own = {owner[c.params[1]] for c in columns_of(node)}
        if len(own) == 1:
            a = own.pop()
            text = sql(node, spec.wide(a).names)
            if text is not None:
                out[a][text + rest] = None

    for step in steps:
        plan = plan_of(step.spec)
        compared = [n for k in plan.separation.keys if not k.null_safe for n in (k.left, k.right)]
        for node in (*compared, *(n for t in plan.kernel_terms for n in (t.left, t.right))):
            needs(wide(node), as_spark_sql, " IS NOT NULL")
    for part in spec.parts:
        needs(part.node, condition_sql, "")
    return {a: list(texts) for a, texts in out.items()}


def _sorted(spec: MultiSpec, along: Mapping[str, tuple[Node, Node]]) -> dict[str, tuple[Node, Node]]:
    return {a: ends for a, ends in along.items() if as_spark_sql(ends[1], spec.wide(a).names) is not None}


def _keys(spec: MultiSpec, plan: HypercubePlan) -> list[dict[str, Node]] | None:
    """Return the attributes of the cells, by input; None unless every input has them all, so that no row is copied."""
    named = attributes(spec)
    if not plan.dims or not all(dim in named and set(named[dim]) == set(spec.aliases) for dim in plan.dims):
        return None
    return [named[dim] for dim in plan.dims]


def _column(spec: MultiSpec, alias: str, node: Node | None) -> int | None:
    return spec.wide(alias).names.index(node.params[1]) if node is not None and node.op == "column" else None


def _joiner(spec: MultiSpec, shape: Any, places: list[list[int]], tag: int, celled: bool) -> MapStage:
    """Return the function of a task. It reads rows in order; their column ``tag`` gives the input and the cell.

    ``places`` are the positions of the columns of each input.
    """

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, MultiJoin] = {}

        def of_cell(cell: int) -> MultiJoin:
            if cell not in found:
                found[cell] = MultiJoin.from_spec(spec, shape)
            return found[cell]

        for batch in gathered(batches):
            tags = np.asarray(batch.column(tag))
            for cell in np.unique(tags // len(places)).tolist() if celled else (0,):
                yield from _pushed(of_cell(cell), batch, tags - cell * len(places), places)
        for op in found.values():
            yield from op.finish()

    return join


def _pushed(
    op: MultiJoin, batch: pa.RecordBatch, tags: np.ndarray, places: list[list[int]]
) -> Iterator[pa.RecordBatch]:
    for side, alias in enumerate(op.aliases):
        index = np.flatnonzero(tags == side)
        if len(index):
            yield from op.push(alias, rows_of(batch, index, places[side], op.spec.schemas[alias]))
