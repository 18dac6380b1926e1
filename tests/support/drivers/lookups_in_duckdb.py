"""Compare random picks, aggregates and as-of joins of tables, files and streams with DuckDB."""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from drivers.lookup_inputs import INPUTS, Inputs, small_slices

import ivjoin
from ivjoin.stream.tables.table_lookup import TableLookup

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
    "mean(r.n)": "avg(r.n)", "min(r.rid)": "min(r.rid)",
    "median(r.n)": "median(r.n)", "quantile(r.n, 0)": "quantile_cont(r.n::DOUBLE, 0)",
    "count(DISTINCT r.x)": "count(DISTINCT r.x)", "bool_and(r.v > -2)": "bool_and(r.v > -2)",
    "any_value(r.n) IS NULL": "count(r.n) = 0",
    "CASE WHEN max(r.v) > 2 THEN 'high' ELSE 'low' END": "CASE WHEN max(r.v) > 2 THEN 'high' ELSE 'low' END",
    **{f"{f}(r.{c})": f"{f}(r.{c})" for f in ("min", "max") for c in "bcdfyw"}, "sum(r.b)": "sum(r.b)",
    "sum(r.c)": "sum(r.c)", "mean(r.c)": "avg(r.c)", "mean(r.f)": "avg(r.f)", "sum(r.n)": "sum(r.n)",
}  # fmt: skip
# These depend on the order of the first band or of the right side; "{by}" is its value.
_ORDERED = {
    "array_agg(r.rid)": "list(r.rid ORDER BY {by}, r.rid) FILTER (r.rid IS NOT NULL)",
    "array_agg(r.s) FILTER (WHERE r.v > 1)": "list(r.s ORDER BY {by}, r.rid) FILTER (r.v > 1)",
    "first(r.s)": "first(r.s ORDER BY {by}, r.rid)", "last(r.x)": "last(r.x ORDER BY {by}, r.rid)",
    "last(r.n) FILTER (WHERE r.v > 0)": "last(r.n ORDER BY {by}, r.rid) FILTER (r.v > 0)",
}
_ORDERS = (
    ["abs(l.t - r.u)"], ["r.v"], ["r.u"], ["r.u - l.t"], ["l.v * r.v"], ["abs(l.t - r.u)", "r.n"], ["abs(l.x - r.x)"],
    ["r.n", "r.u"], ["r.s"], ["r.w"], ["r.w", "r.n"], ["r.x * l.n"], ["r.u", "r.x"], ["r.n % 2", "abs(l.t - r.u)"],
)
_KEEPS: tuple[Literal["first", "last"], ...] = ("first", "last")
_HOWS: tuple[Literal["inner", "left"], ...] = ("inner", "left")
_ALL_HOWS = ("inner", "left", "right", "full")
_DIRECTIONS: tuple[Literal["backward", "forward", "nearest"], ...] = ("backward", "forward", "nearest")
_ENDS = [-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**31, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1]
# How small whole numbers become times of a kind.
_CASTS: dict[str, list[pa.DataType]] = {
    "near": [], "ends": [], "floats": [pa.float64()], "stamps": [pa.timestamp("us")], "uint64": [pa.uint64()],
    "int16": [pa.int16()], "decimals": [pa.int32(), pa.decimal128(12, 0)],
}
_ROUNDED = re.compile("stddev|var_pop|variance|median|quantile|avg.r.[cf]")
_WORDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", "a", "a\0b", "ab", "abcdefghi", "\u00e9", "\uffee", "\U0001f600"]),
    (pa.dictionary(pa.int8(), pa.string()), ["b", "a", "ab"]), (pa.binary(), [b"", b"\0", b"a", b"\xff\0"]),
    (pa.binary(2), [b"\0\0", b"\x7f\1", b"\x80\0"]), (pa.uint64(), [0, 2**63 - 1, 2**63, 2**64 - 1]),
    (pa.decimal128(30, 2), [Decimal(x) for x in (0, -5, 10**25, 10**25 + 1)]),
]  # fmt: skip


class Drawn(NamedTuple):
    """What both sides have alike: the kind of times, the kind of keys, and so on."""

    times: str  # a key of _CASTS
    keys: str  # "near", "far" or "text"
    nulls: bool
    many: int  # most rows, if they are many
    word: tuple[pa.DataType, list[Any]]


def _side(r: random.Random, name: str, time_of: str, drawn: Drawn) -> pa.Table:
    n, keys, span = r.choice((0, 1, 7, 40, 60, 90)), r.choice((1, 2, 5, 50)), r.choice((1, 5, 60, 900))
    if drawn.many:
        n, keys, span = r.choice((drawn.many // 2, drawn.many)), r.choice((40, 2000)), r.choice((20, 50_000))
    rng = np.random.default_rng(r.randrange(2**32))
    key = rng.integers(0, keys, n)
    if drawn.many and r.random() < 0.5:
        key[rng.random(n) < 0.7] = 0  # one heavy key

    def masked(values: Any, share: float = 0.1) -> pa.Array:
        return pa.array(values, mask=rng.random(n) < share if drawn.nulls else None)

    if drawn.keys == "text":
        named = masked(np.array([f"k{v}" for v in key], dtype=object)).cast(pa.string())
    else:
        named = masked(key * (10**15 if drawn.keys == "far" else 1))
    values = rng.integers(-40, 40, n) / 8 * r.choice((1, 2.0**40))  # exact sums
    ticks = rng.integers(0, span, n) - (0 if drawn.times == "uint64" else span // 3)
    if drawn.times == "ends":
        ticks = np.array(r.choices(_ENDS, k=n), dtype=np.int64)
    time = masked(np.clip(ticks, -(2**15), 2**15 - 1) if drawn.times == "int16" else ticks, 0.05)
    for t in _CASTS[drawn.times]:
        time = time.cast(t)
    if drawn.times == "floats":
        time = pc.if_else(pa.array(rng.random(n) < 0.1), -0.0, pc.divide(time, 4.0))
    x = np.where(rng.random(n) < 0.05, np.nan, np.round(rng.normal(size=n) * 3))
    t, words = drawn.word
    cents = rng.integers(-(10**17), 10**17, n)
    return pa.table({
        name: pa.array(range(n), pa.int64()), "k": named, time_of: time,
        "e": masked(ticks + rng.integers(-1, 30, n)), "v": masked(values, 0.15), "x": masked(x, 0.2),
        "n": masked(rng.integers(0, 5, n), 0.3),
        "s": masked(rng.choice(["a", "b", "\u00e9", ""], n).astype(object), 0.1).cast(pa.string()),
        "b": masked(np.where(rng.random(n) < 0.1, 2**63 // 3000, rng.integers(0, 50, n))).cast(pa.uint64()),
        "c": masked(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
        "d": masked(rng.integers(0, 20, n)).cast(pa.int32()).cast(pa.date32()),
        "f": masked(rng.integers(-8, 8, n) / 4).cast(pa.float32()), "y": masked(rng.random(n) < 0.5),
        "w": pa.array([None if drawn.nulls and r.random() < 0.1 else r.choice(words) for _ in range(n)], t),
    })  # fmt: skip


def _band(r: random.Random) -> str:
    low, high = r.randrange(60), r.randrange(40)
    return r.choice((
        f"r.u BETWEEN l.t - {low} AND l.t + {high}", f"r.u <= l.t AND r.u > l.t - {low}", "r.u >= l.t", "r.u < l.t",
        f"r.u BETWEEN l.t - {low} AND l.t + {high} AND r.v < l.v", f"abs(l.t - r.u) <= {low}", "l.t = r.u",
        f"r.u BETWEEN l.t - {low} AND l.t + {high} AND (l.x < r.x OR r.n > 1)", "r.u <= l.t AND l.t < r.e",
        "r.u <= l.t AND (r.e IS NULL OR l.t < r.e)", "r.u <= l.t AND l.t < r.e AND r.n <> 3",
        "r.u >= l.t AND l.n <> r.n", "l.t = r.u AND r.n > 2",
    ))  # fmt: skip


def _keys(r: random.Random) -> tuple[str | list[str] | None, str]:
    """The keys of a join, and their part of a condition."""
    return r.choice((
        (None, ""), ("k", "l.k = r.k AND "), ("k", "l.k = r.k AND "), (["s", "k"], "l.s = r.s AND l.k = r.k AND "),
    ))  # fmt: skip


def _window_band(r: random.Random, drawn: Drawn) -> tuple[str, str]:
    """A condition, and what the right side of its first band is; empty where no band orders the right rows."""
    if drawn.times == "ends":  # a bound of a sum that leaves int64 is an error of the condition
        return r.choice(("l.t = r.u", "r.u <= l.t", "r.u < l.t")), "r.u"
    if r.random() < 0.7:
        return _band(r), "r.u"
    return r.choice((
        ("l.t < r.e AND r.u <= l.t + 3 AND r.v >= l.v", "r.e"), ("r.v <= l.v AND l.t < r.e", "r.v"),
        ("l.id % 3 <> r.rid % 3", "r.rid"), ("true", "r.rid"), ("abs(l.x - r.x) <= 1.5", ""),
        ("l.x BETWEEN r.x - 0.7e0 AND r.x + 0.3e0", ""), ("r.u BETWEEN l.t AND l.e", "r.u"),
        ("abs(l.t - r.u) <= 9 AND abs(l.e - r.e) <= 9", ""), ("l.t + r.u BETWEEN 40 AND 45", ""),
        ("l.t - r.u BETWEEN 0 AND 3 OR l.t - r.u BETWEEN 7 AND 9", ""),
        ("abs(l.t - r.u) <= 9 AND r.x > 0 AND l.e < 40", ""),
    ))  # fmt: skip


def _with_unmatched(best: str, how: str, columns: str) -> str:
    """Add the rows of a side without a match to a query that returns the columns ``id``, ``columns`` and ``rid``."""
    nothing = ", ".join("NULL" for _ in columns.split(", "))
    left = f" UNION ALL SELECT id, {nothing} FROM l WHERE id NOT IN (SELECT id FROM {best})"
    right = f" UNION ALL SELECT NULL, {columns} FROM r WHERE rid NOT IN (SELECT rid FROM {best})"
    return f"FROM {best}{left * (how in ('left', 'full'))}{right * (how in ('right', 'full'))}"


Question = tuple[Callable[..., ivjoin.JoinStream], dict[str, Any], str]


def _pick(r: random.Random, drawn: Drawn, inputs: Inputs) -> Question:
    band, how, (on, equal) = _band(r), r.choice(_ALL_HOWS), _keys(r)
    by, keep = r.choice(_ORDERS), r.choice(_KEEPS)
    k, ties = r.randrange(1, 4), r.random() < 0.4
    order = by if ties else [*by, "r.rid"]
    options = {
        "on": on, "condition": band, "how": how, "columns": ["id", "rid"],
        "pick": ivjoin.Pick(order, keep, k, "all" if ties else "any"),
    }  # fmt: skip
    way = "ASC" if keep == "first" else "DESC"
    ranked = ", ".join(f"{x} {way} NULLS LAST" for x in order)
    rank = f"{'rank' if ties else 'row_number'}() OVER (PARTITION BY l.id ORDER BY {ranked})"
    best = f"(SELECT l.id, r.rid FROM l JOIN r ON {equal}{band} QUALIFY {rank} <= {k})"
    return ivjoin.band_join, options, _with_unmatched(best, how, "rid")


def _window(r: random.Random, drawn: Drawn, inputs: Inputs) -> Question:
    (band, by), how, (on, equal) = _window_band(r, drawn), r.choice(_HOWS), _keys(r)
    by = "r.u" if inputs.declared else by
    functions = _FUNCTIONS | ({f"{f}({by})": f"{f}({by} ORDER BY {by})" for f in _KEEPS} if by else {})
    if inputs.settles_ties and by:
        functions |= {f: text.format(by=by) for f, text in _ORDERED.items()}
    some = r.sample(sorted(functions), r.randrange(1, 6))
    aggregate = {f"a{i}": f for i, f in enumerate(some)}
    options = {
        "on": on, "condition": band, "how": how, "aggregate": aggregate,
        "columns": ["id", *aggregate],
    }  # fmt: skip
    kind = "LEFT JOIN" if how == "left" else "JOIN"
    columns = ", ".join([*(functions[f] for f in some), "max(abs(r.v))"])  # the last is a scale of what is rounded
    query = f"SELECT l.id, {columns} FROM l {kind} r ON {equal}({band}) GROUP BY l.id, l.v"
    return ivjoin.window_join, options, query


def _asof(r: random.Random, drawn: Drawn, inputs: Inputs) -> Question:
    plain, keyed = drawn.times == "near", r.random() < 0.7  # others have no sums, or distances beyond their type
    direction = r.choice(_DIRECTIONS)
    exact = r.random() < 0.7 or (drawn.times == "ends" and direction == "nearest")
    within = r.choice((None, 0, 5, 40))
    offsets = r.sample((-30, -7, 0, 3, 25), r.randrange(1, 4)) if plain and r.random() < 0.4 else None
    ties = None if offsets else r.choice((None, "rid", "all") if plain else (None, "rid"))
    how = "left" if offsets else r.choice(_ALL_HOWS if plain and ties else _HOWS)
    more_on = r.choice(("", "", " AND r.v > -2", " AND (r.x > 1 OR l.n < r.n)")) if plain else ""
    shown = "u, rid" if ties else "u"  # without ties, any of the rows of one time may be taken
    options = {
        "on": ("t", "u"), "by": "k" if keyed else None, "direction": direction, "how": how,
        "tolerance": f"{within} us" if drawn.times == "stamps" and within is not None else within,
        "ties": ties, "allow_exact_matches": exact, "condition": more_on[5:] or None, "offsets": offsets,
        "columns": ["id", *([f"u_{o}" for o in offsets] if offsets else shown.split(", "))],
    }  # fmt: skip
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
        parts.append(f"(SELECT l.id, r.u{', r.rid' * bool(ties)} FROM l JOIN r ON {on} QUALIFY {first})")
    if offsets:
        joins = " ".join(f"LEFT JOIN {part} p{i} ON p{i}.id = l.id" for i, part in enumerate(parts))
        return ivjoin.asof_join, options, (
            f"SELECT l.id, {', '.join(f'p{i}.u' for i in range(len(parts)))} FROM l {joins}"
        )
    return ivjoin.asof_join, options, _with_unmatched(parts[0], how, shown)


KINDS: dict[str, Callable[[random.Random, Drawn, Inputs], Question]] = {
    "pick": _pick, "window": _window, "asof": _asof,
}  # fmt: skip
_TIMES = {"pick": ["near"], "window": ["near", "near", "ends"], "asof": ["near"] * 5 + list(_CASTS)}


def _in_ticks(rows: pa.Table) -> pa.Table:
    """Timestamps as numbers."""
    fields = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


def _alike(a: Any, b: Any, rounded: bool, scale: float = 0.0) -> bool:
    """Equal; the doubles of some functions but for rounding, those between two values of a scale by its last bits."""
    if isinstance(a, float) and isinstance(b, float):
        near = max(1e-9, scale * 2.0**-50)
        return a == b or (a != a and b != b) or (rounded and math.isclose(a, b, rel_tol=1e-9, abs_tol=near))
    return bool(a == b)


def _rows_alike(ours: tuple[Any, ...], theirs: tuple[Any, ...], rounded: bool, options: dict[str, Any]) -> bool:
    """The same for two rows; to those of DuckDB, aggregates add the greatest size of a value of v."""
    functions = options.get("aggregate", {})
    scales = [theirs[-1] or 0.0 if "quantile(r.v" in functions.get(c, "") else 0.0 for c in options["columns"]]
    return all(_alike(a, b, rounded, scale) for a, b, scale in zip(ours, theirs, scales))


def _joined(stream: ivjoin.JoinStream, size: int, came: tuple[int, int] | None) -> list[tuple[Any, ...]]:
    """The output rows in their order, after checks of the batches and of what is counted."""
    batches = list(stream)
    for batch in batches:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= size
    m, rows = stream.metrics, _in_ticks(pa.Table.from_batches(batches, stream.schema)).to_pylist()
    assert (m.rows_out, m.state_rows) == (len(rows), 0)
    assert (m.left_rows_retired, m.right_rows_retired) == (m.left_rows_in, m.right_rows_in)
    assert came is None or (m.left_rows_in, m.right_rows_in) == came
    if isinstance(stream._run.operator, TableLookup):
        numbers = [row["id"] for row in rows if row["id"] is not None]
        assert numbers == sorted(numbers), "left rows have moved"
    return [tuple(row.values()) for row in rows]


def compare(kind: str, seed: int, given: str = "") -> tuple[int, str]:
    """Join random inputs both ways; return the rows and what joined them; fail where rows differ.

    ``given`` is one of ``INPUTS``, at random by default.
    """
    r = random.Random(f"{kind} {seed} {given}")
    times, names = r.choice(_TIMES[kind]), r.choice(("near", "near", "far", "text"))
    many = 0 if r.random() > 0.1 else 2500 if kind == "asof" else 700
    drawn = Drawn(times, names, r.random() < 0.6, many, r.choice(_WORDS))
    cut = nullcontext() if drawn.many else small_slices(r)
    with tempfile.TemporaryDirectory() as folder, cut, duckdb.connect(config={"threads": 1}) as db:
        inputs = Inputs(given or r.choice(INPUTS), r, Path(folder))
        left = inputs.arranged(_side(r, "id", "t", drawn), "id", "t")
        right = inputs.arranged(_side(r, "rid", "u", drawn), "rid", "u")
        join, options, query = KINDS[kind](r, drawn, inputs)
        for name, rows, time in (("l", left, "t"), ("r", right, "u")):
            wide = f" REPLACE ({time}::HUGEINT AS {time})" if times in ("ends", "uint64", "int16") else ""
            db.register(f"{name}_rows", _in_ticks(rows))
            db.execute(f"CREATE TABLE {name} AS SELECT *{wide} FROM {name}_rows")
        wanted = sorted(db.sql(query).fetchall(), key=str)  # no two rows with doubles have one id
        rounded, first = _ROUNDED.search(query) is not None, None
        for threads in (1, r.choice((2, 3, 16))) if inputs.kind == "tables" else (r.choice((1, 2, 3, 16)),):
            sides, more = inputs.opened(left, right)
            more["threads"] = 1 if "memory_limit" in more else threads
            stream = join(*sides, **options, **more)
            came = (left.num_rows, right.num_rows) if inputs.kind in ("tables", "streams") else None
            found = _joined(stream, more["batch_size"], came)
            got = sorted(found, key=str)
            differ = [(a, b) for a, b in zip(got, wanted) if not _rows_alike(a, b, rounded, options)]
            what = (kind, seed, inputs.kind, threads, query, options)
            assert len(got) == len(wanted) and not differ, (*what, len(got), len(wanted), differ[:3])
            if "memory_limit" not in more:
                assert first is None or str(found) == first, (*what, "another order")
                first = str(found)
    return len(got), type(stream._run.operator).__name__
