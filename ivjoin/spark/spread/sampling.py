"""Estimate the sizes of static frames, and draw uniformly random rows of the columns that a join compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from ivjoin.expr.nodes import columns_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import hashable, in_places, place
from ivjoin.spark.rows.pack import fitted
from ivjoin.spark.rows.slots import filled, selected, share_slots, union
from ivjoin.spark.runtime.catalyst import walk
from ivjoin.spark.runtime.environment import is_connect

__all__ = [
    "SMALL", "KeyHash", "Sampled", "are_small", "estimated_bytes", "hash_of_row", "key_hash_name", "looked_at",
    "looked_schema", "samples", "sound_bytes",
]  # fmt: skip

# Average bytes of an input that one task can read and join in less time than a shuffle of them takes.
SMALL = 2 << 20

# Operators whose output is at most as large as Spark estimates from their inputs; a filter counts as all of its rows.
# Others are left out: Python functions may be expensive, and generators and joins may return any number of rows.
_KNOWN = frozenset({
    "Aggregate", "Distinct", "Filter", "GlobalLimit", "InMemoryRelation", "LocalLimit", "LocalRelation",
    "LogicalRelation", "OneRowRelation", "Project", "Range", "Sort", "SubqueryAlias", "Union",
})  # fmt: skip
_FILES = 64  # the most files that one task may read, one after the other


def estimated_bytes(frame: Any) -> float | None:
    """Return Spark's estimate; None over Connect, or if the optimizer raises an error (the query then reports it)."""
    plan = _optimized(frame)
    return None if plan is None else float(str(plan.stats().sizeInBytes()))


def sound_bytes(frame: Any) -> float | None:
    """Return an estimate from the sizes of files or local rows; None if an operator could return many more rows."""
    plan = _optimized(frame)
    if plan is None or not all(str(node.nodeName()) in _KNOWN for node in walk(plan)):
        return None
    return float(str(plan.stats().sizeInBytes()))


def are_small(frames: Sequence[Any], sizes: Sequence[float | None], most: float = SMALL) -> bool:
    """Return whether one task reads and joins the frames as fast as many tasks do.

    ``sizes`` are the :func:`sound_bytes` of the frames, and ``most`` is the limit of their average.
    """
    if None in sizes or sum(size or 0 for size in sizes) > most * len(sizes):
        return False
    return sum(len(frame._jdf.inputFiles()) for frame in frames) <= _FILES


def _optimized(frame: Any) -> Any:
    if is_connect(frame):
        return None
    try:
        return frame._jdf.queryExecution().optimizedPlan()
    except PySparkException:
        return None


SAMPLE_ROWS = 8_192  # of each side
_FEWEST = 4_096  # rows in a sample from a share of the rows, so that it gives a good estimate of their number
# Rows of a share from one of Spark's partitions. Files may contain far more rows than their size suggests.
_MOST = 16 * SAMPLE_ROWS
_SEED = 20_190_326
_ROW_HASH, _KEY_HASH = "ivjoin row hash", "ivjoin key hash"
#: The rows of a sample, and the number of rows in the frame.
Sampled = tuple[pa.RecordBatch, int]
#: SQL for a hash of the keys of each side; None if Spark hashes no keys.
KeyHash = tuple[str, str] | None


def samples(
    frames: Sequence[Any], spec: JoinSpec, sizes: Sequence[float | None], key_hash: KeyHash = None
) -> list[Sampled]:
    """Return samples of both frames, with the schemas of :func:`looked_schema`.

    If ``sizes``, sound estimates of the frames' bytes, are known, one job reads both frames. Otherwise one pass for
    each frame counts its rows and sorts them at random. If the first frame has no rows, the second is not read.
    """
    columns = [looked_at(spec, s) for s in (0, 1)]
    if None not in sizes:
        found = _in_one_pass(frames, spec, columns, [float(size or 0) for size in sizes], key_hash)
        if found is not None:
            return found
    out: list[Sampled] = []
    for side, frame in enumerate(frames):
        hashed = None if key_hash is None else key_hash[side]
        out.append(_counted(frame, looked_schema(spec, side, hashed is not None), columns[side], hashed))
        if not out[-1][1]:
            break
    return out


def looked_at(spec: JoinSpec, side: int) -> list[int]:
    """Return the positions of a side's columns that the keys or the condition use."""
    names = {pair[side] for pair in spec.on}
    if spec.condition is not None:
        names |= {c.params[1] for c in columns_of(spec.condition) if c.params[0] == SIDES[side]}
    return [i for i, name in enumerate(spec.schemas[side].names) if name in names]


def looked_schema(spec: JoinSpec, side: int, keyed: bool) -> pa.Schema:
    """Return the sample's schema: columns of :func:`looked_at`, the row's hash and, with ``keyed``, its keys' hash."""
    schema = spec.schemas[side]
    hashes = [_free(_ROW_HASH, schema.names), *([key_hash_name(spec)] if keyed else [])]
    return pa.schema([*(schema.field(i) for i in looked_at(spec, side)), *(pa.field(h, pa.int64()) for h in hashes)])


def key_hash_name(spec: JoinSpec) -> str:
    return _free(_KEY_HASH, [name for schema in spec.schemas for name in schema.names])


def _free(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name


def hash_of_row(frame: Any) -> str:
    """Return SQL over :func:`place` names for a hash of a row, from all columns of a frame that Spark can hash."""
    hashed = [place(i) for i in hashable(frame.schema)]
    return f"xxhash64({', '.join(hashed)})" if hashed else "CAST(0 AS BIGINT)"


def _counted(frame: Any, schema: pa.Schema, columns: Sequence[int], key_hash: str | None) -> Sampled:
    rows = in_places(frame)
    seen = Observation()
    hashes = {"h": hash_of_row(frame)} | ({} if key_hash is None else {"kh": key_hash})
    hashed = [F.expr(sql).alias(name) for name, sql in hashes.items()]
    some = rows.select(*[place(i) for i in columns], *hashed, F.rand(_SEED).alias("draw"))
    some = some.observe(seen, F.count(F.lit(1)).alias("rows")).orderBy("draw").limit(SAMPLE_ROWS).drop("draw")
    batch = _whole(some.toArrow(), schema)
    return batch, max(int(seen.get["rows"]), batch.num_rows)


def _in_one_pass(
    frames: Sequence[Any], spec: JoinSpec, columns: Sequence[list[int]], sizes: Sequence[float], key_hash: KeyHash
) -> list[Sampled] | None:
    """Draw a share of the rows of each frame in one job; None if a share has far too few or too many rows."""
    types = [[frame.schema[i].dataType for i in own] for frame, own in zip(frames, columns, strict=True)]
    slots, *places = share_slots(types[0], types[1])
    shares, tagged = [], []
    for side, (frame, own) in enumerate(zip(frames, columns, strict=True)):
        rows_guessed = sizes[side] / (8 * max(1, len(frame.columns)))
        share = min(1.0, 2 * SAMPLE_ROWS / max(rows_guessed, 1.0))
        rows = in_places(frame)
        hashes = {"h": hash_of_row(frame)} | ({} if key_hash is None else {"kh": key_hash[side]})
        rows = rows if share == 1.0 else rows.where(f"rand({_SEED}) < {share!r}D")
        rows = rows.where(f"(monotonically_increasing_id() & {(1 << 33) - 1}L) < {_MOST}")
        of_side = filled(slots, places[side], own)
        tagged.append(selected(rows, side=f"CAST({side} AS TINYINT)", **hashes, **of_side))
        shares.append(share)
    table = union(tagged).toArrow()
    at_hashes = [1] if key_hash is None else [1, 2]
    tags = np.asarray(table.column(0))
    out: list[Sampled] = []
    for side, share in enumerate(shares):
        at = np.flatnonzero(tags == side)
        if len(at) >= _MOST or (share < 1.0 and len(at) < _FEWEST):
            return None
        count = round(len(at) / share)
        if len(at) > SAMPLE_ROWS:
            at = np.sort(np.random.default_rng(_SEED).choice(at, SAMPLE_ROWS, replace=False))
        own_rows = table.select([*(1 + len(at_hashes) + slot for slot in places[side]), *at_hashes]).take(pa.array(at))
        out.append((_whole(own_rows, looked_schema(spec, side, key_hash is not None)), count))
    return out


def _whole(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return fitted(batches[0], schema) if batches else pa.RecordBatch.from_pylist([], schema)
