"""Spread the rows of a join of streams over its buckets by more than a hash of their keys.

The plan is fixed, or plans adapt to the stream (``replanning``). A fixed plan cuts joins without a key, and keys that
the caller declares as hot, into slices of one width (``ivjoin.routing.periodic``). Inside a bucket, the slice is one
more key of the join. The rows of all other keys share a separate slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import IvjoinError, came
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.routing.endless import endless_plans
from ivjoin.routing.periodic import PeriodicSlices, periodic_slices
from ivjoin.routing.rows.reader import Reader
from ivjoin.spark.rows.arrow import key_sql
from ivjoin.spark.rows.pack import Route
from ivjoin.spark.spread.buckets import cell_spec, only_owned, with_cells
from ivjoin.spark.spread.replanning import Replanning, checked_folder, live_plans
from ivjoin.spark.spread.spec import spelling_digest
from ivjoin.spark.state.bucket import Keep

__all__ = ["IN_SLICES", "UNSPREAD", "StreamSpread", "stream_spread"]

IN_SLICES = 1 << 32  #: marks rows that are divided by slices, in the place of a hash
_NO_SLICE = -(2**63)

HotKey = tuple[object, ...]


@dataclass(frozen=True)
class StreamSpread:
    """The decision about the buckets of a join. By default, they hash the keys."""

    slices: PeriodicSlices | None = None  # of a fixed plan
    hot: tuple[HotKey, ...] = ()  # keys that are divided by slices; without a key in the join, all rows are
    why: str = ""  # the reason in words, if the join has no slices
    plans: Replanning | None = None  # plans that change with the stream, without ``slices``
    hot_names: tuple[str, ...] = ()  # the left columns of the values of a hot key

    @property
    def spreads(self) -> bool:
        return self.slices is not None or self.plans is not None

    def used(self, spec: JoinSpec, buckets: int) -> int:
        """Return how many of the buckets receive rows: one, if nothing divides the rows."""
        return buckets if self.spreads or key_sql(plan_of(spec)) else 1

    @property
    def identity(self) -> dict[str, str]:
        """Return, in words, the settings that must not change if the query continues from its checkpoint."""
        if not self.spreads:
            return {}
        hot = ", ".join(sorted(repr(dict(sorted(zip(self.hot_names, key, strict=True)))) for key in self.hot))
        if self.plans is None:
            return {"routing": str(self.slices) + (f", of the keys {hot}" if hot else "")}
        how = "plans of routing_dir" + (f", hot from the beginning {hot}" if hot else "")
        return {"routing": how, "spelling of keys, condition and columns": spelling_digest(self.plans.spec)}

    def run(self, spec: JoinSpec) -> JoinSpec:
        return cell_spec(spec) if self.spreads else spec

    def owner(self, spec: JoinSpec) -> Keep | None:
        """Return a function that drops the joined rows that a bucket does not own; None if it owns all rows."""
        return partial(only_owned, schema=plan_of(spec).schema) if self.spreads else None

    def in_slices(self, keys: Sequence[tuple[str, str]], side: int, hashed: Any) -> Any:
        """Return the column of hashes, with a mark for rows that are divided by slices."""
        from pyspark.sql import functions as F

        if not self.hot:
            return F.lit(IN_SLICES)
        hot = F.lit(False)
        for key in self.hot:
            same = F.lit(True)
            for pair, value in zip(keys, key, strict=True):
                same = same & F.expr(pair[side]).eqNullSafe(F.lit(value))
            hot = hot | same
        return F.when(hot, F.lit(IN_SLICES)).otherwise(hashed)

    def router(self, buckets: int) -> Route | None:
        if self.plans is not None:
            return self.plans.way
        slices = self.slices
        return None if slices is None else lambda side: partial(_routed, slices, buckets, side)


UNSPREAD = StreamSpread()


def _routed(
    slices: PeriodicSlices, count: int, side: int, batch: pa.RecordBatch, hashes: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return one row for each copy, with its slice and whether it is owned, and the buckets of the copies."""
    hot = np.flatnonzero(hashes == IN_SLICES)
    light = np.flatnonzero(hashes != IN_SLICES)
    part = batch if len(light) == 0 else batch.take(pa.array(hot))
    rows, numbers, owned = slices.copies(side, part)
    rows = np.concatenate([light, hot[rows]])
    cells = np.concatenate([np.full(len(light), _NO_SLICE), numbers])
    marks = np.concatenate([np.ones(len(light), dtype=bool), owned])
    places = np.concatenate([hashes[light], numbers]) % count
    return with_cells(batch, rows, cells, marks), places


def stream_spread(
    spec: JoinSpec, buckets: int | None, routing: str, hot_keys: Sequence[object] | None, routing_dir: object = None
) -> StreamSpread:
    """Decide from the plan of the join alone, because the rows of a stream are not known in advance."""
    plan = plan_of(spec)
    keys = key_sql(plan)
    hot = _hot(spec, len(keys), hot_keys) if hot_keys is not None else ()
    folder = None if routing_dir is None else checked_folder(routing_dir)
    if keys and not hot and folder is None:
        return UNSPREAD
    if routing == "hash":
        return StreamSpread(None, hot, "routing is 'hash'")
    if buckets == 1:
        return StreamSpread(None, hot, "there is one bucket")
    if spec.aggregates:
        return StreamSpread(None, hot, "a left row meets its partners in one bucket, for its aggregates")
    if folder is not None:
        return _replanned(spec, buckets, hot, folder)
    slices = periodic_slices(plan)
    names = tuple(a for a, _ in spec.on) if hot else ()
    return StreamSpread(None, hot, slices) if isinstance(slices, str) else StreamSpread(slices, hot, hot_names=names)


def _replanned(spec: JoinSpec, buckets: int | None, hot: tuple[HotKey, ...], folder: str) -> StreamSpread:
    begin = endless_plans(plan_of(spec))
    if isinstance(begin, str):
        return StreamSpread(None, hot, begin)
    pinned = tuple(sorted(set(_hashes(begin.reader, hot))))
    plans = Replanning(spec, folder, buckets, pinned)
    live_plans(plans)  # raises an error if the existing files belong to another join
    return StreamSpread(None, hot, "", plans, tuple(a for a, _ in spec.on) if hot else ())


def _hashes(reader: Reader, hot: tuple[HotKey, ...]) -> list[int]:
    if not hot:
        return []
    on = {a: i for i, (a, _) in enumerate(reader.plan.spec.on)}
    schema = reader.schemas[0]
    columns = [
        pa.array([key[on[f.name]] if f.name in on else None for key in hot], f.type) for f in schema
    ]
    keys = reader.features(0, pa.RecordBatch.from_arrays(columns, names=schema.names), None, False).key
    return [] if keys is None else keys.tolist()


def _hot(spec: JoinSpec, n_keys: int, given: Sequence[object]) -> tuple[HotKey, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise IvjoinError(f"hot_keys is {came(given)}; expected a list of keys, such as ['a', 'b'] or [('a', 1)]")
    if n_keys == 0 or n_keys != len(spec.on):
        raise IvjoinError(
            f"hot_keys is {came(given)}, but the join has {n_keys} key columns to hash by and on={list(spec.on)}; "
            "expected it with on=..., all keys being given there"
        )
    out: list[HotKey] = []
    types = [spec.schemas[0].field(a).type for a, _ in spec.on]
    for key in given:
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != n_keys:
            raise IvjoinError(f"hot_keys holds {key!r}; expected {n_keys} values, one for each of on={list(spec.on)}")
        for value, kind in zip(parts, types, strict=True):
            try:
                pa.scalar(value, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as e:
                raise IvjoinError(f"hot_keys holds {value!r}, which is no {kind} ({e})") from e
        out.append(tuple(parts))
    return tuple(dict.fromkeys(out))
