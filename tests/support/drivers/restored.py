"""Snapshots at random points of random joins.

Each join runs once without a stop. It then runs again: at random points it is saved, restored with another memory limit
or none, and continued. Both runs must emit the same rows, and a join of two inputs those of its tables.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

import oracle
import pyarrow as pa
from memory.small_files import small_files

import ivjoin
from ivjoin import MemoryLimitError, MultiJoin, Order, Spill, SymmetricHashJoin
from ivjoin.operator.lookup.lookup_engine import LookupEngine

SCHEMA = pa.schema({
    "id": pa.int64(), "t": pa.int64(), "u": pa.int32(), "v": pa.float64(), "s": pa.string(),
})  # fmt: skip
FLOATS = SCHEMA.set(1, pa.field("t", pa.float64()))
# Types of keys, and the i-th one.
KEYS: dict[pa.DataType, Callable[[int], Any]] = {
    pa.int64(): lambda i: i, pa.int16(): lambda i: i - 9, pa.decimal128(30, 2): lambda i: Decimal(i) / 4,
    pa.float64(): lambda i: (-0.0, math.nan, math.inf, i / 2)[min(i, 3)],
    pa.string(): lambda i: f"key {i}" * (i % 3), pa.large_binary(): lambda i: f"key {i}".encode() * (i % 4),
    pa.timestamp("us", "UTC"): lambda i: datetime(2024, 1, 1, i % 24, i, tzinfo=UTC),
}
PAYLOAD: dict[pa.DataType, tuple[Any, ...]] = {
    pa.binary(5): (b"12345", b"\0\0\0\0\0"), pa.list_(pa.float64()): ([], [1.5], [None, 2.0, 0.5]),
    pa.struct({"a": pa.string(), "b": pa.int16()}): ({"a": "x" * 30, "b": 1}, {"a": None, "b": 2}),
    pa.large_binary(): (b"", b"y" * 600, b"z"), pa.uint8(): (0, 255), pa.int16(): (-9, 9), pa.bool_(): (False, True),
    pa.list_(pa.string()): (["a", ""], ["b" * 99], []), pa.dictionary(pa.int8(), pa.string()): ("a", "bb"),
}  # fmt: skip
# Types of a column ``w`` that has no distance, or whose comparison is error-prone.
_TEXTS = ("", "a", "a\0", "a\0b", "ab", "abcdefgh", "abcdefghi", "zz", "\u00e9", "\uffee", "\U0001f600")
_TOP = 10**25
WORDS: dict[pa.DataType, tuple[Any, ...]] = {
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), _TEXTS),
    **dict.fromkeys((pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.large_string())), _TEXTS),
    **dict.fromkeys((pa.binary(), pa.large_binary()), tuple(x.encode() for x in _TEXTS)),
    pa.binary(2): (b"\0\0", b"\0\1", b"\x7f\1", b"\x80\0", b"\xff\3"), pa.bool_(): (False, True),
    pa.decimal128(30, 2): tuple(Decimal(x) for x in (0, 5, -5, _TOP, _TOP + 1, -_TOP)),
    pa.decimal256(50, 1): tuple(Decimal(x) for x in (0, 5, -5, _TOP, _TOP + 1, -_TOP)),
    pa.date32(): tuple(date(year, 1, 1) for year in (1960, 1969, 1970, 1990)),
    pa.uint64(): (0, 1, 2**63 - 1, 2**63, 2**64 - 1),
}  # fmt: skip
Op = SymmetricHashJoin | MultiJoin


class _Stopped(Exception):
    """A join of many inputs that was refused memory in the middle of a batch: only an earlier snapshot goes on."""


def limits(folder: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return memory limits that this join can have."""
    if "aggregate" in arguments or "pick" in arguments:
        files = {"memory_limit": 90_000, "when_full": Spill(folder)}
        return {}, {"memory_limit": 60_000}, {"memory_limit": 4_000_000}, files
    return {}, *({"memory_limit": n, "when_full": Spill(folder)} for n in (16_000, 20_000, 24_000, 40_000, 400_000))


def rows(draw: random.Random, n: int, order: Order, floats: bool = False) -> list[dict[str, Any]]:
    """Rows in an order of ``t``, with nulls and NaN among the other columns, and among doubles."""
    t: Any = 0
    times = []
    for _ in range(n):
        t += draw.choice((0, 0, 1, 1, 2, 7))
        times.append(t)
    if floats:
        odd = (math.nan, math.inf, -math.inf, -0.0, 1e300, -1e300)
        times = [draw.choice(odd) if draw.random() < 0.1 else t + draw.choice((0.0, 0.5)) for t in times]
    sign = -1 if order.descending else 1
    late: Any = 0 if floats else order.slack or 0
    times.sort(key=lambda t: (sign * (t != t), 0 if t != t else sign * t + draw.randint(0, late)))
    out: list[dict[str, Any]] = []
    for i, t in enumerate(times):
        out.append({
            "id": i, "t": t if draw.random() < 0.95 else None, "u": draw.choice((None, 0, 1, 2)),
            "v": draw.choice((None, float("nan"), -0.0, 0.5, 2.5)),
            "s": draw.choice((None, "", "x" * draw.randrange(99))),
        })  # fmt: skip
    return out


def asked(draw: random.Random, order: Order, floats: bool) -> dict[str, Any]:
    """The arguments of a join of two inputs."""
    how = draw.choice(oracle.HOWS)
    band = draw.choice((
        "l.t BETWEEN r.t AND r.t + 9", "l.t - r.t BETWEEN -4 AND 4", "l.t >= r.t", "r.t - 3 <= l.t", "l.t < r.t",
        "l.t = r.t", "abs(l.t - r.t) <= 2", "abs(l.t - r.t) <= 300", "abs(l.t - r.t) <= 300", "l.v <> r.v",
    ))  # fmt: skip
    more = draw.choice((
        "", "", "", " AND l.v < 2", " AND (l.s <> r.s OR r.v IS NULL)", " AND l.id % 3 <> r.id % 2", " AND l.k <=> r.k",
        " AND l.u + 1 = r.u", " AND abs(l.v - r.v) < 1.1", " AND l.id * r.id < 4000", " AND (l.u <> r.u OR l.t < r.t)",
    ))  # fmt: skip
    keys = draw.choice((None, "k", "k", ["k", "s"], ["k", "u"], "u"))
    options: dict[str, Any] = {"condition": band + more, "on": keys, "how": how}
    kind = draw.choice(("", "", "word", "pick", "aggregate"))
    if kind == "word":
        options["how"] = draw.choice(("inner", "left"))
        options["pick"] = ivjoin.Pick([draw.choice("ttw"), "id"], draw.choice(("last", "first")))
    elif kind == "pick":
        by: Any = draw.choice(("abs(l.t - r.t)", "r.t", "r.v", "r.s", "r.w", "r.w"))
        ties: Literal["any", "all"] = draw.choice(("any", "all"))
        options["how"] = draw.choice(("inner", "left", "right", "full"))
        by = [by, "r.id"] if ties == "any" else by
        options["pick"] = ivjoin.Pick(by, draw.choice(("first", "last")), draw.randrange(1, 4), ties)
    elif kind == "aggregate":
        options["how"] = draw.choice(("inner", "left"))
        options["aggregate"] = {
            "n": ("*", "count"), "m": ("v", "max"), "total": ("id", "sum"), "x": ("s", "min"), "y": ("v", "mean"),
            "low": ("w", "min"), "high": ("w", "max"),
        }  # fmt: skip
    for side in ("left", "right"):
        if draw.random() < 0.8:
            options[f"{side}_order"] = order
    if draw.random() < 0.2:
        options["batch_size"] = draw.randint(1, 5)
    return options


Step = tuple[str, int, int, Any]  # an input, the rows that are pushed, and a watermark before


def steps(draw: random.Random, sizes: dict[str, int]) -> list[tuple[str, int, int]]:
    """Pieces of the inputs in a random order of pushes; a piece without rows is the end of its input."""
    at, out = dict.fromkeys(sizes, 0), []
    while at:
        name = draw.choice(list(at))
        n = min(draw.choice((1, 3, 10, 40)), sizes[name] - at[name])
        out.append((name, at[name], at[name] + n))
        if n:
            at[name] += n
        else:
            del at[name]
    return out


def _bag(batches: Any) -> Counter[str]:
    return Counter(str(row) for b in batches for row in b.to_pylist())


def to_files(op: Op) -> None:
    """Let all columns of a pick or an aggregate lie in files, as a full memory does."""
    engine: Any = op._engine if isinstance(op, SymmetricHashJoin) and isinstance(op._engine, LookupEngine) else None
    if engine is not None and engine.limits is not None and engine.limits.budget.when_full == "spill":
        engine.spill(engine.limits._files(engine), 0)


def played(
    make: Callable[..., Op], data: dict[str, pa.RecordBatch], script: list[Step],
    draw: random.Random | None = None, limits: tuple[dict[str, Any], ...] = ({},), did: Counter[str] | None = None,
) -> Counter[str]:
    """Return the rows of a join that is pushed; with ``draw``, saved and restored at random points."""
    did = Counter() if did is None else did

    def options() -> dict[str, Any]:
        return limits[0] if draw is None else draw.choice(limits)

    def restored(op: Any, limited: dict[str, Any]) -> Any:
        did["restored"] += 1
        did["within a limit"] += bool(limited)
        saved = op.snapshot()
        try:
            again = type(op).restore(saved, **limited)
        except MemoryLimitError:
            again = type(op).restore(saved)
        assert again.metrics.state_rows == op.metrics.state_rows
        return again

    op, out = make(**options()), Counter[str]()
    for name, start, stop, mark in script:
        if draw is not None and draw.random() < 0.25:
            op = restored(op, options())
        if mark is not None:
            out.update(_bag(op.advance(name, {"t": mark})))
        if start == stop:
            out.update(_bag(op.finish(name)))
            continue
        batch = data[name].slice(start, stop - start)
        try:
            for b in op.push(name, batch):
                out.update(_bag([b]))  # ``+=`` would look at all rows so far
            if draw is not None and draw.random() < 0.3:
                to_files(op)
            did["in files"] += op.metrics.spilled_rows > 0
        except MemoryLimitError as e:
            did["refused"] += 1
            if "this operator has stopped" in str(e):
                raise _Stopped from e
            op = restored(op, {})
            out += _bag(op.push(name, batch.slice(e.rows_taken)))
    assert op.metrics.state_rows == 0
    return out


def check(seed: int, did: Counter[str] | None = None) -> None:
    """Play one join, stopped and not."""
    draw = random.Random(seed)
    many = draw.random() < 0.25
    names = ("a", "b", "c") if many else ("left", "right")
    floats, falling = (not many and draw.random() < 0.2 for _ in range(2))
    order = Order("t", descending=falling, slack=None if floats or many else draw.choice((None, None, 3)))
    kinds = {name: draw.choice(list(types)) for name, types in (("k", KEYS), ("w", WORDS), ("p", PAYLOAD))}
    schema = pa.schema([*(FLOATS if floats else SCHEMA), *(pa.field(name, t) for name, t in kinds.items())])
    most = draw.choice((3, 3, 40))
    tables = {n: rows(draw, draw.choice((0, 5, 30, 60) if many else (0, 60, 250, 400)), order, floats) for n in names}
    for row in (row for table in tables.values() for row in table):
        row |= {
            "k": KEYS[kinds["k"]](draw.randrange(most)), "w": draw.choice(WORDS[kinds["w"]]),
            "p": draw.choice(PAYLOAD[kinds["p"]]),
        }  # fmt: skip
        row |= {name: None for name in kinds if draw.random() < 0.1}
    data = {n: pa.RecordBatch.from_pylist(r, schema) for n, r in tables.items()}
    if many:
        condition = "a.k = b.k AND a.t BETWEEN b.t AND b.t + 5 AND c.t BETWEEN b.t - 3 AND b.t AND c.v < 2"
        arguments: dict[str, Any] = {"condition": condition}
        if draw.random() < 0.8:
            arguments["orders"] = {n: "t" for n in names if draw.random() < 0.8}

        def make(**options: Any) -> Op:
            return MultiJoin(dict.fromkeys(names, schema), **arguments, **options)
    else:
        arguments = asked(draw, order, floats)

        def make(**options: Any) -> Op:
            return SymmetricHashJoin(schema, schema, **arguments, **options)

    script: list[Step] = []
    for name, start, stop in steps(draw, {n: len(r) for n, r in tables.items()}):
        rest = [r["t"] for r in tables[name][start:] if r["t"] is not None and r["t"] == r["t"]]
        mark = (max if falling and f"{name}_order" in arguments else min)(rest, default=math.inf)
        script.append((name, start, stop, mark if draw.random() < 0.15 and math.isfinite(mark) else None))
    with small_files() as folder:
        whole = played(make, data, script)
        try:
            stopped = played(make, data, script, draw, limits(folder, arguments), did)
        except _Stopped:
            return
    assert stopped == whole, f"seed {seed}: {arguments}: lost {whole - stopped}, new {stopped - whole}"
    if not many:
        join: Callable[..., Any] = ivjoin.window_join if "aggregate" in arguments else ivjoin.band_join
        more: dict[str, Any] = {} if {"pick", "aggregate"} & arguments.keys() else {"sort": "never"}
        table = join(
            *(pa.table(data[n].columns, schema=schema) for n in names), **more,
            **{n: x for n, x in arguments.items() if "order" not in n},
        ).read_all()
        assert whole == _bag([table]), f"seed {seed}: {arguments}"
