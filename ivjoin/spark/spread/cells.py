"""Join many static frames: send each row to the cells of a hypercube where it may match, and join within each cell.

::

    q -- cells -- pack (mapInArrow) --+
    t -- cells -- pack (mapInArrow) --+-- union -- repartition(label) -- mapInArrow(join)
    n -- cells -- pack (mapInArrow) --+

A row has a coordinate in each dim that its input is a member of, and is copied along the others. Rows that match agree
in every dim, so they are in the same cell, and each result is emitted once. Coordinates are hashes of an attribute or
of the whole row. A repeated task therefore sends the same rows to the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.multi.spec import MultiSpec
from ivjoin.multi.spread import attributes
from ivjoin.routing import HypercubePlan
from ivjoin.spark.rows.arrow import as_spark_sql, hashable, in_places, place, union
from ivjoin.spark.rows.pack import PACKED_SCHEMA, Way, hashed_matches, packer, parts
from ivjoin.spark.spread.buckets import bucket_labels
from ivjoin.stream.many import tables_joined

__all__ = ["in_cells", "joined_in_cells", "packed_for_cells"]


def in_cells(frame: Any, spec: MultiSpec, plan: HypercubePlan, alias: str, columns: list[int]) -> tuple[Any, str]:
    """Copy each row of an input to its cells. Return the frame, and Spark SQL (int) for the cell.

    Both use :func:`place` names. ``columns`` are the columns that Spark can hash.
    """
    named = attributes(spec)
    names = spec.wide(alias).names
    terms, copies, stride = [], [0], 1
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


def packed_for_cells(frames: Mapping[str, Any], spec: MultiSpec, plan: HypercubePlan, ticks: bool) -> Any:
    """Return the rows of all inputs, packed for the labels of their cells."""
    labels = bucket_labels(plan.workers)
    packed = []
    for side, (alias, frame) in enumerate(frames.items()):
        rows, cell = in_cells(in_places(frame), spec, plan, alias, hashable(frame.schema))
        route = None if ticks else partial(_matches, spec, alias, len(labels))
        pack = packer(spec.inputs[alias], 0, labels, tag=side, route=route, ticks=ticks)
        names = [place(i) for i in range(len(frame.schema))]
        packed.append(rows.selectExpr(f"{cell} AS bucket", *names).mapInArrow(pack, PACKED_SCHEMA))
    return union(packed)


def _matches(spec: MultiSpec, alias: str, count: int, side: int) -> Way | None:
    """Return a function that drops rows that the condition on their own input excludes. ``side`` is always left."""
    filters = [p.node for p in spec.parts if p.aliases == {alias}]
    keys = [by[alias] for by in attributes(spec).values() if alias in by]
    return hashed_matches(filters, keys, count)


def joined_in_cells(
    frames: Mapping[str, Any], spec: MultiSpec, plan: HypercubePlan, out: StructType, fixed: bool
) -> Any:
    """Return the joined frame. Unless ``fixed``, Spark may merge tasks with few rows."""
    rows = packed_for_cells(frames, spec, plan, ticks=False)
    if plan.workers == 1:
        rows = rows.coalesce(1)
    else:
        rows = rows.repartition(*([plan.workers] if fixed else []), "label").sortWithinPartitions("label")
    # without copies, the rows of several cells may be joined at once
    apart = any(len(plan.members[a]) < len(plan.dims) for a in spec.aliases)

    run = spec.with_orders(dict.fromkeys(spec.aliases, ()))

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for tables in parts(batches, list(run.schemas.values()), 1 if apart else None):
            yield from tables_joined(run, dict(zip(run.aliases, tables, strict=True)))

    return rows.mapInArrow(join, out)
