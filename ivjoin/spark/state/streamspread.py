"""Spread the rows of a join of streams over its buckets by more than a hash of their keys.

A plan (``replanning``) cuts joins without a key, and keys that the caller declares as hot, into slices along the band.
With ``routing_dir``, plans follow the stream. Without it, the first plan never changes. Inside a bucket, the slice is
an additional key of the join. The rows of all other keys share a separate slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from ivjoin.errors import IvjoinError, came
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.routing.endless import endless_plans
from ivjoin.routing.rows.reader import Reader
from ivjoin.spark.rows.arrow import key_sql
from ivjoin.spark.spread.buckets import cell_spec, only_owned
from ivjoin.spark.spread.replanning import StreamPlans, checked_folder, live_plans
from ivjoin.spark.spread.spec import spelling_digest
from ivjoin.spark.state.bucket import Keep

__all__ = ["UNSPREAD", "StreamSpread", "stream_spread"]

HotKey = tuple[object, ...]


@dataclass(frozen=True)
class StreamSpread:
    """The decision about the buckets of a join. By default, they hash the keys."""

    hot: tuple[HotKey, ...] = ()  # keys that are divided by slices; without a key in the join, all rows are
    why: str = ""  # the reason in words, if the join has no plans
    plans: StreamPlans | None = None
    hot_names: tuple[str, ...] = ()  # the left columns of the values of a hot key

    @property
    def adaptive(self) -> StreamPlans | None:
        """Return the plans if they follow the stream; None if they never change."""
        return None if self.plans is None or self.plans.folder is None else self.plans

    def used(self, spec: JoinSpec, buckets: int) -> int:
        """Return how many of the buckets receive rows; one if the rows cannot be divided."""
        return buckets if self.plans or key_sql(plan_of(spec)) else 1

    @property
    def identity(self) -> dict[str, str]:
        """Return, in words, the settings that must not change if the query continues from its checkpoint."""
        if self.plans is None:
            return {}
        hot = ", ".join(sorted(repr(dict(sorted(zip(self.hot_names, key, strict=True)))) for key in self.hot))
        if self.adaptive is None:
            return {"routing": f"{self.plans} by a plan" + (f", of the keys {hot}" if hot else "")}
        how = "plans of routing_dir" + (f", hot from the beginning {hot}" if hot else "")
        return {"routing": how, "spelling of keys, condition and columns": spelling_digest(self.plans.spec)}

    def run(self, spec: JoinSpec) -> JoinSpec:
        return cell_spec(spec) if self.plans else spec

    def owner(self, spec: JoinSpec) -> Keep | None:
        """Return a function that drops the joined rows that a bucket does not own; None if it owns all rows."""
        return partial(only_owned, schema=plan_of(spec).schema) if self.plans else None


UNSPREAD = StreamSpread()


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
        return StreamSpread(hot, "routing is 'hash'")
    if buckets == 1:
        return StreamSpread(hot, "there is one bucket")
    if spec.aggregates:
        return StreamSpread(hot, "a left row meets its partners in one bucket, for its aggregates")
    by_keys = folder is not None or bool(keys)
    begin = endless_plans(plan, by_keys=by_keys)
    if isinstance(begin, str):
        return StreamSpread(hot, begin)
    pinned = tuple(sorted(set(_hashes(begin.reader, hot))))
    plans = StreamPlans(spec, folder, buckets, pinned, by_keys)
    if folder is not None:
        live_plans(plans)  # raises an error if the existing files belong to another join
    return StreamSpread(hot, "", plans, tuple(a for a, _ in spec.on) if hot else ())


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
            "expected hot_keys together with on=..., which must name all keys"
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
