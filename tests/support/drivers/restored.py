"""Snapshots at random points of random joins.

Each join runs once without a stop. It then runs again: at random points it is saved, restored with another memory limit
or none, and continued. Both runs must emit the same rows, and a plain join of two inputs those of ``band_join``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import oracle
import pyarrow as pa
from memory.small_files import small_files

import ivjoin
from ivjoin import MemoryLimitError, MultiJoin, Spill, SymmetricHashJoin

SCHEMA = pa.schema({"id": pa.int64(), "k": pa.int64(), "t": pa.int64(), "v": pa.float64(), "s": pa.string()})
Op = SymmetricHashJoin | MultiJoin


class _Stopped(Exception):
    """A join of many inputs that was refused memory in the middle of a batch: only an earlier snapshot goes on."""


def limits(folder: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return memory limits that this join can have."""
    if "aggregate" in arguments or isinstance(arguments.get("pick"), ivjoin.Pick):
        return {}, {"memory_limit": 60_000}, {"memory_limit": 4_000_000}
    return {}, {}, *({"memory_limit": n, "when_full": Spill(folder)} for n in (16_000, 40_000, 400_000))


def rows(draw: random.Random, n: int) -> list[dict[str, Any]]:
    """Rows in the order of ``t``, with nulls and NaN among the other columns."""
    t = 0
    out: list[dict[str, Any]] = []
    for i in range(n):
        t += draw.choice((0, 0, 1, 1, 2, 7))
        out.append({
            "id": i, "k": draw.choice((None, 0, 1, 2)), "t": t if draw.random() < 0.95 else None,
            "v": draw.choice((None, float("nan"), -0.0, 0.5, 2.5)),
            "s": draw.choice((None, "", "x" * draw.randrange(99))),
        })  # fmt: skip
    return out


def asked(draw: random.Random) -> dict[str, Any]:
    """The arguments of a join of two inputs."""
    how = draw.choice(oracle.HOWS)
    band = draw.choice(("l.t BETWEEN r.t AND r.t + 9", "l.t - r.t BETWEEN -4 AND 4", "l.t >= r.t", "r.t - 3 <= l.t"))
    more = draw.choice(("", "", " AND l.v < 2", " AND (l.s <> r.s OR r.v IS NULL)", " AND l.id % 3 <> r.id % 2"))
    options: dict[str, Any] = {"condition": band + more, "on": draw.choice((None, "k")), "how": how}
    kind = draw.choice(("", "", "word", "pick", "aggregate"))
    if kind == "word":
        options["how"] = draw.choice(("inner", "left"))
        options["pick"] = ivjoin.Pick(["t", "id"], draw.choice(("last", "first")))
    elif kind == "pick":
        by = draw.choice(("abs(l.t - r.t)", "r.v", "r.s"))
        ties: Literal["any", "all"] = draw.choice(("any", "all"))
        options["how"] = draw.choice(("inner", "left", "right", "full"))
        order = [by, "r.id"] if ties == "any" else by
        options["pick"] = ivjoin.Pick(order, draw.choice(("first", "last")), draw.randrange(1, 4), ties)
    elif kind == "aggregate":
        options["how"] = draw.choice(("inner", "left"))
        options["aggregate"] = {"n": ("*", "count"), "m": ("v", "max"), "w": ("id", "sum"), "x": ("s", "min")}
    for side in ("left", "right"):
        if draw.random() < 0.8:
            options[f"{side}_order"] = "t"
    return options


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


def played(
    make: Callable[..., Op], data: dict[str, pa.RecordBatch], script: list[tuple[str, int, int]],
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
            return type(op).restore(saved, **limited)
        except MemoryLimitError:
            return type(op).restore(saved)

    op, out = make(**options()), Counter[str]()
    for name, start, stop in script:
        if draw is not None and draw.random() < 0.25:
            op = restored(op, options())
        if start == stop:
            out += _bag(op.finish(name))
            continue
        batch = data[name].slice(start, stop - start)
        try:
            for b in op.push(name, batch):
                out += _bag([b])
        except MemoryLimitError as e:
            did["refused"] += 1
            if "this operator has stopped" in str(e):
                raise _Stopped from e
            op = restored(op, {})
            out += _bag(op.push(name, batch.slice(e.rows_taken)))
    return out


def check(seed: int, did: Counter[str] | None = None) -> None:
    """Play one join, stopped and not."""
    draw = random.Random(seed)
    many = draw.random() < 0.25
    names = ("a", "b", "c") if many else ("left", "right")
    tables = {n: rows(draw, draw.choice((0, 5, 30, 60) if many else (0, 8, 60, 250))) for n in names}
    data = {n: pa.RecordBatch.from_pylist(r, SCHEMA) for n, r in tables.items()}
    if many:
        condition = "a.k = b.k AND a.t BETWEEN b.t AND b.t + 5 AND c.t BETWEEN b.t - 3 AND b.t AND c.v < 2"
        arguments: dict[str, Any] = {"condition": condition}
        if draw.random() < 0.8:
            arguments["orders"] = {n: "t" for n in names if draw.random() < 0.8}

        def make(**options: Any) -> Op:
            return MultiJoin(dict.fromkeys(names, SCHEMA), **arguments, **options)
    else:
        arguments = asked(draw)

        def make(**options: Any) -> Op:
            return SymmetricHashJoin(SCHEMA, SCHEMA, **arguments, **options)

    script = steps(draw, {n: len(r) for n, r in tables.items()})
    with small_files() as folder:
        whole = played(make, data, script)
        try:
            stopped = played(make, data, script, draw, limits(folder, arguments), did)
        except _Stopped:
            return
    assert stopped == whole, f"seed {seed}: {arguments}: lost {whole - stopped}, new {stopped - whole}"
    if not many and not {"pick", "aggregate"} & arguments.keys():
        table = ivjoin.band_join(
            *(pa.table(data[n].columns, schema=SCHEMA) for n in names), sort="never",
            **{n: x for n, x in arguments.items() if "order" not in n},
        ).read_all()
        assert whole == _bag([table]), f"seed {seed}: {arguments}"
