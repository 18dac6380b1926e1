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
from ivjoin.spark.rows.arrow import place
from ivjoin.spark.rows.pack import fitted
from ivjoin.spark.rows.slots import null_of, selected, share_slots

__all__ = [
    "KeyHash", "Sampled", "hash_of_row", "key_hash_name", "looked_at", "looked_schema", "samples",
]

SAMPLE_ROWS = 8_192  # a side
_FEWEST = 4_096  # of a share of the rows, for the share to tell how many there are
# Of a share, from one of Spark's partitions: files may hold far more rows than their bytes say.
_MOST = 16 * SAMPLE_ROWS
_SEED = 20_190_326
_ROW_HASH, _KEY_HASH = "ivjoin row hash", "ivjoin key hash"
#: A few rows, and how many there are.
Sampled = tuple[pa.RecordBatch, int]
#: SQL of each side that tells its keys apart; None where Spark hashes no keys.
KeyHash = tuple[str, str] | None


def samples(
    frames: Sequence[Any], spec: JoinSpec, sizes: Sequence[float | None], key_hash: KeyHash = None
) -> list[Sampled]:
    """Of both frames, of :func:`looked_schema`.

    ``sizes`` are sound estimates of their bytes, with which both are read by one job. Without them a pass counts the
    rows of a frame and sorts them by chance; the second frame is not read where the first has no rows, and has no
    sample then.
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
    """The places of the columns of a side that decide what its rows meet."""
    names = {pair[side] for pair in spec.on}
    if spec.condition is not None:
        names |= {c.params[1] for c in columns_of(spec.condition) if c.params[0] == SIDES[side]}
    return [i for i, name in enumerate(spec.schemas[side].names) if name in names]


def looked_schema(spec: JoinSpec, side: int, keyed: bool) -> pa.Schema:
    """The columns of :func:`looked_at`, a row's hash and, with ``keyed``, that of its keys."""
    schema = spec.schemas[side]
    hashes = [_free(_ROW_HASH, schema.names), *([key_hash_name(spec)] if keyed else [])]
    return pa.schema([*(schema.field(i) for i in looked_at(spec, side)), *(pa.field(h, pa.int64()) for h in hashes)])


def key_hash_name(spec: JoinSpec) -> str:
    """The column of either side that holds the hash of its keys."""
    return _free(_KEY_HASH, [name for schema in spec.schemas for name in schema.names])


def _free(name: str, names: Sequence[str]) -> str:
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


def _counted(frame: Any, schema: pa.Schema, columns: Sequence[int], key_hash: str | None) -> Sampled:
    """Rows drawn evenly from a frame, in one pass that counts them, too."""
    rows = frame.toDF(*[place(i) for i in range(len(frame.columns))])
    seen = Observation()
    hashes = {"h": hash_of_row(rows)} | ({} if key_hash is None else {"kh": key_hash})
    hashed = [F.expr(sql).alias(name) for name, sql in hashes.items()]
    some = rows.select(*[place(i) for i in columns], *hashed, F.rand(_SEED).alias("draw"))
    some = some.observe(seen, F.count(F.lit(1)).alias("rows")).orderBy("draw").limit(SAMPLE_ROWS).drop("draw")
    batch = _whole(some.toArrow(), schema)
    return batch, max(int(seen.get["rows"]), batch.num_rows)


def _in_one_pass(
    frames: Sequence[Any], spec: JoinSpec, columns: Sequence[list[int]], sizes: Sequence[float], key_hash: KeyHash
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
        hashes = {"h": hash_of_row(rows)} | ({} if key_hash is None else {"kh": key_hash[side]})
        rows = rows if share == 1.0 else rows.where(f"rand({_SEED}) < {share!r}D")
        rows = rows.where(f"(monotonically_increasing_id() & {(1 << 33) - 1}L) < {_MOST}")
        tagged.append(selected(rows, side=f"CAST({side} AS TINYINT)", **hashes, **filled))
        shares.append(share)
    table = tagged[0].union(tagged[1]).toArrow()
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
