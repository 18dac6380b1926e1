"""A join of many static frames that are files on this machine: each task reads all, and joins the rows of its cell.

As :mod:`ivjoin.spark.direct` for two. A row's coordinates are hashes of attributes, or its number among the rows of its
input: tasks read the same files in the same order, so they agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.multi.question import MultiSpec
from ivjoin.multi.spread import attributes
from ivjoin.routing import HypercubePlan
from ivjoin.routing.hashing import hash_of_keys
from ivjoin.spark.localfiles import READERS, LocalFiles, files_here
from ivjoin.spark.pack import MapStage
from ivjoin.stream.many import stream_of_tables

__all__ = ["all_files_here", "joined_from_files"]


def all_files_here(frames: Mapping[str, Any], spec: MultiSpec, workers: int | None) -> dict[str, LocalFiles] | None:
    """The files of all inputs; None where Spark has to read one, or more tasks are asked for than read all of them."""
    if workers is not None and workers > READERS:
        return None
    out = {}
    for alias, frame in frames.items():
        found = files_here(frame, spec.schemas[alias])
        if found is None:
            return None
        out[alias] = found
    return out


def joined_from_files(
    spark: Any, files: Mapping[str, LocalFiles], spec: MultiSpec, plan: HypercubePlan, out: StructType
) -> Any:
    """The joined frame."""
    run = spec.with_orders(dict.fromkeys(spec.aliases, ()))
    return spark.range(0, plan.workers, 1, plan.workers).mapInArrow(_joiner(run, dict(files), plan), out)


def _joiner(spec: MultiSpec, files: dict[str, LocalFiles], plan: HypercubePlan) -> MapStage:
    """The function of a task: the number of a cell in, joined rows out."""

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for cell in (n for batch in batches for n in batch.column(0).to_pylist()):
            yield from stream_of_tables(spec, {a: _kept(spec, plan, a, files[a], cell) for a in spec.aliases})

    return join


def _kept(spec: MultiSpec, plan: HypercubePlan, alias: str, files: LocalFiles, cell: int) -> pa.Table:
    """The rows of an input that are for a cell."""
    schema, kept, before, named = spec.schemas[alias], [], 0, attributes(spec)
    for batch in files.batches(schema):
        here = _is_of(named, plan, alias, batch, before, cell)
        before += batch.num_rows
        kept.append(batch if here is None or here.all() else batch.take(pa.array(np.flatnonzero(here))))
    return pa.Table.from_batches(kept, schema)


def _is_of(
    named: Mapping[str, Mapping[str, Node]], plan: HypercubePlan, alias: str, batch: pa.RecordBatch, before: int,
    cell: int,
) -> np.ndarray | None:
    """Which rows are for a cell : bool[n]; None for all. ``before`` rows of the input came before."""
    n, here = batch.num_rows, None
    for dim, size in plan.dims.items():
        cell, at = divmod(cell, size)
        if dim not in plan.members[alias]:
            continue  # copied along this one
        if alias in named.get(dim, ()):
            node = named[dim][alias]
            found = evaluate([node], lambda _, name: batch.column(name.removeprefix(f"{alias}_")), n)
            place = hash_of_keys([node], found, n) % np.uint64(size)
        else:
            place = (before + np.arange(n)) % size
        one = place == at
        here = one if here is None else here & one
    return here
