"""Estimate the sizes of static frames, and draw uniformly random rows of the columns that a join compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

from ivjoin.expr.nodes import columns_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import hashable, in_places, place
from ivjoin.spark.rows.pack import fitted
from ivjoin.spark.runtime.catalyst import walk
from ivjoin.spark.runtime.environment import is_connect

__all__ = [
    "SMALL", "Sampled", "are_small", "hash_of_row", "looked_at", "looked_schema", "samples", "sound_bytes",
]  # fmt: skip

# Average bytes of an input that one task can read and join in less time than a shuffle takes.
SMALL = 2 << 20

# Operators whose output is at most as large as Spark estimates from their inputs, and cheap.
_KNOWN = frozenset({
    "Aggregate", "Distinct", "Filter", "GlobalLimit", "InMemoryRelation", "LocalLimit", "LocalRelation",
    "LogicalRelation", "OneRowRelation", "Project", "Range", "Sort", "SubqueryAlias", "Union",
})  # fmt: skip
_FILES = 64  # maximum number of files that one task may read, one after the other


def sound_bytes(frame: Any) -> float | None:
    """Return an estimate from the sizes of files or local rows; None if an operator could return many more rows.

    Return None also over Connect, and if the optimizer raises an error. The query then reports the error.
    """
    if is_connect(frame):
        return None
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
    except PySparkException:
        return None
    if not all(str(node.nodeName()) in _KNOWN for node in walk(plan)):
        return None
    return float(str(plan.stats().sizeInBytes()))


def are_small(frames: Sequence[Any], sizes: Sequence[float | None]) -> bool:
    """Return whether one task joins frames of these :func:`sound_bytes` as fast as many tasks do."""
    if None in sizes or sum(size or 0 for size in sizes) > SMALL * len(sizes):
        return False
    return sum(len(frame._jdf.inputFiles()) for frame in frames) <= _FILES


SAMPLE_ROWS = 8_192  # of each side
_SEED = 20_190_326
_ROW_HASH = "ivjoin row hash"
#: The rows of a sample, and the number of rows in the frame.
Sampled = tuple[pa.RecordBatch, int]


def samples(frames: Sequence[Any], spec: JoinSpec) -> list[Sampled]:
    """Return samples of both frames, with the schemas of :func:`looked_schema`.

    Spark reads only the columns that the join compares. Random numbers replace the hashes of the rows. The sample has
    the rows with the least numbers, so the greatest of these numbers gives the number of rows of the frame.
    """
    out: list[Sampled] = []
    for side, frame in enumerate(frames):
        schema = looked_schema(spec, side)
        columns = [place(i) for i in looked_at(spec, side)]
        seed = _SEED * (side + 1)  # equal frames would have the same rows in both samples
        some = in_places(frame).selectExpr(*columns, f"rand({seed}) AS draw").orderBy("draw").limit(SAMPLE_ROWS)
        table = some.toArrow()
        n, draws = table.num_rows, np.asarray(table["draw"])
        hashes = np.random.default_rng(seed).integers(-1 << 63, 1 << 63, n)
        found = table.drop_columns("draw").append_column("h", pa.array(hashes)).combine_chunks().to_batches()
        batch = fitted(found[0], schema) if found else pa.RecordBatch.from_pylist([], schema)
        out.append((batch, n if n < SAMPLE_ROWS else max(n, round(n / draws[-1]))))
        if not n:
            break
    return out


def looked_at(spec: JoinSpec, side: int) -> list[int]:
    """Return the positions of a side's columns that the keys or the condition use."""
    names = {pair[side] for pair in spec.on}
    if spec.condition is not None:
        names |= {c.params[1] for c in columns_of(spec.condition) if c.params[0] == SIDES[side]}
    return [i for i, name in enumerate(spec.schemas[side].names) if name in names]


def looked_schema(spec: JoinSpec, side: int) -> pa.Schema:
    """Return the sample's schema: the columns of :func:`looked_at`, and the hash of a row."""
    schema, name = spec.schemas[side], _ROW_HASH
    while name in schema.names:
        name += "_"
    return pa.schema([*(schema.field(i) for i in looked_at(spec, side)), pa.field(name, pa.int64())])


def hash_of_row(frame: Any) -> str:
    """Return SQL over :func:`place` names for a hash of a row, from all columns of a frame that Spark can hash."""
    hashed = [place(i) for i in hashable(frame.schema)]
    return f"xxhash64({', '.join(hashed)})" if hashed else "CAST(0 AS BIGINT)"
