"""How the rows of a join of streams are spread over its buckets beyond the hash of their keys: by a plan that stays,
or by plans that follow the stream (``replanning``).

Joins without a key, and the keys that a caller names as hot, are cut along the band into slices of one width
(``ivjoin.routing.periodic``); slice n is joined by bucket n modulo their number. The slice is one more key of the join
inside, and rows of all other keys have one slice of their own.
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
from ivjoin.spark.rows.pack import Route, Way
from ivjoin.spark.spread.ownership import cell_spec, only_owned
from ivjoin.spark.spread.planfiles import checked_folder
from ivjoin.spark.spread.replanning import Replanning, live_plans
from ivjoin.spark.state.bucket import Keep

__all__ = ["UNSPREAD", "StreamSpread", "stream_spread"]

_IN_SLICES = -1  # the bucket of rows that go by slices
_NO_SLICE = -(2**63)

HotKey = tuple[object, ...]


@dataclass(frozen=True)
class StreamSpread:
    """What was decided.

    Attributes
    ----------
    slices : PeriodicSlices or None
        None where keys are hashed, and no more.
    hot : tuple of tuple
        The keys that go by slices; all rows do where there is no key.
    why : str
        In words, where there are no slices.
    plans : Replanning or None
        Plans that change; there are no ``slices`` then.
    """

    slices: PeriodicSlices | None = None
    hot: tuple[HotKey, ...] = ()
    why: str = ""
    plans: Replanning | None = None

    @property
    def spreads(self) -> bool:
        """Whether rows go by more than the hash of their keys."""
        return self.slices is not None or self.plans is not None

    def used(self, spec: JoinSpec, buckets: int) -> int:
        """How many of so many buckets rows go to: one where nothing divides them."""
        return buckets if self.spreads or key_sql(plan_of(spec)) else 1

    @property
    def identity(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to go on, in words."""
        hot = ", ".join(sorted(map(repr, self.hot)))
        if self.plans is not None:
            return {"routing": "plans of routing_dir" + (f", hot from the beginning {hot}" if hot else "")}
        if self.slices is None:
            return {}
        return {"routing": str(self.slices) + (f", of the keys {hot}" if hot else "")}

    def run(self, spec: JoinSpec) -> JoinSpec:
        """The join inside a bucket."""
        return cell_spec(spec) if self.spreads else spec

    def owner(self, spec: JoinSpec) -> Keep | None:
        """What leaves only owned rows of what a bucket puts out; None where all are."""
        return partial(only_owned, schema=plan_of(spec).schema) if self.spreads else None

    def in_slices(self, keys: Sequence[tuple[str, str]], side: int, bucket: Any) -> Any:
        """The column of bucket numbers, -1 for rows that go by slices."""
        from pyspark.sql import functions as F

        if not self.hot:
            return F.lit(_IN_SLICES)
        hot = F.lit(False)
        for key in self.hot:
            same = F.lit(True)
            for pair, value in zip(keys, key, strict=True):
                same = same & F.expr(pair[side]).eqNullSafe(F.lit(value))
            hot = hot | same
        return F.when(hot, F.lit(_IN_SLICES)).otherwise(bucket)

    def router(self, buckets: int) -> Route | None:
        if self.plans is not None:
            return self.plans.way
        return None if self.slices is None else partial(_way, self.slices, buckets)


UNSPREAD = StreamSpread()


def _way(slices: PeriodicSlices, count: int, side: int) -> Way:
    return partial(_routed, slices, count, side)


def _routed(
    slices: PeriodicSlices, count: int, side: int, batch: pa.RecordBatch, buckets: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray]:
    """A row for each copy, its slice and whether it is owned; and the copies' buckets."""
    hot = np.flatnonzero(buckets == _IN_SLICES)
    light = np.flatnonzero(buckets != _IN_SLICES)
    part = batch if len(light) == 0 else batch.take(pa.array(hot))
    rows, numbers, owned = slices.copies(side, part)
    rows = np.concatenate([light, hot[rows]])
    cells = np.concatenate([np.full(len(light), _NO_SLICE), numbers])
    marks = np.concatenate([np.ones(len(light), dtype=bool), owned])
    places = np.concatenate([buckets[light], numbers % count])
    taken = batch.take(pa.array(rows))
    schema = pa.schema([*taken.schema, pa.field("cell", pa.int64()), pa.field("owned", pa.bool_())])
    return pa.RecordBatch.from_arrays([*taken.columns, pa.array(cells), pa.array(marks)], schema=schema), places


def stream_spread(
    spec: JoinSpec, buckets: int, routing: str, hot_keys: Sequence[object] | None, routing_dir: object = None
) -> StreamSpread:
    """Decide by the question alone: what a stream will bring is not known.

    Raises
    ------
    IvjoinError
        If a hot key is none that the join could have, or there is no key to be hot.
    """
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
    return StreamSpread(None, hot, slices) if isinstance(slices, str) else StreamSpread(slices, hot)


def _replanned(spec: JoinSpec, buckets: int, hot: tuple[HotKey, ...], folder: str) -> StreamSpread:
    begin = endless_plans(plan_of(spec))
    if isinstance(begin, str):
        return StreamSpread(None, hot, begin)
    pinned = tuple(sorted(set(_hashes(begin.reader, hot))))
    plans = Replanning(spec, folder, buckets, pinned)
    live_plans(plans)  # what is there already has to be this join's
    return StreamSpread(None, hot, "", plans)


def _hashes(reader: Reader, hot: tuple[HotKey, ...]) -> list[int]:
    """Hashes of keys, as routing has them."""
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
