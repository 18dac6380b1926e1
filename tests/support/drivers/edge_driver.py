"""Every pair of edge values through every shape of condition, against a nested loop over Python's numbers.

Pairs are isolated by a key of their own, so that many share an operator; a pair that
errs, which ends its operator, has one alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from drivers.edge_shapes import BIGINT, DECIMAL, INT, E, Erred, T, edges, other_shapes, shapes
from drivers.edge_unseen import may_be_unseen
from join.builders import by_arrow
from oracle import HOWS

from ivjoin import EvaluationError, Order, SymmetricHashJoin, band_join
from ivjoin.expr import build
from ivjoin.expr.types import from_arrow

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
OTHERS = {"duration": BIGINT, "timestamp": BIGINT, "date32": INT, "decimal": DECIMAL}
TYPES = [*NUMBERS, *OTHERS]
# How the rows come: without an order, or with one side's order, watermark or bound standing at the pair's value.
MODES = ["unordered", "pull", *(f"{side} {way}" for side in ("left", "right") for way in (
    "rising", "falling", "pulled", "advance", "retreat", "from", "up to"))]  # fmt: skip

Pair = tuple[Any, Any]
Rows = list[tuple[int, Any]]


@dataclass(frozen=True)
class Job:
    """Pairs of one type, one shape, one mode, one join type, on one way of a push."""

    type: str
    shape: str
    mode: str
    how: str
    compiled: bool
    keyed: bool = True


_PARTS: dict[str, list[Any]] = {"duration": ["us"], "timestamp": ["us"], "decimal": [18, 0]}


def arrow_type(name: str) -> pa.DataType:
    parts = _PARTS.get(name, [])
    return getattr(pa, {"decimal": "decimal128"}.get(name, name))(*parts)


_CONDITIONS: dict[str, dict[str, E]] = {
    name: other_shapes(name) if name in OTHERS else shapes(T(name)) for name in TYPES
}


def condition(job: Job) -> E:
    return _CONDITIONS[job.type][job.shape]


def truth(e: E, pair: Pair) -> bool | None:
    """Whether the pair matches; None if it errs."""
    try:
        return e.of(*pair) is True
    except Erred:
        return None


def batch(job: Job, rows: Rows) -> pa.RecordBatch:
    keys, values = [k for k, _ in rows], [v for _, v in rows]
    t = arrow_type(job.type)
    if job.type == "decimal":
        column = pa.array([None if v is None else Decimal(v) for v in values], t)
    else:
        # Ticks, which a date of Python's could not hold at the ends.
        ticks = {"date32": pa.int32(), "timestamp": pa.int64(), "duration": pa.int64()}.get(job.type, t)
        column = pa.array(values, ticks).view(t)
    return pa.record_batch({"k": pa.array(keys, pa.int64()), "a": column})


def rank(x: Any) -> tuple[int, Any]:
    """NULL first, NaN last: neither stands in an order."""
    return (0, 0) if x is None else (2, 0) if x != x else (1, x)


def play(job: Job, pairs: list[Pair]) -> tuple[list[pa.RecordBatch], tuple[int, int]]:
    """The output, and how often each left and right row was pushed."""
    schema = pa.schema({"k": pa.int64(), "a": arrow_type(job.type)})
    options: dict[str, Any] = {"condition": condition(job).sql, "how": job.how, "on": "k" if job.keyed else None}
    here, _, mode = job.mode.partition(" ")
    if not mode:
        rows = [list(enumerate(p[s] for p in pairs)) for s in (0, 1)]
        if job.mode == "pull":
            return list(band_join(*(pa.Table.from_batches([batch(job, r)]) for r in rows), **options)), (1, 1)
        op = SymmetricHashJoin(schema, schema, **options)
        out = [*op.push("left", batch(job, rows[0])), *op.push("right", batch(job, rows[1]))]
        return [*out, *op.finish()], (1, 1)
    s = ("left", "right").index(here)
    there = ("right", "left")[s]
    falling = mode in ("falling", "retreat", "up to")
    counts = (2, 1) if here == "left" else (1, 2)
    groups = grouped(pairs, s, falling)
    if mode == "pulled":
        own = batch(job, [row for mine, _ in groups for row in mine])
        other = batch(job, [row for _, theirs in groups for row in theirs])
        left, right = (pa.Table.from_batches([b]) for b in ((own, other) if s == 0 else (other, own)))
        order: dict[str, Any] = {f"{here}_order": "a"}
        return list(band_join(left, right, **options, **order)), (1, 1)
    if mode in ("from", "up to"):
        out = []
        for mine, theirs in groups:
            value = mine[0][1]
            if value is not None and value == value:
                end = bound(job, value)
                options[f"{here}_bounds"] = {"a": (end, None) if mode == "from" else (None, end)}
            op = SymmetricHashJoin(schema, schema, **options)
            for side, rows_ in ((here, mine), (there, theirs), (here, mine)):
                out += op.push(side, batch(job, rows_))
            out += op.finish()
        return out, counts
    if mode != "advance":
        # That of "retreat" says nothing by itself but which way a watermark goes.
        endless = timedelta.max if job.type in ("duration", "timestamp", "date32") else 10**400
        options[f"{here}_order"] = Order("a", descending=falling, slack=endless if mode == "retreat" else None)
    op = SymmetricHashJoin(schema, schema, **options)
    out = []
    for mine, theirs in groups:
        out += op.push(here, batch(job, mine))
        out += op.push(there, batch(job, theirs))
        value = mine[0][1]
        if mode in ("advance", "retreat") and value is not None and value == value:
            out += op.advance(here, {"a": bound(job, value)})
        out += op.push(here, batch(job, mine))
    return [*out, *op.finish()], counts


def bound(job: Job, value: Any) -> Any:
    """A value as bounds and watermarks take it: an expression, where Python has no such time."""
    if job.type == "decimal":
        return Decimal(value)
    return build.literal(value, from_arrow(arrow_type(job.type))) if job.type in OTHERS else value


def grouped(pairs: list[Pair], s: int, falling: bool) -> list[tuple[Rows, Rows]]:
    """Rows of side s by value, in order, each with the rows of the other side that are to meet them."""
    groups: dict[str, tuple[Rows, Rows]] = {}
    for k in sorted(range(len(pairs)), key=lambda k: rank(pairs[k][s]), reverse=falling):
        own, other = groups.setdefault(repr(pairs[k][s]), ([], []))
        own.append((k, pairs[k][s]))
        other.append((k, pairs[k][1 - s]))
    return list(groups.values())


def expected(how: str, pairs: list[Pair], matches: list[bool], counts: tuple[int, int]) -> Counter[tuple[str, ...]]:
    out: Counter[tuple[str, ...]] = Counter()
    side = how.startswith("right")
    for k, ((a, b), met) in enumerate(zip(pairs, matches, strict=True)):
        if how.endswith(("semi", "anti")):
            if met == how.endswith("semi"):
                out[repr(k), repr((a, b)[side])] += counts[side]
        elif met:
            out[repr(k), repr(a), repr(b)] += counts[0] * counts[1]
        else:
            if how in ("left", "full"):
                out[repr(k), repr(a), "None"] += counts[0]
            if how in ("right", "full"):
                out[repr(k), "None", repr(b)] += counts[1]
    return out


def got(job: Job, batches: Iterable[pa.RecordBatch]) -> Counter[tuple[str, ...]]:
    out: Counter[tuple[str, ...]] = Counter()
    for b in batches:
        columns = {name: as_numbers(column) for name, column in zip(b.schema.names, b.columns)}
        if not job.keyed:
            # Two key columns, one of them NULL in a row without a partner.
            other = columns.pop("k_right", None)
            if other is not None:
                columns["k"] = [x if y is None else y for x, y in zip(columns["k"], other)]
        out.update(tuple(map(repr, row)) for row in zip(*columns.values(), strict=True))
    return out


def as_numbers(column: pa.Array) -> list[Any]:
    t = column.type
    if pa.types.is_temporal(t):
        column = column.view(pa.int32() if t == pa.date32() else pa.int64())
    return [int(v) if isinstance(v, Decimal) else v for v in column.to_pylist()]


def differences(job: Job, pairs: list[Pair]) -> list[str]:
    """What is wrong in a run of several pairs that do not raise, or of a single pair."""
    matches = [truth(condition(job), p) for p in pairs]
    errs = None in matches
    try:
        with by_arrow(not job.compiled):
            batches, counts = play(job, pairs)
    except EvaluationError as e:
        return [] if errs else [f"{job} {condition(job).sql} {pairs[:3]}: {e}"]
    except Exception as e:
        return [f"{job} {condition(job).sql} {pairs[:3]}: {type(e).__name__} {e}"]
    want = expected(job.how, pairs, [m is True for m in matches], counts)
    have = got(job, batches)
    if have != want:
        return [f"{job} {condition(job).sql} {pairs[:3]}: lost {dict(want - have)} invented {dict(have - want)}"]
    if errs and job.mode in ("unordered", "pull") and may_be_unseen(condition(job), pairs[0]) is None:
        return [f"{job} {condition(job).sql} {pairs[:3]}: no error"]
    return []


def check(job: Job, pairs: list[Pair], most_errors: int = 10**9) -> list[str]:
    """What is wrong with some pairs: together where they do not err, else (up to ``most_errors``) one by one."""
    e = condition(job)
    truths = [truth(e, p) for p in pairs]
    plain = [p for p, t in zip(pairs, truths, strict=True) if t is not None]
    erring = [p for p, t in zip(pairs, truths, strict=True) if t is None]
    found = differences(job, plain) if plain else []
    if found and len(plain) > 1:
        found = [d for p in plain for d in differences(job, [p])] or found
    if len(erring) > most_errors:
        erring = random.Random(len(erring)).sample(erring, most_errors)
    alone = replace(job, keyed=False)
    return found + [d for p in erring for d in differences(alone, [p])]


def pairs_of(name: str) -> list[Pair]:
    values = edges(OTHERS.get(name, T(name)))
    return [(a, b) for a in values for b in values]


def jobs(types: list[str]) -> Iterator[tuple[Job, list[Pair], int]]:
    """All of them, each with an inner join on one way of a push and another join type on the other way."""
    k = 0
    for name in types:
        pairs = pairs_of(name)
        for shape in _CONDITIONS[name]:
            for mode in MODES:
                k += 1
                most = 10**9 if mode == "unordered" else 20
                yield Job(name, shape, mode, "inner", k % 2 == 0), pairs, most
                yield Job(name, shape, mode, HOWS[k % len(HOWS)], k % 2 == 1), pairs, most


def sample(rng: random.Random, name: str, n_jobs: int, n_pairs: int = 60) -> Iterator[tuple[Job, list[Pair], int]]:
    """Some jobs of one type: shapes in turn, the rest at random; each then with pairs that have an operator each."""
    values = edges(OTHERS.get(name, T(name)))
    ends = [min(x for x in values if x is not None), max(x for x in values if x is not None and x == x)]
    names = rng.sample(list(_CONDITIONS[name]), min(n_jobs, len(_CONDITIONS[name])))
    for i in range(n_jobs):
        mode = rng.choice(MODES)
        job = Job(name, names[i % len(names)], mode, rng.choice(HOWS), rng.random() < 0.5)
        # A bound is part of the plan, which is what takes long: few values for it then.
        few = {s: [*rng.sample(values, 2), rng.choice(ends)] for s in ("left", "right")}
        given = few.get(job.mode.split()[0], values) if mode.endswith(("from", "up to")) else values
        left, right = (given if mode.startswith(side) else values for side in ("left", "right"))
        pairs = [(a, b) for a in left for b in right]
        chosen = rng.sample(pairs, min(n_pairs, len(pairs)))
        chosen += [(a, b) for a in ends for b in ends if a in left and b in right]
        yield job, chosen, 6
        single = [p for p in rng.sample(chosen, min(3, len(chosen))) if truth(condition(job), p) is not None]
        for p in single:
            yield replace(job, keyed=False), [p], 1
