"""Number the buckets of a stream, the groups of its stateful operator, and the cells within a task.

Spark hashes a group's label again to choose its state partition. Labels are chosen so that B buckets on B state
partitions have one partition each. They depend only on B, and the first label is always 0. The first bucket therefore
always finds a checkpoint that was made with another number of buckets.

If rows are copied to several cells, the cell is an additional key, and a flag of each row states whether the task owns
it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.errors import IvjoinError
from ivjoin.plan.spec import JoinSpec

__all__ = [
    "bucket_labels", "cell_spec", "checked_count", "count_in_task", "murmur3_of_int", "only_owned",
    "second_key", "state_partition", "state_partitions", "stream_count", "with_cells",
]  # fmt: skip

# A stream has a bucket for each state partition, up to a limit. Spark's default number of partitions is not the user's
# choice, and too large for a small machine. A checkpoint retains the number, so it depends on nothing that may
# change between two runs of a query, such as the number of cores.
_NOT_CHOSEN, _THEN, _MOST_BY_DEFAULT = 200, 16, 512
# State partitions of a query, as tasks see them: since Spark 4.1, and before.
_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions", "spark.sql.shuffle.partitions"
_MASK = 0xFFFFFFFF
_MOST_CHOSEN = 512  # labels that are searched for; more take long to find, and are spread evenly without a search


def _rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (32 - bits))) & _MASK


def murmur3_of_int(value: int, seed: int = 42) -> int:
    """Return Spark's ``hash(value)`` of an int: MurmurHash3 x86 32 of its four bytes, as a signed int32.

    Source: Austin Appleby's MurmurHash3 (public domain).
    """
    k = _rotated((value & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    h = (_rotated(seed & _MASK ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def second_key(label: int) -> int:
    """Return the int that does not change a label's hash when Spark hashes it together with the label.

    Spark's hash ignores nulls, and MurmurHash3 of four bytes is a bijection for each seed, inverted here.
    """
    h = seed = murmur3_of_int(label) & _MASK
    h = (h ^ h >> 16) * _inverse(0xC2B2AE35) & _MASK
    h = (h ^ h >> 13 ^ h >> 26) * _inverse(0x85EBCA6B) & _MASK
    h ^= h >> 16 ^ 4
    k = seed ^ _rotated((h - 0xE6546B64) * _inverse(5) & _MASK, 19)
    value = _rotated(k * _inverse(0x1B873593) & _MASK, 17) * _inverse(0xCC9E2D51) & _MASK
    return value - (1 << 32) if value >> 31 else value


def _inverse(odd: int) -> int:
    return pow(odd, -1, 1 << 32)


def state_partition(label: int, partitions: int) -> int:
    """Return the partition in which Spark stores the state of the group with this label."""
    return murmur3_of_int(label) % partitions


@lru_cache(maxsize=64)
def bucket_labels(count: int) -> tuple[int, ...]:
    """Return the labels of ``count`` buckets. With ``count`` state partitions, each one has a bucket."""
    if count > _MOST_CHOSEN:
        return tuple(range(count))
    labels, taken, candidate = [0], {state_partition(0, count)}, 1
    while len(labels) < count:
        place = state_partition(candidate, count)
        if place not in taken:
            labels.append(candidate)
            taken.add(place)
        candidate += 1
    return tuple(labels)


def stream_count(buckets: object, partitions: int) -> int:
    return checked_count(buckets, _THEN if partitions == _NOT_CHOSEN else min(partitions, _MOST_BY_DEFAULT))


def state_partitions(partitions: int, cores: int) -> int:
    """Return the number of state partitions of a new query in a sink if ``buckets`` is not set: four for each core."""
    most = max(_THEN, min(4 * cores, _MOST_BY_DEFAULT))
    return min(most if partitions == _NOT_CHOSEN else partitions, most if most != _NOT_CHOSEN else most - 1)


def count_in_task(buckets: int | None) -> int:
    """Return the number of buckets of a stream, in a task of its query.

    Without ``buckets``, the number of state partitions limits it. Spark stores that number in the checkpoint and sets
    it in tasks, even if the session has another value when the query starts again.
    """
    if buckets is not None:
        return buckets
    from pyspark import TaskContext

    context = TaskContext.get()
    said = [] if context is None else [context.getLocalProperty(name) for name in _PARTITIONS]
    return stream_count(None, int(next(filter(None, said), _NOT_CHOSEN)))


def checked_count(buckets: object, default: int) -> int:
    """Return the number of buckets for the value of the option; the default for None."""
    if buckets is None:
        return default
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= 100_000:
        raise IvjoinError(f"buckets is {buckets!r}; expected a whole number from 1 to 100000, or None for the default")
    return buckets


_CELL, _OWNED_LEFT, _OWNED_RIGHT = "ivjoin cell", "ivjoin owned left", "ivjoin owned right"


def cell_spec(spec: JoinSpec) -> JoinSpec:
    left, right = (
        schema.append(pa.field(_CELL, pa.int64())).append(pa.field(owned, pa.bool_()))
        for schema, owned in zip(spec.schemas, (_OWNED_LEFT, _OWNED_RIGHT), strict=True)
    )
    return replace(spec, schemas=(left, right), on=(*spec.on, (_CELL, _CELL)))


def with_cells(batch: pa.RecordBatch, rows: np.ndarray, cells: np.ndarray, owned: np.ndarray) -> pa.RecordBatch:
    """Return one row for each copy, with its cell and whether it is owned, as :func:`cell_spec` expects."""
    same = len(rows) == batch.num_rows and np.array_equal(rows, np.arange(len(rows)))
    copies = batch if same else batch.take(pa.array(rows))
    schema = pa.schema([*copies.schema, pa.field("cell", pa.int64()), pa.field("owned", pa.bool_())])
    return pa.RecordBatch.from_arrays([*copies.columns, pa.array(cells), pa.array(owned)], schema=schema)


def only_owned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the owned rows among joined rows of :func:`cell_spec`. A pair is owned if its left copy is owned."""
    names = batch.schema.names
    marks = [batch.column(names.index(name)) for name in (_OWNED_LEFT, _OWNED_RIGHT) if name in names]
    keep = pc.coalesce(*marks)
    rest = [i for i, name in enumerate(names) if name not in (_CELL, _OWNED_LEFT, _OWNED_RIGHT)]
    kept = pa.RecordBatch.from_arrays([batch.column(i) for i in rest], schema=schema)
    return kept if pc.all(keep).as_py() is not False else kept.filter(keep)
