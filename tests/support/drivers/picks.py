"""Random joins that pick, and the rows of a nested loop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from taken import one_of

import ivjoin
from ivjoin import Order, SymmetricHashJoin

Row = dict[str, Any]
Truth = Callable[[Row, Row], bool | None]


@dataclass
class Question:
    """A join that picks, and how a nested loop decides it."""

    left: pa.Table
    right: pa.Table
    arguments: dict[str, Any]
    truth: Truth
    keys: list[str] = field(default_factory=list)
    near: str = "t"
    which: str = "last"
    by: str | list[str] = "t"

    @property
    def call(self) -> dict[str, Any]:
        """All arguments of the join."""
        return {"pick": one_of(self.left.schema, self.right.schema, self.which, self.by, self.near)} | self.arguments


def image(v: Any) -> tuple[int, Any]:
    """A value as it compares: NaN is the greatest."""
    if isinstance(v, float) and math.isnan(v):
        return (1, 0)
    return (0, v)


def distance(a: Any, b: Any) -> tuple[int, Any]:
    """How far two values are apart: nothing of equal ones, more than infinite where one is NaN; exact."""
    if image(a) == image(b):
        return (-1, 0)
    if any(isinstance(x, float) and math.isnan(x) for x in (a, b)):
        return (2, 0)
    if any(isinstance(x, float) and math.isinf(x) for x in (a, b)):
        return (1, 0)
    if isinstance(a, float) or isinstance(b, float):
        return (0, abs(Fraction(a) - Fraction(b)))
    return (0, abs(a - b))


def partners(q: Question) -> dict[int, set[int]]:
    """For each left row's ``id``, the set of valid right ``rid``; empty for an unmatched row."""
    out: dict[int, set[int]] = {}
    by = [q.by] if isinstance(q.by, str) else q.by
    which = q.which
    rights = q.right.to_pylist()
    for left in q.left.to_pylist():
        found = []
        for r in rights:
            if any(left[k] is None or r[k] is None or image(left[k]) != image(r[k]) for k in q.keys):
                continue
            if r[by[0]] is None or (which == "nearest" and left[q.near] is None):
                continue
            if q.truth(left, r) is not True:
                continue
            rank: list[Any] = [distance(left[q.near], r[by[0]])] if which == "nearest" else []
            for b in by:
                null = r[b] is None
                there = (not null) if which == "last" else null
                rank += [there, (0, 0) if null else image(r[b])]
            found.append((rank, r["rid"]))
        best = (max if which == "last" else min)((rank for rank, _ in found), default=None)
        out[left["id"]] = {rid for rank, rid in found if rank == best}
    return out


def check(q: Question, rows: list[Row]) -> None:
    """Each left row has one partner, one of the best."""
    want = partners(q)
    got = {row["id"]: row["rid"] for row in rows}
    assert len(got) == len(rows), "a left row came twice"
    owed = want if q.arguments.get("how", "inner") == "left" else {k: v for k, v in want.items() if v}
    assert got.keys() == owed.keys()
    lefts = {row["id"]: row for row in q.left.to_pylist()}
    for lid, rid in got.items():
        assert (rid in want[lid]) if want[lid] else rid is None, (lefts[lid], rid, want[lid], q.arguments)


def pushed(
    q: Question, rng: random.Random, most: int = 7, snapshots: bool = False, watch: Callable[[Any], None] | None = None
) -> list[Row]:
    """The rows of a join whose sides are pushed in random pieces."""
    op = SymmetricHashJoin(q.left.schema, q.right.schema, **q.call)
    waiting = {"left": q.left, "right": q.right}
    rows: list[Row] = []
    bias = rng.choice((0.1, 0.5, 0.5, 0.9))
    while waiting:
        side = "left" if rng.random() < bias else "right"
        if side not in waiting:
            side = next(iter(waiting))
        table = waiting[side]
        if not table.num_rows:
            for b in op.finish(side):
                rows += b.to_pylist()
            del waiting[side]
        else:
            n = rng.randint(1, most)
            for piece in table.slice(0, n).combine_chunks().to_batches():
                for b in op.push(side, piece):
                    rows += b.to_pylist()
            waiting[side] = table.slice(n)
        if snapshots:
            before = op.metrics
            op = SymmetricHashJoin.restore(op.snapshot())
            assert op.metrics.left_rows_in == before.left_rows_in
            assert op.metrics.state_rows == before.state_rows
        if watch is not None:
            watch(op)
    for b in op.finish():
        rows += b.to_pylist()
    m = op.metrics
    assert m.state_rows == 0
    assert m.left_rows_retired == m.left_rows_in and m.right_rows_retired == m.right_rows_in
    return rows


def pulled(q: Question, **options: Any) -> list[Row]:
    """The rows of the same join over tables."""
    return ivjoin.band_join(q.left, q.right, **q.call, **options).read_all().to_pylist()


def _less(a: Any, b: Any) -> bool:
    return image(a) < image(b)


def _nulls(f: Truth) -> Truth:
    return lambda a, b: None if any(x is None for x in (a["t"], b["t"])) else f(a, b)


def _of_times(f: Callable[[Any, Any], bool]) -> Truth:
    return lambda a, b: f(a["t"], b["t"])


CONDITIONS: list[tuple[str | None, Truth]] = [
    (None, lambda a, b: True),
    ("r.t <= l.t", _nulls(lambda a, b: not _less(a["t"], b["t"]))),
    ("r.t < l.t", _nulls(lambda a, b: _less(b["t"], a["t"]))),
    ("r.t >= l.t", _nulls(lambda a, b: not _less(b["t"], a["t"]))),
    ("r.t > l.t", _nulls(lambda a, b: _less(a["t"], b["t"]))),
    ("r.t <= l.t AND r.w > l.v", _nulls(lambda a, b: not _less(a["t"], b["t"]) and b["w"] > a["v"])),
    ("r.t >= l.t AND r.w + l.v <> 3", _nulls(lambda a, b: not _less(b["t"], a["t"]) and b["w"] + a["v"] != 3)),
    ("r.w <> l.v", lambda a, b: b["w"] != a["v"]),
    ("r.t <= l.t AND r.w <> 2 AND l.v < 3", _nulls(
        lambda a, b: not _less(a["t"], b["t"]) and b["w"] != 2 and a["v"] < 3)),
]  # fmt: skip
WIDTHS: list[tuple[str, Callable[[Any, Any], bool]]] = [
    ("r.t BETWEEN l.t - 3 AND l.t", lambda a, b: a - 3 <= b <= a),
    ("r.t BETWEEN l.t AND l.t + 3", lambda a, b: a <= b <= a + 3),
    ("abs(l.t - r.t) <= 2", lambda a, b: abs(a - b) <= 2),
    ("l.t = r.t", lambda a, b: a == b),
    ("r.t BETWEEN l.t - 1 AND l.t + 5", lambda a, b: a - 1 <= b <= a + 5),
    ("l.t <= r.t + 2", lambda a, b: a <= b + 2),
]


def times(rng: random.Random, n: int, kind: str, nulls: float) -> list[Any]:
    span = rng.choice((3, 12, 60))
    values: list[Any] = [rng.randint(0, span) for _ in range(n)]
    if kind == "float":
        odd = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1e300, -1e300)
        values = [rng.choice(odd) if rng.random() < 0.15 else rng.choice((float(v), v + 0.5)) for v in values]
    return [None if rng.random() < nulls else v for v in values]


def disordered(rng: random.Random, values: list[Any], slack: int, descending: bool) -> list[Any]:
    """In the declared order, but for what the slack allows."""
    there = sorted((v for v in values if v is not None), key=image, reverse=descending)
    if slack:
        shift = -1 if descending else 1
        there = sorted(there, key=lambda v: shift * (v + shift * rng.randint(0, slack)))
    out, rest = [], iter(there)
    for v in values:
        out.append(None if v is None else next(rest))
    return out


def question(rng: random.Random, most: int = 40) -> Question:
    """A random one."""
    kind = rng.choice(("int", "int", "float"))
    n, m = rng.randint(0, most), rng.randint(0, most)
    nulls = rng.choice((0, 0, 0.1))
    arguments: dict[str, Any] = {"how": rng.choice(("inner", "left"))}
    which = rng.choice(("last", "first", "nearest"))
    sides = []
    for side, count in (("left", n), ("right", m)):
        t = times(rng, count, kind, nulls)
        ordered = rng.choice(("no", "up", "up", "slack", "down"))
        slack = rng.randint(1, 6) if ordered == "slack" and kind == "int" else 0
        if ordered != "no":
            t = disordered(rng, t, slack, ordered == "down")
            arguments[f"{side}_order"] = Order("t", descending=ordered == "down", slack=slack or None)
        sides.append(t)
    arrow = pa.int64() if kind == "int" else pa.float64()
    keyed = rng.choice((0, 1, 1, 2))
    few = rng.choice((1, 3, 8))
    tables = []
    for s, (t, row, value) in enumerate(zip(sides, ("id", "rid"), ("v", "w"), strict=True)):
        count = (n, m)[s]
        columns: dict[str, pa.Array] = {
            row: pa.array(range(count), pa.int64()),
            "k": pa.array([rng.randint(1, few) if rng.random() < 0.95 else None for _ in range(count)], pa.int64()),
            "s": pa.array([rng.choice("abc"[: 1 + few // 3]) for _ in range(count)], pa.string()),
            "t": pa.array(t, arrow), value: pa.array([rng.randint(0, 4) for _ in range(count)], pa.int64()),
        }
        if s:
            columns["tie"] = pa.array([rng.choice((None, 1, 2, 2, 3)) for _ in range(count)], pa.int64())
        tables.append(pa.table(columns))
    conditions = list(CONDITIONS)
    if kind == "int":
        conditions += [(text, _nulls(_of_times(f))) for text, f in WIDTHS]
    arguments["condition"], truth = rng.choice(conditions)
    arguments["on"] = keys = ["k", "s"][:keyed] if rng.random() < 0.7 else ["s"][:keyed]
    by = rng.choice(("t", "t", "t", ["t", "tie"], ["t", "w", "tie"]))
    if rng.random() < 0.1:
        arguments["batch_size"] = rng.randint(1, 5)
    if not keys:
        arguments.pop("on")
    return Question(tables[0], tables[1], arguments, truth, keys, which=which, by=by)


WORDS = ("", "a", "a\0", "a\0b", "ab", "abc", "abcdefgh", "abcdefghi", "b", "zz", "\u00e9", "\uffee", "\U0001f600", "~")
TYPES = (
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.binary(),
    pa.dictionary(pa.int16(), pa.large_string()), pa.large_binary(), pa.binary(2), pa.decimal128(30, 2), pa.bool_(),
    pa.decimal256(50, 1), pa.date32(), pa.uint64(),
)  # fmt: skip


def _worded(rng: random.Random, t: pa.DataType, n: int, nulls: float) -> pa.Array:
    """Values of a type, among them a few whose comparison is error-prone."""
    value_type = t.value_type if pa.types.is_dictionary(t) else t
    if pa.types.is_decimal(value_type):
        sizes = (0, 5, 10**18, 10**25, 10**25 + 1)
        values: list[Any] = [rng.choice((-1, 1)) * Decimal(rng.choice(sizes)) for _ in range(n)]
    elif pa.types.is_boolean(value_type):
        values = [rng.random() < 0.5 for _ in range(n)]
    elif pa.types.is_date(value_type):
        values = [date(1960 + rng.randint(0, 30), 1, 1) for _ in range(n)]
    elif pa.types.is_unsigned_integer(value_type):
        values = [rng.choice((0, 1, 2**63 - 1, 2**63, 2**64 - 1)) for _ in range(n)]
    else:
        few = rng.random() < 0.5
        values = [rng.choice(WORDS) if few else "".join(rng.choices("ab~", k=rng.randint(0, 12))) for _ in range(n)]
        if "string" not in str(value_type):
            values = [v.encode() for v in values]
        if pa.types.is_fixed_size_binary(value_type):
            values = [bytes([rng.choice((0, 1, 127, 128, 255)), rng.randint(0, 3)]) for _ in range(n)]
    return pa.array([None if rng.random() < nulls else v for v in values], value_type).cast(t)


def worded(rng: random.Random, most: int = 40) -> Question:
    """A random one in which rows are picked by text, bytes or other values that have no distance."""
    q = question(rng, most)
    t = rng.choice(TYPES)
    q.right = q.right.append_column("word", _worded(rng, t, q.right.num_rows, rng.choice((0, 0.1, 0.5))))
    if q.which == "nearest":
        q.by = rng.choice((["t", "word"], ["t", "tie", "word"]))
    else:
        by = ("word", "word", ["word", "tie"], ["word", "t"], ["t", "word"], ["t", "tie", "word"])
        q.by = rng.choice(by)
    return q
