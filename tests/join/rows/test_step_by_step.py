"""Push by push against a model in plain Python: emitted rows, late rows and stored rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import fmod, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join.cases import in_blocks
from join.indexes import runs_at_once
from join.model import Model, Pairs, Question, Row
from oracle import HOWS

from ivjoin import LateRowError, Order, SymmetricHashJoin

TYPES = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "uint8": pa.uint8(),
    "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(), "float32": pa.float32(),
    "float64": pa.float64(), "date32": pa.date32(), "timestamp": pa.timestamp("us"), "duration": pa.duration("ms"),
    "decimal": pa.decimal128(12, 2),
}  # fmt: skip
KEYS = {
    "none": {}, "int": {"k": pa.int64()}, "short": {"k": pa.int16()}, "text": {"k": pa.string()},
    "float": {"k": pa.float64()}, "two": {"k": pa.int32(), "j": pa.large_string()},
}  # fmt: skip
PAYLOAD = {
    "word": pa.float64(), "wide": pa.binary(20), "bits": pa.bool_(), "text": pa.string(), "list": pa.list_(pa.int8()),
}  # fmt: skip


def cell(v: float | None, name: str) -> Any:
    """A number of the model's as a value of a type; the model counts quarters, days or ticks."""
    if v is None:
        return None
    if name.startswith("float"):
        return v / 4
    if name.endswith("decimal"):
        return Decimal(25 * int(v)).scaleb(-2)
    if name == "date32":
        return date(2024, 1, 1) + timedelta(days=int(v))
    if name == "timestamp":
        return datetime(2024, 1, 1) + timedelta(microseconds=int(v))
    return timedelta(milliseconds=int(v)) if name == "duration" else int(v)


def length(v: int, name: str) -> Any:
    """A distance of the model's, as ``slack`` takes it."""
    if name in ("date32", "timestamp"):
        return timedelta(days=v) if name == "date32" else timedelta(microseconds=v)
    return cell(v, name)


def shifted(text: str, v: int, name: str) -> str:
    """``text`` and a distance of the model's, as SQL."""
    if v == 0:
        return text
    sign, size = "+-"[v < 0], abs(v)
    if name.startswith("float") or name.endswith("decimal"):
        return f"{text} {sign} {size / 4}{'D' if name.startswith('float') else ''}"
    units = {"date32": f"INTERVAL '{size}' DAY", "timestamp": f"INTERVAL '0.{size:06}' SECOND",
             "duration": f"INTERVAL '0.{size:03}' SECOND"}  # fmt: skip
    return f"{text} {sign} {units.get(name, size)}"


class Life:
    """A question drawn at random, and the calls of an operator's life, each compared with the model's answer."""

    def __init__(self, seed: object, **fixed: Any) -> None:
        self.rng = rng = random.Random(f"{seed}")
        self.kind = str(fixed.get("type") or rng.choice(list(TYPES)))
        self.how = str(fixed.get("how") or rng.choice(HOWS))
        self.keys = str(fixed.get("keys") or rng.choice(["none", "int", "int", *KEYS]))
        self.unsigned, self.narrow = self.kind.startswith("uint"), self.kind in ("int8", "uint8")
        self.is_float = self.kind.startswith("float")
        self.slack = fixed.get("slack", rng.choice([0, 0, 2, 9, 40]))
        self.falling = not self.is_float and rng.random() < 0.3
        rough = [0, 1, 4] if self.slack == 0 else [1, self.slack, self.slack + 3]
        self.rough = fixed.get("rough", rng.choice(rough))
        self.nulls = rng.choice([0, 0, 0.1])
        self.edge = [60, 60]  # of what comes
        self.number = [0, 0]
        self.seen: list[dict[int, Row]] = [{}, {}]
        self.payload = rng.sample(list(PAYLOAD), rng.randrange(3)) if not fixed.get("plain") else ["word"]
        self.question, self.options = self._asked(fixed)
        fields = {**KEYS[self.keys], "x": TYPES[self.kind], "y": pa.int64(), "n": pa.int64()}
        self.schema = pa.schema({**fields, **{name: PAYLOAD[name] for name in self.payload}})

    def _asked(self, fixed: dict[str, Any]) -> tuple[Question, dict[str, Any]]:
        rng = self.rng
        near = [(0, 0), (None, 0), (0, None)]
        ends = rng.choice(near if self.unsigned else [*near, (-3, 2), (-6, 0), (0, 4), (-1, None)])
        terms = [("x", *ends)]
        parts = []
        for end, sign in zip(ends, (">=", "<="), strict=True):
            if end is not None:
                parts.append(f"l.x {sign} {shifted('r.x', end, self.kind)}")
        if rng.random() < 0.3:
            terms.append(("y", 0, None))
            parts.append("l.y >= r.y")
        residual = None
        if fixed.get("residual", rng.random() < 0.3):
            parts.append("(l.y + r.y) % 3 <> 1")

            def residual(a: Row, b: Row) -> bool:
                return None not in (a["y"], b["y"]) and fmod(a["y"] + b["y"], 3) != 1

        on_late = str(fixed.get("on_late") or rng.choice(["raise", "drop", "join"]))
        orders: list[tuple[tuple[str, bool, float], ...]] = []
        given: list[list[Order] | None] = []
        bounds: list[dict[str, tuple[float | None, float | None]]] = []
        for _ in (0, 1):
            mine, told = [], []
            if rng.random() < 0.85:
                mine.append(("x", self.falling, self.slack))
                slack = length(self.slack, self.kind) if self.slack else None
                told.append(Order("x", descending=self.falling, slack=slack))
            if rng.random() < 0.15:
                mine.append(("y", False, 45))
                told.append(Order("y", slack=45))
            orders.append(tuple(mine))
            given.append(told or None)
            bounded = rng.random() < 0.15
            bounds.append({"y": (-25, 18)} if bounded else {})
        question = Question(
            self.how, tuple(terms), tuple(KEYS[self.keys]), residual, tuple(orders), tuple(bounds), on_late,
            self.is_float,
        )
        return question, {
            "on": list(KEYS[self.keys]) or None, "condition": " AND ".join(parts), "how": self.how,
            "left_order": given[0], "right_order": given[1], "left_bounds": bounds[0] or None,
            "right_bounds": bounds[1] or None, "on_late": on_late,
            "batch_size": fixed.get("batch_size", rng.choice([1, 2, 7, 65536])),
        }

    def rows(self, p: int, n: int) -> list[Row]:
        rng, out = self.rng, []
        for _ in range(n):
            self.edge[p] += rng.choice([0, 0, 1] if self.narrow else [0, 1, 2])
            # Narrow types come to their end.
            x: float | None = min(self.edge[p], 110) if self.narrow else self.edge[p]
            x -= rng.randrange(self.rough + 1)
            x = max(x, 0) if self.unsigned else x
            if self.falling:
                x = 120 - x if self.narrow or not self.unsigned else 2000 - x
            if self.is_float and rng.random() < 0.05:
                x = nan
            row: Row = {
                "k": rng.randrange(3), "j": rng.randrange(2), "x": None if rng.random() < self.nulls else x,
                "y": None if rng.random() < self.nulls else rng.randrange(-20, 20), "n": self.number[p],
            }
            if rng.random() < self.nulls:
                row["k"] = None
            self.number[p] += 1
            self.seen[p][row["n"]] = row
            out.append(row)
        return out

    def value(self, row: Row, name: str) -> Any:
        """What a column of a row holds."""
        t = self.schema.field(name).type
        if name == "x":
            return cell(row["x"], self.kind)
        if name in ("y", "n"):
            return row[name]
        if name in ("k", "j"):
            v = row[name]
            return v if v is None or pa.types.is_integer(t) else float(v) if pa.types.is_floating(t) else "k" * v
        i = row["n"]
        if i % 7 == 3:
            return None
        return {
            "word": i / 8, "wide": b"%020d" % i, "bits": i % 3 == 0, "text": "x" * (i % 30), "list": [1] * (i % 4),
        }[name]  # fmt: skip

    def batch(self, rows: list[Row]) -> pa.RecordBatch:
        columns = [pa.array([self.value(r, f.name) for r in rows], f.type) for f in self.schema]
        return pa.record_batch(columns, schema=self.schema)

    def pairs(self, batches: Iterator[pa.RecordBatch]) -> Pairs:
        """The numbers of the output rows, after a check that each equals its input row."""
        out: Pairs = Counter()
        for b in batches:
            b.validate(full=True)
            assert b.num_rows <= self.options["batch_size"]
            for row in b.to_pylist():
                if "semi" in self.how or "anti" in self.how:
                    s = int(self.how.startswith("right"))
                    numbers = (row["n"], None) if s == 0 else (None, row["n"])
                    names = {c: (s, c) for c in b.schema.names}
                else:
                    numbers = (row["n"], row["n_right"])
                    names = {c: (int(c.endswith("_right")), c.removesuffix("_right")) for c in b.schema.names}
                for c, (s, name) in names.items():
                    if name in KEYS[self.keys] and numbers[s] is None:
                        s = 1 - s
                    want = None if numbers[s] is None else self.value(self.seen[s][numbers[s]], name)
                    assert repr(row[c]) == repr(want), (c, row)
                out[numbers] += 1
        return out

    def live(self, steps: int, sizes: list[int], restore: float = 0.1) -> SymmetricHashJoin:
        rng, model = self.rng, Model(self.question)
        op = SymmetricHashJoin(self.schema, self.schema, **self.options)
        for _ in range(steps):
            p = rng.randrange(2)
            side, what = ("left", "right")[p], rng.random()
            if model.ended[p]:
                continue
            if what < 0.03:
                assert self.pairs(op.finish(side)) == model.finish(p)
            elif what < 0.1:
                v = self.edge[p] - rng.randrange(12) - self.slack
                if self.narrow:
                    v = min(v, 100)
                if self.falling:
                    v = 120 - v if self.narrow or not self.unsigned else 2000 - v
                assert self.pairs(op.advance(side, {"x": cell(v, self.kind)})) == model.advance(p, "x", v)
            else:
                rows = self.rows(p, rng.choice(sizes))
                want = model.push(p, rows)
                try:
                    got = self.pairs(op.push(side, self.batch(rows)))
                except LateRowError:
                    got = None
                assert got == want
                if got is None:
                    self.edge[p] += 2
            assert (op.metrics.state_rows, op.metrics.late_rows) == (model.rows, model.late)
            if rng.random() < restore:
                op = SymmetricHashJoin.restore(op.snapshot())
                assert (op.metrics.state_rows, op.metrics.late_rows) == (model.rows, model.late)
        rest = model.finish(0) + model.finish(1)
        assert self.pairs(op.finish()) == rest
        assert op.metrics.state_rows == 0
        return op


@pytest.fixture(params=[True, False], ids=["blocks", "no blocks"], autouse=True)
def blocks(request: pytest.FixtureRequest) -> Iterator[bool]:
    with in_blocks(request.param):
        yield request.param


@pytest.mark.one_in(17)
@pytest.mark.parametrize("seed", [*(pytest.param(i, marks=pytest.mark.nojit) for i in range(12)), *range(12, 120)])
def test_every_push_returns_the_rows_of_the_model(seed: int) -> None:
    Life(seed).live(30, [0, 1, 2, 5, 20])


@pytest.mark.one_in(37)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", TYPES)
def test_late_rows_of_every_type(kind: str, how: str) -> None:
    on_late = ["raise", "drop", "join"][(list(TYPES).index(kind) + HOWS.index(how)) % 3]
    Life(f"{kind} {how} {on_late}", type=kind, how=how, on_late=on_late, slack=7, rough=9).live(20, [1, 4, 9])


@pytest.mark.one_in(13)
@pytest.mark.nojit
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("keys", ["none", "int", "text"])
def test_rows_far_out_of_order_go_when_they_are_decided(how: str, keys: str) -> None:
    """Nearly every row waits in the schedules for rows out of order."""
    Life(f"far {how} {keys}", type="int32", how=how, keys=keys, slack=200, rough=200).live(15, [1, 20, 40])


@pytest.mark.one_in(17)
@pytest.mark.parametrize("how", HOWS)
def test_a_snapshot_at_every_step(how: str) -> None:
    for seed in range(3):
        Life(f"snapshots {how} {seed}", how=how).live(20, [1, 5, 20], restore=1)


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_small_scratch_for_many_matches(how: str, residual: bool, batch_size: int) -> None:
    """A row has more matches than fit into the scratch for pairs."""
    for keys in ("none", "int", "text"):
        life = Life(
            f"small {how} {residual} {keys}", how=how, keys=keys, residual=residual, batch_size=batch_size, type="int16"
        )
        life.live(10, [1, 15, 40])


@pytest.mark.one_in(37)
@pytest.mark.nojit
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("residual", [False, True])
def test_sorted_runs_in_the_middle_of_a_life(how: str, residual: bool) -> None:
    drawn = []
    for seed in range(3):
        with runs_at_once(seed) as some:
            life = Life(f"runs {how} {residual} {seed}", how=how, residual=residual, batch_size=[1, 3, 65536][seed])
            life.live(20, [1, 5, 20])
        drawn += some
    assert drawn


@pytest.mark.slow
def test_rings_grow_wrap_and_shrink() -> None:
    """Bursts, followed by long stretches of few rows."""
    for seed in range(2):
        life = Life(f"bursts {seed}", type="int64", how=HOWS[seed], keys="int", slack=0, plain=True)
        life.live(12, [300])
        life.live(150, [1, 2])


@pytest.mark.one_in(7)
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
def test_batches_of_one_row_and_of_a_hundred_thousand(how: str) -> None:
    rng = np.random.default_rng(3)
    sizes = [1, 100_000, 1, 7, 60_000, 1, 1]
    n = sum(sizes)
    sides = [pa.table({"k": rng.integers(0, 5000, n), "x": np.arange(n) // 2, "n": np.arange(n)}) for _ in (0, 1)]
    op = SymmetricHashJoin(
        sides[0].schema, sides[1].schema, on="k", condition="l.x BETWEEN r.x - 3000 AND r.x + 1000", how=how,
        left_order="x", right_order="x",
    )
    out, at = [], 0
    for size in sizes:
        for side, table in zip(("left", "right"), sides, strict=True):
            out += op.push(side, table.slice(at, size).combine_chunks().to_batches()[0])
        at += size
        assert op.metrics.state_rows <= 2 * size + 17_000
    out += op.finish()
    (k, x), (j, y) = ((t["k"].to_numpy(), t["x"].to_numpy()) for t in sides)
    order = np.lexsort((y, j))
    spread = np.int64(1) << 32  # keys apart
    there = (j * spread + y)[order]
    start, stop = (np.searchsorted(there, k * spread + x + d, side) for d, side in ((-1000, "left"), (3000, "right")))
    first = np.repeat(np.arange(n), stop - start)
    many = stop - start
    second = order[np.arange(len(first)) - np.repeat(np.cumsum(many) - many, many) + start[first]]
    got = pa.Table.from_batches(out)
    if how == "left_anti":
        assert sorted(got["n"].to_pylist()) == np.setdiff1d(np.arange(n), first).tolist()
        return
    left, right = (got[c].fill_null(-1).to_numpy() for c in ("n", "n_right"))
    met = (left >= 0) & (right >= 0)
    assert np.array_equal(np.sort(left[met] * n + right[met]), np.sort(first * n + second))
    if how == "full":
        assert np.array_equal(np.sort(left[right < 0]), np.setdiff1d(np.arange(n), first))
        assert np.array_equal(np.sort(right[left < 0]), np.setdiff1d(np.arange(n), second))
