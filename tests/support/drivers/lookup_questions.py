"""Random picks, aggregates and as-of joins, and the queries of DuckDB that return the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from drivers.lookup_inputs import Inputs
from drivers.lookup_rows import CASTS, Drawn

import ivjoin

__all__ = ["KINDS", "TIMES", "Question"]

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


def _band(r: random.Random) -> str:
    low, high = r.randrange(60), r.randrange(40)
    return r.choice((
        f"r.u BETWEEN l.t - {low} AND l.t + {high}", f"r.u <= l.t AND r.u > l.t - {low}", "r.u >= l.t", "r.u < l.t",
        f"r.u BETWEEN l.t - {low} AND l.t + {high} AND r.v < l.v", f"abs(l.t - r.u) <= {low}", "l.t = r.u",
        f"r.u BETWEEN l.t - {low} AND l.t + {high} AND (l.x < r.x OR r.n > 1)", "r.u <= l.t AND l.t < r.e",
        "r.u <= l.t AND (r.e IS NULL OR l.t < r.e)", "r.u <= l.t AND l.t < r.e AND r.n <> 3",
        "r.u >= l.t AND l.n <> r.n", "l.t = r.u AND r.n > 2",
    ))  # fmt: skip


def _band_of_times(r: random.Random, drawn: Drawn) -> str:
    """The same, without sums of times that have none or leave their type."""
    low = r.randrange(60)
    if drawn.times in ("near", "widths"):
        return _band(r)
    more = {"floats": 1, "mixed": 1, "decimals": 1}.get(drawn.times, 0) * (
        f"r.u BETWEEN l.t - {low} AND l.t + 9", f"r.u <= l.t AND r.u > l.t - {low}", f"abs(l.t - r.u) <= {low}",
    )  # fmt: skip
    return r.choice(("l.t = r.u", "r.u <= l.t", "r.u < l.t AND r.n > 1", "r.u >= l.t", "r.u > l.t", *more))


def _keys(r: random.Random) -> tuple[str | list[str] | None, str, str]:
    """The keys of a join, more conjuncts that are keys, and all of them in a condition of DuckDB."""
    return r.choice((
        (None, "", ""), ("k", "", "l.k = r.k AND "), ("k", "", "l.k = r.k AND "),
        (["s", "k"], "", "l.s = r.s AND l.k = r.k AND "), (None, "l.n + 1 = r.n AND ", "l.n + 1 = r.n AND "),
        (None, "l.k <=> r.k AND ", "l.k IS NOT DISTINCT FROM r.k AND "),
        ("w", "l.k <=> r.k AND ", "l.w = r.w AND l.k IS NOT DISTINCT FROM r.k AND "),
    ))  # fmt: skip


def _window_band(r: random.Random, drawn: Drawn) -> tuple[str, str]:
    """A condition, and what the right side of its first band is; empty where no band orders the right rows."""
    if drawn.times not in ("near", "widths") or r.random() < 0.7:
        return _band_of_times(r, drawn), "r.u"
    return r.choice((
        ("l.t < r.e AND r.u <= l.t + 3 AND r.v >= l.v", "r.e"), ("r.v <= l.v AND l.t < r.e", "r.v"),
        ("l.id % 3 <> r.rid % 3", "r.rid"), ("true", "r.rid"), ("abs(l.x - r.x) <= 1.5", ""),
        ("l.x BETWEEN r.x - 0.7e0 AND r.x + 0.3e0", ""), ("r.u BETWEEN l.t AND l.e", "r.u"),
        ("abs(l.t - r.u) <= 9 AND abs(l.e - r.e) <= 9", ""), ("l.t + r.u BETWEEN 40 AND 45", ""),
        ("l.t - r.u BETWEEN 0 AND 3 OR l.t - r.u BETWEEN 7 AND 9", ""),
        ("abs(l.t - r.u) <= 9 AND r.x > 0 AND l.e < 40", ""),
    ))  # fmt: skip


def _with_unmatched(best: str, how: str, left: list[str], right: list[str], shown: str) -> str:
    """Return a query of the best pairs of rows and of the rows of a side without a match.

    ``best`` has the columns ``id`` and ``rid``; the output those of both sides, and ``shown``: which of them a row has.
    """
    mine, theirs = ", ".join(f"l.{c}" for c in left), ", ".join(f"r.{c}" for c in right)
    of = [f", '{word}'" if shown else "" for word in ("both", "left_only", "right_only")]
    query = f"WITH best AS {best} SELECT {mine}, {theirs}{of[0]} FROM best JOIN l USING (id) JOIN r USING (rid)"
    if how in ("left", "full"):
        nothing = ", ".join("NULL" for _ in right)
        query += f" UNION ALL SELECT {mine}, {nothing}{of[1]} FROM l WHERE id NOT IN (SELECT id FROM best)"
    if how in ("right", "full"):
        nothing = ", ".join("NULL" for _ in left)
        query += f" UNION ALL SELECT {nothing}, {theirs}{of[2]} FROM r WHERE rid NOT IN (SELECT rid FROM best)"
    return query


def _shown(r: random.Random, options: dict[str, Any], right: list[str]) -> tuple[list[str], list[str], str]:
    """Choose some columns, an order and an indicator; return the columns of both sides, and the indicator."""
    on = options.get("by") or options["on"] or ()  # the output has these once
    some = [c for c in r.sample(["w", "s", "c", "n", "b", "d", "f", "y"], r.choice((0, 0, 1, 3))) if c not in on]
    left = [c for c in some if r.random() < 0.5]
    options["columns"] = ["id", *left, *right, *(f"{c}_right" for c in some)]
    if r.random() < 0.15 and "rid" in right:
        options["maintain_order"] = r.choice(("left", "right", "left_right", "right_left"))
    if r.random() < 0.15:
        options["indicator"] = True
    return ["id", *left], [*right, *some], "_merge" if "indicator" in options else ""


Question = tuple[Callable[..., ivjoin.JoinStream], dict[str, Any], str]


def _pick(r: random.Random, drawn: Drawn, inputs: Inputs) -> Question:
    band, how, (on, more, equal) = _band_of_times(r, drawn), r.choice(_ALL_HOWS), _keys(r)
    near = drawn.times in ("near", "widths", "floats", "mixed", "decimals")  # differences of "int16" overflow
    by, keep = r.choice([b for b in _ORDERS if near or not any("l.t" in x for x in b)]), r.choice(_KEEPS)
    k, ties = r.randrange(1, 4), r.random() < 0.4
    order = by if ties else [*by, "r.rid"]
    options = {
        "on": on, "condition": more + band, "how": how,
        "pick": ivjoin.Pick(order, keep, k, "all" if ties else "any"),
    }  # fmt: skip
    shown = _shown(r, options, ["rid"])
    way = "ASC" if keep == "first" else "DESC"
    ranked = ", ".join(f"{x} {way} NULLS LAST" for x in order)
    rank = f"{'rank' if ties else 'row_number'}() OVER (PARTITION BY l.id ORDER BY {ranked})"
    best = f"(SELECT l.id, r.rid FROM l JOIN r ON {equal}{band} QUALIFY {rank} <= {k})"
    return ivjoin.band_join, options, _with_unmatched(best, how, *shown)


def _window(r: random.Random, drawn: Drawn, inputs: Inputs) -> Question:
    (band, by), how, (on, more, equal) = _window_band(r, drawn), r.choice(_HOWS), _keys(r)
    by = "r.u" if inputs.declared else by
    by = "" if inputs.kind == "falling" or "+" in more else by  # a computed key is a band
    functions = _FUNCTIONS | ({f"{f}({by})": f"{f}({by} ORDER BY {by})" for f in _KEEPS} if by else {})
    if inputs.settles_ties and by:
        functions |= {f: text.format(by=by) for f, text in _ORDERED.items()}
    some = r.sample(sorted(functions), r.randrange(1, 6))
    aggregate = {f"a{i}": f for i, f in enumerate(some)}
    options = {
        "on": on, "condition": more + f"({band})", "how": how, "aggregate": aggregate, "columns": ["id", *aggregate],
    }  # fmt: skip
    kind = "LEFT JOIN" if how == "left" else "JOIN"
    columns = ", ".join([*(functions[f] for f in some), "max(abs(r.v))"])  # the last is a scale of what is rounded
    query = f"SELECT l.id, {columns} FROM l {kind} r ON {equal}({band}) GROUP BY l.id, l.v"
    return ivjoin.window_join, options, query


def _previous(r: random.Random, drawn: Drawn, inputs: Inputs) -> Question:
    """Aggregates of windows that begin with the row before them."""
    low, high = r.randrange(2, 60), r.randrange(40)  # a window of one value is a key
    band, before = r.choice((
        (f"r.u BETWEEN l.t - {low} AND l.t + {high}", f"r.u < l.t - {low}"),
        (f"r.u <= l.t AND r.u > l.t - {low}", f"r.u <= l.t - {low}"), ("r.u >= l.t", "r.u < l.t"),
        (f"r.u BETWEEN l.t + {high} AND l.t + {low + high}", f"r.u < l.t + {high}"), ("r.u > l.t", "r.u <= l.t"),
        (f"abs(l.t - r.u) <= {low}", f"r.u < l.t - {low}"),
    ))  # fmt: skip
    on, equal = r.choice(((None, ""), ("k", "l.k = r.k AND "), (["s", "k"], "l.s = r.s AND l.k = r.k AND ")))
    ordered = _ORDERED if inputs.settles_ties else {}
    functions, how = {f: x.format(by="r.u") for f, x in {**_FUNCTIONS, **ordered}.items()}, r.choice(_HOWS)
    some = r.sample(sorted(functions), r.randrange(1, 6))
    aggregate = {f"a{i}": f for i, f in enumerate(some)}
    options = {
        "on": on, "condition": band, "how": how, "aggregate": aggregate, "include_previous": True,
        "columns": ["id", *aggregate],
    }  # fmt: skip
    last = "QUALIFY row_number() OVER (PARTITION BY l.id ORDER BY r.u DESC, r.rid DESC) = 1"
    pairs = (
        f"SELECT l.id AS of, r.* FROM l JOIN r ON {equal}{band} UNION ALL "
        f"(SELECT l.id AS of, r.* FROM l JOIN r ON {equal}{before} {last})"
    )
    kind = "LEFT JOIN" if how == "left" else "JOIN"
    columns = ", ".join([*(functions[f] for f in some), "max(abs(r.v))"])
    return ivjoin.window_join, options, (
        f"SELECT l.id, {columns} FROM l {kind} ({pairs}) r ON r.of = l.id GROUP BY l.id, l.v, l.t"
    )


class _Asof:
    """The options of an as-of join, and its conditions in DuckDB."""

    def __init__(self, r: random.Random, drawn: Drawn) -> None:
        times = drawn.times
        self.plain = times in ("near", "widths")  # others have no sums, or distances beyond their type
        self.direction: Any = r.choice(_DIRECTIONS)
        self.exact = r.random() < 0.7 or (times == "ends" and self.direction == "nearest")
        self.within = r.choice((None, 0, 5, 40))
        self.by: Any
        self.by, self.equal = r.choice((
            (None, ""), ("k", "l.k = r.k AND "), ("k", "l.k = r.k AND "),
            (["s", "k"], "l.s = r.s AND l.k = r.k AND "), ([("n", "b")], "l.n = r.b AND "),
        ))  # fmt: skip
        self.more = r.choice(("", "", " AND r.v > -2", " AND (r.x > 1 OR l.n < r.n)")) if self.plain else ""
        within: Any = self.within
        if within is not None and times in ("stamps", "units", "zones", "days"):
            within = timedelta(days=within) if times == "days" else f"{within} us"
        self.options: dict[str, Any] = {
            "on": ("t", "u"), "by": self.by, "direction": self.direction, "tolerance": within,
            "allow_exact_matches": self.exact, "condition": self.more[5:] or None,
        }  # fmt: skip

    def best(self, direction: str, ties: Any, o: int = 0, also: str = "") -> str:
        """The numbers of the rows that are taken, and other columns."""
        on = f"{self.equal}l.t IS NOT NULL AND r.u IS NOT NULL{self.more}"
        on += {"backward": f" AND r.u <= l.t + {o}", "forward": f" AND r.u >= l.t + {o}"}.get(direction, "")
        on += "" if self.exact else f" AND r.u <> l.t + {o}"
        on += "" if self.within is None else f" AND abs(l.t + {o} - r.u) <= {self.within}"
        near = {"backward": "r.u DESC", "forward": "r.u"}.get(direction, f"abs(l.t + {o} - r.u)")
        down = " DESC" if direction == "backward" else ""
        tie = f"r.n{down} NULLS LAST, r.rid{down}" if isinstance(ties, list) else f"r.rid{down}"
        order = near if ties == "all" else f"{near}, r.u, {tie}"
        rank = "rank" if ties == "all" else "row_number"
        first = f"{rank}() OVER (PARTITION BY l.id ORDER BY {order}) = 1"
        return f"(SELECT l.id, r.rid{also} FROM l JOIN r ON {on} QUALIFY {first})"


def _asof(r: random.Random, drawn: Drawn, inputs: Inputs) -> Question:
    made = _Asof(r, drawn)
    if made.plain and r.random() < 0.4:
        return _lookups(r, made)
    ties = r.choice((None, "rid", "all", ["n", "rid"]) if made.plain else (None, "rid"))
    how = r.choice(_ALL_HOWS if made.plain and ties else _HOWS)
    options = made.options | {"how": how, "ties": ties}
    best = made.best(made.direction, ties)
    if ties is None:  # any of the rows of one time may be taken
        query = f"SELECT l.id, r.u FROM {best} b JOIN l USING (id) JOIN r USING (rid)"
        query += f" UNION ALL SELECT id, NULL FROM l WHERE id NOT IN (SELECT id FROM {best})" * (how == "left")
        return ivjoin.asof_join, options | {"columns": ["id", "u"]}, query
    shown = _shown(r, options, ["rid", "u"])
    return ivjoin.asof_join, options, _with_unmatched(best, how, *shown)


def _lookups(r: random.Random, made: _Asof) -> Question:
    """Several lookups of each row, and values between two rows."""
    offsets: Any = r.sample((-30, -7, 0, 3, 25), r.randrange(1, 4)) if r.random() < 0.7 else None
    between = r.sample(["v", "n", "f"], r.randrange(4)) if r.random() < 0.5 or offsets is None else []
    ties = "rid" if between else r.choice((None, "rid"))
    if not between and offsets is None:
        between, ties = ["v"], "rid"
    others = [c for c in r.sample(["s", "w", "c"], r.randrange(3)) if ties and c not in (made.by or ())]
    shown = ["u", *between, *others, *(["rid"] if ties else [])]
    names = [
        f"{c}_{o}" if o is not None else c if c in ("u", "rid") else f"{c}_right"
        for o in offsets or [None] for c in shown
    ]
    options = made.options | {"how": "left", "ties": ties, "offsets": offsets, "columns": ["id", *names]}
    columns, joins = ["l.id"], ""
    if between:
        options["interpolate"] = between
    also = "".join(f", r.{c}" for c in ("u", "v", "n", "f", "s", "w", "c"))
    for i, o in enumerate(offsets or [0]):
        joins += f" LEFT JOIN {made.best(made.direction, ties, o, also)} p{i} ON p{i}.id = l.id"
        a, b = f"b{i}", f"f{i}"
        if between:
            joins += f" LEFT JOIN {made.best('backward', ties, o, also)} {a} ON {a}.id = l.id"
            joins += f" LEFT JOIN {made.best('forward', ties, o, also)} {b} ON {b}.id = l.id"
        part = f"CASE WHEN l.t + {o} = {a}.u THEN 0 ELSE (l.t + {o} - {a}.u)::DOUBLE / ({b}.u - {a}.u)::DOUBLE END"
        for c in shown:
            x, y = f"{a}.{c}::DOUBLE", f"{b}.{c}::DOUBLE"
            same = f"({part} = 0 AND {y} IS NOT NULL) OR {x} = {y}"
            linear = f"CASE WHEN {same} THEN {x} ELSE {x} + ({y} - {x}) * {part} END"
            columns.append(linear if c in between else f"p{i}.{c}")
    return ivjoin.asof_join, options, f"SELECT {', '.join(columns)} FROM l{joins}"


KINDS: dict[str, Callable[[random.Random, Drawn, Inputs], Question]] = {
    "pick": _pick, "window": _window, "asof": _asof, "previous": _previous,
}  # fmt: skip
# Kinds of times; others than numbers have no sums.
TIMES = {
    "pick": ["near"] * 18 + list(CASTS), "window": ["near"] * 12 + [*CASTS, "ends", "ends"],
    "asof": ["near"] * 6 + list(CASTS), "previous": ["near", "near", "widths"],
}  # fmt: skip
