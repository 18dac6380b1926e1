"""Columns without an order that a conjunct of their own side ties to an ordered one: they prune and lose no row."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join import duck
from join.fed import SIDES, fed, in_turn

from ivjoin import Order, SymmetricHashJoin, explain
from ivjoin.operator.match import pair_state
from ivjoin.operator.pruning import prune_bounds as bounds

Row = dict[str, Any]

CONTAINED = "l.a <= r.a AND r.b <= l.b AND r.a <= r.b"
NEAR = "r.a BETWEEN l.b AND l.b + 5 AND l.b BETWEEN l.a - 3 AND l.a + 3"
APART = "abs(l.b - r.b) < 4 AND abs(l.a - l.b) <= 3 AND abs(r.a - r.b) <= 3"
EITHER = "(l.b = r.b OR l.b = r.a + 2) AND r.b BETWEEN r.a - 3 AND r.a AND l.b >= l.a AND l.b <= l.a + 3"
SUMS = "l.b + l.c BETWEEN r.b + r.c - 2 AND r.b + r.c + 2 AND l.b >= l.a AND l.b <= l.a + l.c AND r.b = r.a + r.c"
BANDED = "l.a BETWEEN r.a - 6 AND r.a + 6 AND r.b <= l.b AND r.a <= r.b AND l.b <= l.a + 4"
TEXTS = [CONTAINED, NEAR, APART, EITHER, SUMS, BANDED]


def some_rows(rng: random.Random, n: int, falling: bool, floats: bool) -> list[Row]:
    rows = []
    for i in range(n):
        a: Any = -(i // 2) if falling else i // 2
        b: Any = a + rng.randrange(-4, 6)
        a, b = (None if rng.random() < 0.06 else v for v in (a, b))
        if floats:
            a, b = (math.nan if v is not None and rng.random() < 0.08 else v for v in (a, b))
        rows.append({"id": i, "k": rng.choice([0, 0, 1, None]), "a": a, "b": b, "c": rng.choice([0, 1, 3, None])})
    return rows


def play(text: str, how: str, seed: int) -> None:
    rng = random.Random(f"{text} {how} {seed}")
    floats, falling = rng.random() < 0.4, rng.random() < 0.4
    t = pa.float64() if floats else rng.choice([pa.int64(), pa.int32(), pa.int16()])
    schema = pa.schema({"id": pa.int64(), "k": pa.int64(), "a": t, "b": t, "c": pa.int32()})
    tables = [pa.Table.from_pylist(some_rows(rng, rng.randrange(60), falling, floats), schema) for _ in range(2)]
    keyed = rng.random() < 0.5
    order = Order("a", descending=falling, slack=rng.choice([None, 2]))
    # With bounds the kernels leave all of it to Python.
    bounded = {"c": (0, 5)} if text == SUMS or rng.random() < 0.3 else None
    op = SymmetricHashJoin(
        schema, schema, on="k" if keyed else None, condition=text, how=how, left_order=order, right_order=order,
        left_bounds=bounded, right_bounds=bounded, batch_size=rng.choice([2, 1000]),
    )  # fmt: skip

    def promised(op: SymmetricHashJoin, p: int, at: int) -> Iterable[pa.RecordBatch]:
        rest = [v for v in tables[p]["a"].slice(at).to_pylist() if v is not None and v == v]
        return op.advance(SIDES[p], {"a": max(rest) if falling else min(rest)}) if rest and rng.random() < 0.1 else ()

    got, op = fed(op, tables, how, rng, then=promised)
    assert got == Counter(duck.pairs(*tables, how, f"l.k = r.k AND {text}" if keyed else text)), seed
    assert op.metrics.state_rows == 0


@pytest.mark.one_in(53)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("text", TEXTS, ids=["contained", "near", "apart", "either", "sums", "banded"])
def test_rows_are_those_of_duckdb(text: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(8):
        monkeypatch.setattr(bounds, "_CONTRACT_EVERY", (1, 4, 256)[seed % 3])
        play(text, how, seed)


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    "t", [pa.int64(), pa.uint32(), pa.int16(), pa.decimal128(12, 2), pa.timestamp("us"), pa.float64()]
)
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
def test_the_state_is_the_window(how: str, t: pa.DataType) -> None:
    text = CONTAINED if t == pa.timestamp("us") else "l.a <= r.a AND r.b <= l.b AND r.a <= r.b AND l.b <= l.a + 40"
    schema = pa.schema({"a": t, "b": t})
    op = SymmetricHashJoin(schema, schema, condition=text, how=how, left_order="a", right_order="a")
    most = 0
    for i in range(0, 20_000, 500):
        for side, width in (("left", 40), ("right", 9)):
            a = pa.array(range(100 + i, 600 + i))
            b = pa.array([v + (v * 7) % (width + 1) for v in a.to_pylist()])
            wide = [c.cast(pa.decimal128(19, 0)) if pa.types.is_decimal(t) else c for c in (a, b)]
            list(op.push(side, pa.record_batch([c.cast(t) for c in wide], schema=schema)))
        if i > 2000:
            most = max(most, op.metrics.state_rows)
    assert most < 2000, "rows of the last pushes, of 40,000"


TIED = "r.b <= l.b AND r.a <= r.b"


def asked(text: str, monkeypatch: pytest.MonkeyPatch, n: int = 100) -> tuple[int, list[int]]:
    """How often Python computes bounds in n pushes of 500 rows a side, and the rows stored after every two."""
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    op = SymmetricHashJoin(schema, schema, on="k", condition=text, left_order="a", right_order="a")
    times = [0]
    bound = pair_state.PairState.bound

    def counted(self: pair_state.PairState, p: int) -> None:
        times[0] += 1
        bound(self, p)

    monkeypatch.setattr(pair_state.PairState, "bound", counted)
    held = []
    for i in range(0, 500 * n, 500):
        for side, width in (("left", 40), ("right", 9)):
            a = range(i, i + 500)
            rows = [[v % 7 for v in a], a, [v + (v * 7) % (width + 1) for v in a]]
            list(op.push(side, pa.record_batch([pa.array(c, pa.int64()) for c in rows], schema=schema)))
        held.append(op.metrics.state_rows)
    return times[0], held


def test_python_prunes_rarely_next_to_another_band(monkeypatch: pytest.MonkeyPatch) -> None:
    times, held = asked(f"l.a BETWEEN r.a - 100 AND r.a + 100 AND {TIED}", monkeypatch)
    assert 0 < times < 20, "and not once in each of 100 pushes"
    assert max(held) <= 2 * 101, "the band's window"


def test_python_prunes_as_often_as_needed_without_a_band(monkeypatch: pytest.MonkeyPatch) -> None:
    times, held = asked(f"l.a <= r.a AND {TIED}", monkeypatch)
    assert times > 50
    assert max(held[8:]) < 41 + 2 * 500 + 10
    assert sum(held) / len(held) < 100, "mostly the window"


@pytest.mark.one_in(7)
@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
def test_rows_of_long_runs_are_those_of_duckdb(how: str, falling: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are put off, and brought forward again where ends are far away for a while."""
    monkeypatch.setattr(bounds, "_CONTRACT_EVERY", 2)
    schema = pa.schema({"id": pa.int64(), "k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    rng = random.Random(how)
    sign = -1 if falling else 1
    tables = []
    for _ in (0, 1):
        rows = []
        for i in range(500):
            far = 90 if 150 < i < 300 else 5
            b = rng.choice([None, *[sign * (i // 2 + rng.randrange(-2, far)) for _ in range(9)]])
            rows.append({"id": i, "k": rng.randrange(2), "a": sign * (i // 2), "b": b})
        tables.append(pa.Table.from_pylist(rows, schema))
    order = Order("a", descending=falling)
    for text in (f"l.a BETWEEN r.a - 60 AND r.a + 6 AND {TIED}", f"l.a <= r.a AND {TIED} AND l.a <= l.b"):
        if falling:
            text = text.replace("<=", ">=").replace("r.a - 60 AND r.a + 6", "r.a - 6 AND r.a + 60")
        op = SymmetricHashJoin(schema, schema, on="k", condition=text, how=how, left_order=order, right_order=order)
        got, _ = in_turn(op, tables, how, 3, restores=text.startswith("l.a BETWEEN"))
        assert got == Counter(duck.pairs(*tables, how, f"l.k = r.k AND {text}")), text


def test_explain_shows_it() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    said = str(explain(schema, schema, condition=CONTAINED, left_order="a", right_order="a"))
    assert "left rows are stored while l.b >= 1000; from 0 <= l.b - r.b" in said
    said = str(explain(schema, schema, condition=NEAR, left_order="a", right_order="a"))
    assert "right rows are stored while r.a >= 997" in said and "prunes nothing" not in said
    said = str(explain(
        schema, schema, condition="l.a <= r.a AND r.b <= l.b AND r.a >= r.b", left_order="a", right_order="a"
    ))
    assert "left rows can never be evicted" in said, "of r.b it is only known up to where it goes"
