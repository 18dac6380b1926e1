"""Random picks, aggregates and as-of joins of tables and streams, compared with DuckDB's rows.

``python tests/support/drivers/lookups_in_duckdb.py --seconds 60 --seed 1`` runs as many as fit, and prints the seeds
that differ.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa

import ivjoin
from ivjoin import Order

__all__ = ["KINDS", "compare"]

_FUNCTIONS = {
    "sum(r.v)": "sum(r.v)", "count(*)": "count(r.rid)", "count(r.v)": "count(r.v)", "min(r.v)": "min(r.v)",
    "max(r.s)": "max(r.s)", "mean(r.v)": "avg(r.v)", "median(r.v)": "median(r.v)",
    "quantile(r.v, 0.3)": "quantile_cont(r.v, 0.3)", "count_distinct(r.s)": "count(DISTINCT r.s)",
    "stddev(r.v)": "stddev_samp(r.v)", "var_pop(r.v)": "var_pop(r.v)", "bool_or(r.v > 1)": "bool_or(r.v > 1)",
    "array_agg(r.rid)": "list(r.rid ORDER BY r.u, r.rid) FILTER (r.rid IS NOT NULL)",
    "sum(r.v) FILTER (WHERE r.s = 'a')": "sum(r.v) FILTER (r.s = 'a')",
    "sum(r.v * 2) / count(*) - l.id": "sum(r.v * 2) / nullif(count(r.rid), 0) - l.id",
}  # fmt: skip
_KEEPS: tuple[Literal["first", "last"], ...] = ("first", "last")
_HOWS: tuple[Literal["inner", "left"], ...] = ("inner", "left")
_WAYS: tuple[Literal["backward", "forward"], ...] = ("backward", "forward")


def _side(r: random.Random, name: str, time_of: str, nulls: bool) -> pa.Table:
    n, keys, span = r.choice((0, 1, 7, 40, 90)), r.choice((1, 2, 5)), r.choice((5, 60, 900))
    rng = np.random.default_rng(r.randrange(2**32))

    def masked(values: Any, share: float = 0.1) -> pa.Array:
        return pa.array(values, mask=rng.random(n) < share if nulls else None)

    values = rng.integers(-40, 40, n) / 8  # exact sums
    return pa.table({
        name: pa.array(range(n), pa.int64()), "k": masked(rng.integers(0, keys, n)),
        time_of: masked(np.sort(rng.integers(0, span, n)), 0.05), "v": masked(values, 0.15),
        "s": masked(rng.choice(["a", "b", "c"], n).astype(object), 0.1).cast(pa.string()),
    })  # fmt: skip


def _band(r: random.Random) -> str:
    low, high = r.randrange(60), r.randrange(40)
    return r.choice((
        f"r.u BETWEEN l.t - {low} AND l.t + {high}", f"r.u <= l.t AND r.u > l.t - {low}", "r.u >= l.t", "r.u < l.t",
        f"r.u BETWEEN l.t - {low} AND l.t + {high} AND r.v < l.v", f"abs(l.t - r.u) <= {low}",
    ))  # fmt: skip


def _inputs(r: random.Random, left: pa.Table, right: pa.Table) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Return the inputs as tables, in any order and on threads, or as streams that are out of order by some slack."""
    tables = [t.take(pa.array(r.sample(range(len(t)), len(t)), pa.int64())) for t in (left, right)]
    if r.random() < 0.4:
        return (tables[0], tables[1]), {"threads": r.choice((1, 2, 3)), "batch_size": r.choice((3, 65536))}
    slack = r.randrange(20)

    def stream(table: pa.Table, name: str) -> Iterator[pa.RecordBatch]:
        at = [(-1 if t is None else t) + r.randrange(slack + 1) for t in table[name].to_pylist()]
        rows = table.take(pa.array(sorted(range(len(at)), key=at.__getitem__), pa.int64()))
        size = r.choice((1, 5, 64))
        return iter(rows.to_batches(max_chunksize=size) or [pa.RecordBatch.from_pylist([], table.schema)])

    orders = {"left_order": Order("t", slack=slack), "right_order": Order("u", slack=slack)}
    more: dict[str, Any] = {"batch_size": r.choice((1, 9, 65536)), "threads": r.choice((1, 1, 2)), **orders}
    if r.random() < 0.2:
        more |= {"memory_limit": "1MB", "when_full": "spill", "threads": 1}
    return (stream(left, "t"), stream(right, "u")), more


def _pick(r: random.Random, left: pa.Table, right: pa.Table) -> tuple[ivjoin.JoinStream, str]:
    band, how, keyed = _band(r), r.choice(("inner", "left", "right", "full")), r.random() < 0.7
    by, keep = r.choice(("abs(l.t - r.u)", "r.v", "r.u", "r.u - l.t", "l.v * r.v")), r.choice(_KEEPS)
    k, ties = r.randrange(1, 4), r.random() < 0.4
    given, more = _inputs(r, left, right)
    order = [by] if ties else [by, "r.rid"]
    stream = ivjoin.band_join(
        *given, on="k" if keyed else None, condition=band, how=how, columns=["id", "rid"], **more,
        pick=ivjoin.Pick(order if len(order) > 1 else by, keep, k, "all" if ties else "any"),
    )  # fmt: skip
    on = f"{'l.k = r.k AND ' if keyed else ''}{band}"
    way = "ASC" if keep == "first" else "DESC"
    ranked = ", ".join(f"{x} {way} NULLS LAST" for x in order)
    rank = f"{'rank' if ties else 'row_number'}() OVER (PARTITION BY l.id ORDER BY {ranked})"
    best = f"(SELECT l.id, r.rid FROM l JOIN r ON {on} QUALIFY {rank} <= {k})"
    left_alone = f" UNION ALL SELECT id, NULL FROM l WHERE id NOT IN (SELECT id FROM {best})"
    right_alone = f" UNION ALL SELECT NULL, rid FROM r WHERE rid NOT IN (SELECT rid FROM {best})"
    left_alone, right_alone = left_alone * (how in ("left", "full")), right_alone * (how in ("right", "full"))
    return stream, f"FROM {best}{left_alone}{right_alone}"


def _window(r: random.Random, left: pa.Table, right: pa.Table) -> tuple[ivjoin.JoinStream, str]:
    band, how, keyed = _band(r), r.choice(_HOWS), r.random() < 0.7
    some = r.sample(sorted(_FUNCTIONS), r.randrange(1, 6))
    given, more = _inputs(r, left, right)
    aggregate = {f"a{i}": f for i, f in enumerate(some)}
    if "array_agg(r.rid)" in some:  # in the order of arrival, which is DuckDB's only without disorder
        given, more = (left, right), {}
    stream = ivjoin.window_join(
        *given, on="k" if keyed else None, condition=band, how=how, aggregate=aggregate, **more,
        columns=["id", *aggregate],
    )  # fmt: skip
    columns = ", ".join(_FUNCTIONS[f] for f in some)
    on = f"{'l.k = r.k AND ' if keyed else ''}{band}"
    kind = "LEFT JOIN" if how == "left" else "JOIN"
    return stream, f"SELECT l.id, {columns} FROM l {kind} r ON {on} GROUP BY l.id, l.v"


def _asof(r: random.Random, left: pa.Table, right: pa.Table) -> tuple[ivjoin.JoinStream, str]:
    way, exact, keyed = r.choice(_WAYS), r.random() < 0.7, r.random() < 0.7
    within = r.choice((None, 0, 5, 40))
    offsets = r.sample((-30, -7, 0, 3, 25), r.randrange(1, 4)) if r.random() < 0.5 else None
    how = "left" if offsets else r.choice(("left", "inner"))
    more_on = r.choice(("", "", " AND r.v > -2"))
    given, more = _inputs(r, left, right)
    stream = ivjoin.asof_join(
        *given, on=("t", "u"), by="k" if keyed else None, direction=way, tolerance=within, how=how, offsets=offsets,
        allow_exact_matches=exact, condition=more_on[5:] or None, ties=None if offsets else "rid",
        columns=["id", *(f"u_{o}" for o in offsets)] if offsets else ["id", "u", "rid"], **more,
    )  # fmt: skip
    sign = {"backward": "<", "forward": ">"}[way] + ("=" if exact else "")
    parts = []
    for o in offsets or [0]:
        on = f"{'l.k = r.k AND ' if keyed else ''}r.u {sign} l.t + {o}{more_on}"
        on += "" if within is None else f" AND abs(l.t + {o} - r.u) <= {within}"
        order = "r.u DESC, r.rid DESC" if way == "backward" else "r.u, r.rid"
        first = f"row_number() OVER (PARTITION BY l.id ORDER BY {order}) = 1"
        parts.append(f"(SELECT l.id, r.u, r.rid FROM l JOIN r ON {on} QUALIFY {first})")
    if offsets:
        joins = " ".join(f"LEFT JOIN {part} p{i} ON p{i}.id = l.id" for i, part in enumerate(parts))
        return stream, f"SELECT l.id, {', '.join(f'p{i}.u' for i in range(len(parts)))} FROM l {joins}"
    return stream, f"SELECT l.id, p.u, p.rid FROM l {'LEFT ' if how == 'left' else ''}JOIN {parts[0]} p ON p.id = l.id"


KINDS: dict[str, Callable[[random.Random, pa.Table, pa.Table], tuple[ivjoin.JoinStream, str]]] = {
    "pick": _pick, "window": _window, "asof": _asof,
}  # fmt: skip


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.7g}") + 0.0
    return str(value) if isinstance(value, list) else value


def compare(kind: str, seed: int) -> int:
    """Join random tables both ways and return the rows; fail where they differ."""
    r = random.Random(f"{kind} {seed}")
    nulls = r.random() < 0.6
    left, right = _side(r, "id", "t", nulls), _side(r, "rid", "u", nulls)
    stream, query = KINDS[kind](r, left, right)
    got = Counter(tuple(map(_shown, row.values())) for batch in stream for row in batch.to_pylist())
    with duckdb.connect(config={"threads": 1}) as db:
        db.register("l", left)
        db.register("r", right)
        wanted = Counter(tuple(map(_shown, row)) for row in db.sql(query).fetchall())
    assert got == wanted, (kind, seed, query, list(got - wanted)[:3], list(wanted - got)[:3])
    return got.total()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, done, rows, wrong = time.monotonic() + options.seconds, 0, 0, 0
    while time.monotonic() < end:
        for kind in KINDS:
            try:
                rows += compare(kind, options.seed + done)
            except (AssertionError, ivjoin.IvjoinError) as e:
                wrong += 1
                print(kind, options.seed + done, type(e).__name__, str(e)[:600], flush=True)
        done += 1
    print(f"{done} joins of each kind, {rows} rows, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
