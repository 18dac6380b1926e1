"""Columns that a conjunct of their own side bounds: they prune as declared bounds do, and no row is lost by it."""

from __future__ import annotations

import random
from collections import Counter

import oracle
import pyarrow as pa
import pytest
from join import duck
from join.fed import fed

from ivjoin import Order, SymmetricHashJoin, explain
from ivjoin.operator.pruning import prune_bounds as bounds

# Each holds all rows without what the conjuncts of one side say.
TEXTS = [
    "l.a BETWEEN r.a - r.w AND r.a + l.w AND r.w <= 10 AND l.w <= 10",
    "abs(l.a - r.a) <= r.w AND r.w < 10",
    "abs(l.a - r.a) <= r.w AND r.w IN (1, 5, 9)",
    "abs(l.a - r.a) + abs(l.x - r.x) % 3 <= r.w AND (r.w = 3 OR r.w BETWEEN 5 AND 8)",
    "abs(l.a - r.a) * l.w < 20 AND l.w > 0",
    "(l.a BETWEEN r.a AND r.a + r.w OR r.a BETWEEN l.a AND l.a + l.w) AND l.w < 10 AND r.w < 10",
    "CASE WHEN l.x > r.x THEN l.a BETWEEN r.a AND r.a + r.w ELSE r.a BETWEEN l.a AND l.a + l.w END"
    " AND abs(l.w) < 10 AND NOT r.w > 9",
    "coalesce(abs(l.a - r.a), 0) <= l.w + r.w AND l.w < 6 AND r.w < 6 AND l.a IS NOT NULL AND r.a IS NOT NULL",
    "abs(l.a - r.a) <= 8 AND l.x <> r.x AND l.x < 3 AND l.a <> r.w",
    "abs(l.a - r.a) <= r.w AND r.w < 10 AND r.a >= 5 AND l.a < 40",
]  # fmt: skip
FALSE = "abs(l.a - r.a) <= r.w AND r.w < 3 AND r.w > 4 AND l.x <> r.x"


def some_rows(rng: random.Random, n: int, falling: bool, schema: pa.Schema) -> pa.Table:
    def value(v: int) -> int | None:
        return None if rng.random() < 0.07 else v

    a = [i // 2 + rng.randrange(2) for i in range(n)]
    return pa.table({
        "id": range(n), "a": [value(-v if falling else v) for v in a],
        "w": [value(rng.choice([-1, 0, 1, 2, 3, 5, 9, 10, 11, 1000])) for _ in a], "x": [value(v % 5) for v in a],
    }, schema=schema)  # fmt: skip


def play(text: str, how: str, seed: int) -> None:
    rng = random.Random(f"{text} {how} {seed}")
    falling, t = rng.random() < 0.4, rng.choice([pa.int64(), pa.int32(), pa.int16()])
    schema = pa.schema({"id": pa.int64(), "a": t, "w": rng.choice([t, pa.int64()]), "x": pa.int64()})
    tables = [some_rows(rng, rng.randrange(90), falling, schema) for _ in range(2)]
    order = Order("a", descending=falling, slack=rng.choice([1, 3]))
    bounded = {"w": (-1, 1000)} if rng.random() < 0.3 else None
    op = SymmetricHashJoin(
        schema, schema, condition=text, how=how, left_order=order, right_order=order, left_bounds=bounded,
        right_bounds=bounded, on_late=rng.choice(["raise", "join"]), batch_size=rng.choice([2, 1000]),
    )  # fmt: skip
    got, op = fed(op, tables, how, rng)
    assert got == Counter(duck.pairs(*tables, how, text)), seed
    assert op.metrics.state_rows == op.metrics.late_rows == 0


@pytest.mark.one_in(89)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("text", [*TEXTS, FALSE])
def test_rows_are_those_of_duckdb(text: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        monkeypatch.setattr(bounds, "_CONTRACT_EVERY", (1, 256)[seed % 2])
        play(text, how, seed)


def held(text: str, how: str, t: pa.DataType) -> int:
    """The most rows stored after a push, warm-up aside, of 20,000 a side."""
    schema = pa.schema([pa.field("a", t, nullable=False), pa.field("w", t), pa.field("x", t)])
    op = SymmetricHashJoin(schema, schema, condition=text, how=how, left_order="a", right_order="a")
    most = 0
    for i in range(0, 20_000, 500):
        a = range(100 + i, 600 + i)
        columns = [pa.array(v, pa.int64()) for v in (a, [v * 7 % 12 for v in a], [v * 5 % 11 for v in a])]
        for side in ("left", "right"):
            list(op.push(side, pa.record_batch([c.cast(t) for c in columns], schema=schema)))
        if i > 2000:
            most = max(most, op.metrics.state_rows)
    return most


@pytest.mark.one_in(31)
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
@pytest.mark.parametrize("text", TEXTS)
def test_the_state_is_the_window(text: str, how: str) -> None:
    assert held(text, how, pa.int64()) <= 1100, "the window, and a push where bounds are looked at now and then"


@pytest.mark.one_in(5)
@pytest.mark.parametrize("text", TEXTS[:4])
def test_the_state_of_doubles_is_the_window(text: str) -> None:
    there = text + " AND NOT isnan(l.a) AND NOT isnan(r.a)"
    assert held(there, "inner", pa.float64()) <= 1100


def test_filter_without_consequences_needs_no_bounds() -> None:
    schema = pa.schema({"a": pa.int64(), "x": pa.int64()})
    text = "l.a BETWEEN r.a - 5 AND r.a + 5 AND l.x <> r.x AND l.x < 25 AND r.x >= 10"
    op = SymmetricHashJoin(schema, schema, condition=text, left_order="a", right_order="a")
    assert [op._engine.state.side(s, "in_kernel") for s in (0, 1)] == [1, 1]


def test_explain_shows_it() -> None:
    schema = pa.schema({"a": pa.int64(), "w": pa.int64()})
    said = str(explain(schema, schema, condition="abs(l.a - r.a) <= r.w AND r.w < 10", left_order="a", right_order="a"))
    assert "left rows are stored while l.a >= 991" in said and "can never be evicted" not in said


def test_two_threads_may_begin_the_same_join_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema({"id": pa.int64(), "a": pa.int64(), "w": pa.int64(), "two_begin": pa.int64()})
    begun: list[SymmetricHashJoin] = []
    filtered = bounds.Bounder._filtered

    def begin() -> SymmetricHashJoin:
        return SymmetricHashJoin(schema, schema, condition=TEXTS[1], left_order="a", right_order="a")

    def meanwhile(bounder: bounds.Bounder) -> tuple[bool, bool]:
        monkeypatch.setattr(bounds.Bounder, "_filtered", filtered)
        begun.append(begin())  # as another thread would that comes in between
        return filtered(bounder)

    monkeypatch.setattr(bounds.Bounder, "_filtered", meanwhile)
    begun.append(begin())
    for op in begun:
        for i in range(0, 4000, 500):
            rows = pa.record_batch([range(i, i + 500), range(i, i + 500), [9] * 500, [0] * 500], schema=schema)
            for side in ("left", "right"):
                list(op.push(side, rows))
        assert op.metrics.state_rows <= 1100
