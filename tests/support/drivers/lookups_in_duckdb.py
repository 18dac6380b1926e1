"""Compare random picks, aggregates and as-of joins of tables and streams with DuckDB."""

from __future__ import annotations

import math
import random
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
    "sum(r.v) FILTER (WHERE r.s = 'a')": "sum(r.v) FILTER (r.s = 'a')",
    "sum(r.v * 2) / count(*) - l.id": "sum(r.v * 2) / nullif(count(r.rid), 0) - l.id",
    "max(r.x) - min(r.x)": "max(r.x) - min(r.x)", "l.v - mean(r.v)": "l.v - avg(r.v)",
    "count(*) FILTER (WHERE r.v > 50)": "count(r.rid) FILTER (r.v > 50)", "stddev_pop(r.n)": "stddev_pop(r.n)",
    "variance(r.v) FILTER (WHERE r.n IS NOT NULL)": "variance(r.v) FILTER (r.n IS NOT NULL)",
    "median(r.n)": "median(r.n)", "quantile(r.n, 0)": "quantile_cont(r.n::DOUBLE, 0)",
    "count(DISTINCT r.x)": "count(DISTINCT r.x)", "bool_and(r.v > -2)": "bool_and(r.v > -2)",
    "any_value(r.n) IS NULL": "count(r.n) = 0",
    "CASE WHEN max(r.v) > 2 THEN 'high' ELSE 'low' END": "CASE WHEN max(r.v) > 2 THEN 'high' ELSE 'low' END",
}  # fmt: skip
# These depend on the order of arrival, which is DuckDB's only without disorder.
_ORDERED = {
    "array_agg(r.rid)": "list(r.rid ORDER BY r.u, r.rid) FILTER (r.rid IS NOT NULL)",
    "array_agg(r.s) FILTER (WHERE r.v > 1)": "list(r.s ORDER BY r.u, r.rid) FILTER (r.v > 1)",
    "first(r.s)": "first(r.s ORDER BY r.u, r.rid)",
    "last(r.n) FILTER (WHERE r.v > 0)": "last(r.n ORDER BY r.u, r.rid) FILTER (r.v > 0)",
}
_ORDERS = (
    ["abs(l.t - r.u)"], ["r.v"], ["r.u"], ["r.u - l.t"], ["l.v * r.v"], ["abs(l.t - r.u)", "r.n"], ["abs(l.x - r.x)"],
    ["r.n", "r.u"], ["r.s"], ["r.x * l.n"], ["r.u", "r.x"], ["r.n % 2", "abs(l.t - r.u)"],
)
_KEEPS: tuple[Literal["first", "last"], ...] = ("first", "last")
_HOWS: tuple[Literal["inner", "left"], ...] = ("inner", "left")
_ALL_HOWS = ("inner", "left", "right", "full")
_DIRECTIONS: tuple[Literal["backward", "forward", "nearest"], ...] = ("backward", "forward", "nearest")


def _side(r: random.Random, name: str, time_of: str, nulls: bool, many: bool) -> pa.Table:
    n, keys, span = r.choice((0, 1, 7, 40, 90)), r.choice((1, 2, 5)), r.choice((5, 60, 900))
    if many:
        n, keys, span = r.choice((1200, 2500)), r.choice((40, 2000)), r.choice((20, 50_000))
    rng = np.random.default_rng(r.randrange(2**32))
    key = rng.integers(0, keys, n)
    if many and r.random() < 0.5:
        key[rng.random(n) < 0.7] = 0  # one heavy key

    def masked(values: Any, share: float = 0.1) -> pa.Array:
        return pa.array(values, mask=rng.random(n) < share if nulls else None)

    values = rng.integers(-40, 40, n) / 8  # exact sums
    time = np.sort(rng.integers(0, span, n))
    x = np.where(rng.random(n) < 0.05, np.nan, np.round(rng.normal(size=n) * 3))
    return pa.table({
        name: pa.array(range(n), pa.int64()), "k": masked(key), time_of: masked(time, 0.05),
        "e": masked(time + rng.integers(-1, 30, n)), "v": masked(values, 0.15), "x": masked(x, 0.2),
        "n": masked(rng.integers(0, 5, n), 0.3),
        "s": masked(rng.choice(["a", "b", "\u00e9", ""], n).astype(object), 0.1).cast(pa.string()),
    })  # fmt: skip


def _band(r: random.Random) -> str:
    low, high = r.randrange(60), r.randrange(40)
    return r.choice((
        f"r.u BETWEEN l.t - {low} AND l.t + {high}", f"r.u <= l.t AND r.u > l.t - {low}", "r.u >= l.t", "r.u < l.t",
        f"r.u BETWEEN l.t - {low} AND l.t + {high} AND r.v < l.v", f"abs(l.t - r.u) <= {low}",
        f"r.u BETWEEN l.t - {low} AND l.t + {high} AND (l.x < r.x OR r.n > 1)", "r.u <= l.t AND l.t < r.e",
        "r.u <= l.t AND (r.e IS NULL OR l.t < r.e)", "r.u <= l.t AND l.t < r.e AND r.n <> 3",
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


def _with_unmatched(best: str, how: str, columns: str) -> str:
    """Add the rows of a side without a match to a query that returns the columns ``id``, ``columns`` and ``rid``."""
    nothing = ", ".join("NULL" for _ in columns.split(", "))
    left = f" UNION ALL SELECT id, {nothing} FROM l WHERE id NOT IN (SELECT id FROM {best})"
    right = f" UNION ALL SELECT NULL, {columns} FROM r WHERE rid NOT IN (SELECT rid FROM {best})"
    return f"FROM {best}{left * (how in ('left', 'full'))}{right * (how in ('right', 'full'))}"


def _pick(r: random.Random, left: pa.Table, right: pa.Table) -> tuple[ivjoin.JoinStream, str]:
    band, how, keyed = _band(r), r.choice(_ALL_HOWS), r.random() < 0.7
    by, keep = r.choice(_ORDERS), r.choice(_KEEPS)
    k, ties = r.randrange(1, 4), r.random() < 0.4
    given, more = _inputs(r, left, right)
    order = by if ties else [*by, "r.rid"]
    stream = ivjoin.band_join(
        *given, on="k" if keyed else None, condition=band, how=how, columns=["id", "rid"], **more,
        pick=ivjoin.Pick(order, keep, k, "all" if ties else "any"),
    )  # fmt: skip
    on = f"{'l.k = r.k AND ' if keyed else ''}{band}"
    way = "ASC" if keep == "first" else "DESC"
    ranked = ", ".join(f"{x} {way} NULLS LAST" for x in order)
    rank = f"{'rank' if ties else 'row_number'}() OVER (PARTITION BY l.id ORDER BY {ranked})"
    return stream, _with_unmatched(f"(SELECT l.id, r.rid FROM l JOIN r ON {on} QUALIFY {rank} <= {k})", how, "rid")


def _window(r: random.Random, left: pa.Table, right: pa.Table) -> tuple[ivjoin.JoinStream, str]:
    band, how, keyed = _band(r), r.choice(_HOWS), r.random() < 0.7
    some = r.sample(sorted(_FUNCTIONS | _ORDERED), r.randrange(1, 6))
    given, more = _inputs(r, left, right)
    aggregate = {f"a{i}": f for i, f in enumerate(some)}
    if not _ORDERED.keys().isdisjoint(some):
        given, more = (left, right), {}
    stream = ivjoin.window_join(
        *given, on="k" if keyed else None, condition=band, how=how, aggregate=aggregate, **more,
        columns=["id", *aggregate],
    )  # fmt: skip
    columns = ", ".join((_FUNCTIONS | _ORDERED)[f] for f in some)
    on = f"{'l.k = r.k AND ' if keyed else ''}{band}"
    kind = "LEFT JOIN" if how == "left" else "JOIN"
    return stream, f"SELECT l.id, {columns} FROM l {kind} r ON {on} GROUP BY l.id, l.v"


def _asof(r: random.Random, left: pa.Table, right: pa.Table) -> tuple[ivjoin.JoinStream, str]:
    direction, exact, keyed = r.choice(_DIRECTIONS), r.random() < 0.7, r.random() < 0.7
    within = r.choice((None, 0, 5, 40))
    offsets = r.sample((-30, -7, 0, 3, 25), r.randrange(1, 4)) if r.random() < 0.4 else None
    how = "left" if offsets else r.choice(_ALL_HOWS)
    ties = None if offsets else r.choice(("rid", "all"))
    more_on = r.choice(("", "", " AND r.v > -2", " AND (r.x > 1 OR l.n < r.n)"))
    given, more = _inputs(r, left, right)
    stream = ivjoin.asof_join(
        *given, on=("t", "u"), by="k" if keyed else None, direction=direction, tolerance=within, how=how, ties=ties,
        allow_exact_matches=exact, condition=more_on[5:] or None, offsets=offsets,
        columns=["id", *(f"u_{o}" for o in offsets)] if offsets else ["id", "u", "rid"], **more,
    )  # fmt: skip
    parts = []
    for o in offsets or [0]:
        on = f"{'l.k = r.k AND ' if keyed else ''}l.t IS NOT NULL AND r.u IS NOT NULL{more_on}"
        on += {"backward": f" AND r.u <= l.t + {o}", "forward": f" AND r.u >= l.t + {o}"}.get(direction, "")
        on += "" if exact else f" AND r.u <> l.t + {o}"
        on += "" if within is None else f" AND abs(l.t + {o} - r.u) <= {within}"
        near = {"backward": "r.u DESC", "forward": "r.u"}.get(direction, f"abs(l.t + {o} - r.u)")
        order = near if ties == "all" else f"{near}, r.u, r.rid{' DESC' if direction == 'backward' else ''}"
        rank = "rank" if ties == "all" else "row_number"
        first = f"{rank}() OVER (PARTITION BY l.id ORDER BY {order}) = 1"
        parts.append(f"(SELECT l.id, r.u, r.rid FROM l JOIN r ON {on} QUALIFY {first})")
    if offsets:
        joins = " ".join(f"LEFT JOIN {part} p{i} ON p{i}.id = l.id" for i, part in enumerate(parts))
        return stream, f"SELECT l.id, {', '.join(f'p{i}.u' for i in range(len(parts)))} FROM l {joins}"
    return stream, _with_unmatched(parts[0], how, "u, rid")


KINDS: dict[str, Callable[[random.Random, pa.Table, pa.Table], tuple[ivjoin.JoinStream, str]]] = {
    "pick": _pick, "window": _window, "asof": _asof,
}  # fmt: skip


def _alike(a: Any, b: Any) -> bool:
    """Equal, doubles but for rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or (a != a and b != b)
    return bool(a == b)


def compare(kind: str, seed: int) -> int:
    """Join random tables both ways and return the rows; fail where they differ."""
    r = random.Random(f"{kind} {seed}")
    nulls = r.random() < 0.6
    many = kind == "asof" and r.random() < 0.1
    left, right = _side(r, "id", "t", nulls, many), _side(r, "rid", "u", nulls, many)
    stream, query = KINDS[kind](r, left, right)
    got = sorted((tuple(row.values()) for batch in stream for row in batch.to_pylist()), key=str)
    with duckdb.connect(config={"threads": 1}) as db:
        db.register("l", left)
        db.register("r", right)
        wanted = sorted(db.sql(query).fetchall(), key=str)  # no two rows with doubles have one id
    differ = [(a, b) for a, b in zip(got, wanted) if not all(map(_alike, a, b))]
    assert len(got) == len(wanted) and not differ, (kind, seed, query, len(got), len(wanted), differ[:3])
    return len(got)
