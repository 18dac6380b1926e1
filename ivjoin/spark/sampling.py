"""Samples of static frames: the columns that a join compares, of rows drawn evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, VariantType

from ivjoin.expr.nodes import columns_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.columns import place
from ivjoin.spark.pack import fitted
from ivjoin.spark.slots import null_of, selected, share_slots

__all__ = ["Sampled", "hash_of_row", "looked_at", "looked_schema", "samples"]

SAMPLE_ROWS = 8_192  # a side
_FEWEST = 4_096  # of a share of the rows, for the share to tell how many there are
# Of a share, from one of Spark's partitions: files may hold far more rows than their bytes say.
_MOST = 16 * SAMPLE_ROWS
_SEED = 20_190_326
_ROW_HASH = "ivjoin row hash"
#: A few rows, and how many there are.
Sampled = tuple[pa.RecordBatch, int]


def samples(frames: Sequence[Any], spec: JoinSpec, sizes: Sequence[float | None]) -> list[Sampled]:
    """Of both frames; ``sizes`` are sound estimates of their bytes, with which both are read by one job.

    Without them a pass counts the rows of a frame and sorts them by chance; the second frame is not read where the
    first has no rows, and has no sample then.
    """
    columns = [looked_at(spec, s) for s in (0, 1)]
    if None not in sizes:
        found = _in_one_pass(frames, spec, columns, [float(size or 0) for size in sizes])
        if found is not None:
            return found
    out: list[Sampled] = []
    for frame, schema, own in zip(frames, spec.schemas, columns, strict=True):
        out.append(_counted(frame, schema, own))
        if not out[-1][1]:
            break
    return out


def looked_at(spec: JoinSpec, side: int) -> list[int]:
    """The places of the columns of a side that decide what its rows meet."""
    names = {pair[side] for pair in spec.on}
    if spec.condition is not None:
        names |= {c.params[1] for c in columns_of(spec.condition) if c.params[0] == SIDES[side]}
    return [i for i, name in enumerate(spec.schemas[side].names) if name in names]


def looked_schema(schema: pa.Schema, columns: Sequence[int]) -> pa.Schema:
    """These columns, and a row's hash."""
    return pa.schema([*(schema.field(i) for i in columns), pa.field(_free(schema.names), pa.int64())])


def _free(names: Sequence[str]) -> str:
    name = _ROW_HASH
    while name in names:
        name += "_"
    return name


def hash_of_row(frame: Any) -> str:
    """What tells rows apart, by all of a frame's columns that Spark hashes, as SQL over :func:`place` names."""
    hashed = [place(i) for i, field in enumerate(frame.schema) if _is_hashed(field.dataType)]
    return f"xxhash64({', '.join(hashed)})" if hashed else "CAST(0 AS BIGINT)"


def _is_hashed(kind: Any) -> bool:
    inside = [getattr(kind, name) for name in ("elementType",) if hasattr(kind, name)]
    inside += [f.dataType for f in getattr(kind, "fields", [])]
    return not isinstance(kind, (MapType, VariantType)) and all(map(_is_hashed, inside))


def _counted(frame: Any, schema: pa.Schema, columns: Sequence[int]) -> Sampled:
    """Rows drawn evenly from a frame, in one pass that counts them, too."""
    rows = frame.toDF(*[place(i) for i in range(len(schema))])
    seen = Observation()
    some = rows.select(*[place(i) for i in columns], F.expr(hash_of_row(rows)).alias("h"), F.rand(_SEED).alias("draw"))
    some = some.observe(seen, F.count(F.lit(1)).alias("rows")).orderBy("draw").limit(SAMPLE_ROWS).drop("draw")
    batch = _whole(some.toArrow(), looked_schema(schema, columns))
    return batch, max(int(seen.get["rows"]), batch.num_rows)


def _in_one_pass(
    frames: Sequence[Any], spec: JoinSpec, columns: Sequence[list[int]], sizes: Sequence[float]
) -> list[Sampled] | None:
    """A share of the rows of each frame, by one job; None if it was far too small or too large."""
    types = [[frame.schema[i].dataType for i in own] for frame, own in zip(frames, columns, strict=True)]
    slots, *places = share_slots(types[0], types[1])
    shares, tagged = [], []
    for side, (frame, own) in enumerate(zip(frames, columns, strict=True)):
        rows_guessed = sizes[side] / (8 * max(1, len(frame.columns)))
        share = min(1.0, 2 * SAMPLE_ROWS / max(rows_guessed, 1.0))
        rows = frame.toDF(*[place(i) for i in range(len(spec.schemas[side]))])
        where = {slot: place(own[i]) for i, slot in enumerate(places[side])}
        filled = {f"s{i}": where[i] if i in where else null_of(t) for i, t in enumerate(slots)}
        h = hash_of_row(rows)
        rows = rows if share == 1.0 else rows.where(f"rand({_SEED}) < {share!r}D")
        rows = rows.where(f"(monotonically_increasing_id() & {(1 << 33) - 1}L) < {_MOST}")
        tagged.append(selected(rows, side=f"CAST({side} AS TINYINT)", h=h, **filled))
        shares.append(share)
    table = tagged[0].union(tagged[1]).toArrow()
    tags = np.asarray(table.column(0))
    out: list[Sampled] = []
    for side, share in enumerate(shares):
        at = np.flatnonzero(tags == side)
        if len(at) >= _MOST or (share < 1.0 and len(at) < _FEWEST):
            return None
        count = round(len(at) / share)
        if len(at) > SAMPLE_ROWS:
            at = np.sort(np.random.default_rng(_SEED).choice(at, SAMPLE_ROWS, replace=False))
        own_rows = table.select([*(2 + slot for slot in places[side]), 1]).take(pa.array(at))
        out.append((_whole(own_rows, looked_schema(spec.schemas[side], columns[side])), count))
    return out


def _whole(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return fitted(batches[0], schema) if batches else pa.RecordBatch.from_pylist([], schema)
