"""Orders and watermarks of a function of a column: conditions over the column prune as far as they allow."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join import duck
from join.fed import SIDES, fed

from ivjoin import Order, SymmetricHashJoin, explain
from ivjoin.operator.pruning import prune_bounds as bounds

US, HOUR, DAY = pa.timestamp("us"), 3_600_000_000, 86_400_000_000

# Type, written, and computed of a value that is no null.
FUNCTIONS: list[tuple[pa.DataType, str, Callable[[Any], Any]]] = [
    (pa.int64(), "floor(a / 10)", lambda v: v // 10), (pa.int32(), "a div 10", lambda v: int(v / 10)),
    (pa.int64(), "shiftright(a, 3)", lambda v: v >> 3), (pa.int64(), "-(a div 4)", lambda v: -int(v / 4)),
    (pa.int64(), "a - pmod(a, 8)", lambda v: v - v % 8),
    (pa.float64(), "floor(a)", lambda v: 0 if v != v else math.floor(v)),
    (pa.float64(), "a * 0.5D", lambda v: math.inf if v != v else v),
    (US, "date_trunc('HOUR', a)", lambda v: v // HOUR),
    (US, "CAST(a AS DATE)", lambda v: v // DAY),
    (US, "unix_seconds(a)", lambda v: v // 1_000_000),
]
CONDITIONS = {
    "numbers": ["l.a BETWEEN r.a - 6 AND r.a + 9", "l.a <= r.a + 3 AND r.a <= l.a + 5 AND l.x <> r.x", "l.a = r.a"],
    "times": ["l.a BETWEEN r.a - INTERVAL 90 MINUTES AND r.a + INTERVAL 1 HOUR", "l.a = r.a"],
}


def shown(text: str, place: Any) -> Any:
    """A value of a function as ``advance`` takes it."""
    if text.startswith("date_trunc"):
        return datetime(1970, 1, 1) + timedelta(hours=place)
    if text.startswith("CAST"):
        return date(1970, 1, 1) + timedelta(days=place)
    return place / 2 if text.startswith("a * 0.5D") else place


def some_rows(rng: random.Random, t: pa.DataType, place: Callable[[Any], Any], falling: bool) -> pa.Table:
    """In order of the function's value alone; rows without one stand anywhere."""
    a: list[Any] = [rng.randrange(-40, 60) for _ in range(rng.randrange(80))]
    if t == US:
        a = [v * HOUR // 2 + rng.randrange(3) * 1_000_000 for v in a]
    if t == pa.float64():
        a = [math.nan if rng.random() < 0.1 else v + rng.choice([0, 0.25, 0.5]) for v in a]
    a.sort(key=lambda v: (-place(v) if falling else place(v), rng.random()))
    for _ in range(len(a) // 10):
        a.insert(rng.randrange(len(a)), None)
    schema = pa.schema({"id": pa.int64(), "a": t, "x": pa.int64()})
    return pa.table({"id": range(len(a)), "a": a, "x": [rng.choice([0, 1, None]) for _ in a]}, schema=schema)


def play(t: pa.DataType, text: str, place: Callable[[Any], Any], how: str, seed: int) -> None:
    """With declared orders; every other time with watermarks in their place."""
    rng = random.Random(f"{text} {how} {seed}")
    falling = seed % 2 == 0 and t != pa.float64() and rng.random() < 0.3
    condition = rng.choice(CONDITIONS["times" if t == US else "numbers"])
    tables = [some_rows(rng, t, place, falling) for _ in range(2)]
    places = [[None if v is None else place(v) for v in table["a"].cast(pa.int64() if t == US else t).to_pylist()]
              for table in tables]
    order = None if seed % 2 else Order(text, descending=falling)
    # One side may be in order of the column itself, or of nothing.
    other = rng.choice([order, order, None])
    op = SymmetricHashJoin(
        tables[0].schema, tables[1].schema, condition=condition, how=how, left_order=order, right_order=other,
        batch_size=rng.choice([2, 1000]),
    )  # fmt: skip

    def promised(op: SymmetricHashJoin, p: int, at: int) -> Iterable[pa.RecordBatch]:
        rest = [v for v in places[p][at:] if v is not None]
        if seed % 2 and rest and min(rest) < math.inf and rng.random() < 0.5:
            return op.advance(SIDES[p], {text: shown(text, min(rest))})
        return ()

    got, op = fed(op, tables, how, rng, then=promised)
    nanos = {"INTERVAL 90 MINUTES": 1500 * HOUR, "INTERVAL 1 HOUR": 1000 * HOUR}  # as DuckDB gets times
    said = condition
    for span, number in nanos.items():
        said = said.replace(span, str(number))
    assert got == Counter(duck.pairs(*tables, how, said)), (condition, seed)
    assert op.metrics.late_rows == op.metrics.state_rows == 0


@pytest.mark.one_in(79)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize(("t", "text", "place"), FUNCTIONS, ids=[text for _, text, _ in FUNCTIONS])
def test_rows_are_those_of_duckdb(
    t: pa.DataType, text: str, place: Callable[[Any], Any], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(4):
        monkeypatch.setattr(bounds, "_CONTRACT_EVERY", (1, 256)[seed // 2])
        play(t, text, place, how, seed)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize(("t", "text", "place"), FUNCTIONS, ids=[text for _, text, _ in FUNCTIONS])
def test_the_state_is_the_window(t: pa.DataType, text: str, place: Callable[[Any], Any], key: bool) -> None:
    schema = pa.schema({"a": t})
    condition = "l.a = r.a" if key else CONDITIONS["times" if t == US else "numbers"][0]
    order = Order(text, descending=text.startswith("-"))
    op = SymmetricHashJoin(schema, schema, condition=condition, left_order=order, right_order=order)
    most = 0
    for i in range(0, 20_000, 500):
        a = pa.array([v * HOUR // 2 if t == US else v for v in range(i, i + 500)], pa.int64()).cast(t)
        for side in ("left", "right"):
            list(op.push(side, pa.record_batch([a], schema=schema)))
        if i > 2000:
            most = max(most, op.metrics.state_rows)
    assert most <= 2100, "the window, and a push a side or two where bounds are looked at now and then"


@pytest.mark.parametrize(("t", "text", "place"), FUNCTIONS, ids=[text for _, text, _ in FUNCTIONS])
def test_watermarks_leave_the_window(t: pa.DataType, text: str, place: Callable[[Any], Any]) -> None:
    schema = pa.schema({"a": t})
    op = SymmetricHashJoin(schema, schema, condition=CONDITIONS["times" if t == US else "numbers"][0])
    falling = text.startswith("-")
    for i in range(0, 5000, 500):
        rows = [v * HOUR // 2 if t == US else -v if falling else v for v in range(i, i + 500)]
        for side in ("left", "right"):
            list(op.push(side, pa.record_batch([pa.array(rows, pa.int64()).cast(t)], schema=schema)))
            list(op.advance(side, {text: shown(text, place(rows[-1]))}))
    assert op.metrics.state_rows <= 120


def test_explain_shows_it() -> None:
    schema = pa.schema({"a": pa.int64()})
    said = str(explain(schema, schema, condition="abs(l.a - r.a) < 20", left_order="a div 10", right_order="a div 10"))
    assert "left rows are stored while l.a >= 9981" in said


def test_what_was_known_of_a_column_stays_known_at_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_CONTRACT_EVERY", 1)
    schema = pa.schema({"a": pa.float64()})
    condition = "l.a <=> r.a AND l.a BETWEEN r.a - 3 AND r.a + 2"
    op = SymmetricHashJoin(schema, schema, condition=condition, left_order="round(a)", right_order="round(a)")
    list(op.push("left", pa.record_batch([pa.array([20.0, 40.0, math.inf])], schema=schema)))
    for a in ([10.0, 30.0], [math.inf], [math.inf, math.nan]):
        rows = [row for b in op.push("right", pa.record_batch([pa.array(a)], schema=schema)) for row in b.to_pylist()]
        assert [row["a_right"] for row in rows] == [v for v in a if v == math.inf]
        assert op.metrics.state_rows <= 4, "the left row at 20 is behind 30"


# Of each the state was all rows: where the orders are looked at lies behind what a conjunct says; what was promised is
# known of a key's column alone, or of a column that a conjunct ties to another; and bits.
@pytest.mark.one_in(5)
@pytest.mark.parametrize("watermarks", [False, True])
@pytest.mark.parametrize(("t", "text", "condition"), [
    (pa.int64(), "a div 10", "l.a BETWEEN r.a - 6 AND r.a + 9 AND l.a > 5000 AND r.a > 5000"),
    (pa.float64(), "round(a, -1)", "l.a BETWEEN r.a - 6 AND r.a + 9 AND l.a > 3 AND r.a > 3 AND l.a < 'NaN'"),
    (US, "date_trunc('HOUR', a)", "l.a BETWEEN r.a - INTERVAL 9 HOURS AND r.a AND r.a > '1970-01-09'"),
    (US, "date_trunc('HOUR', a)", "l.a = r.a"),
    (pa.int64(), "a div 10", "l.a = r.a"),
    (pa.int64(), "a", "l.a <= r.b AND r.b <= l.a + 9 AND r.a <= r.b AND r.b <= r.a + 5 AND l.b <> 9"),
    (pa.int64(), "a & ~7", "l.a BETWEEN r.a - 6 AND r.a + 9"),
    (pa.int32(), "a | 7", "l.a = r.a"),
])  # fmt: skip
def test_the_state_is_the_window_also(t: pa.DataType, text: str, condition: str, watermarks: bool) -> None:
    schema = pa.schema({"a": t, "b": t})
    orders = {} if watermarks else {"left_order": text, "right_order": text}
    op = SymmetricHashJoin(schema, schema, condition=condition, **orders)
    most = 0
    for i in range(6000, 20_000, 500):
        a = pa.array([v * HOUR if t == US else v for v in range(i, i + 500)], pa.int64()).cast(t)
        for side in ("left", "right"):
            list(op.push(side, pa.record_batch([a, a], schema=schema)))
            if watermarks:
                place = {"a div 10": lambda v: v // 10, "a & ~7": lambda v: v & ~7, "a | 7": lambda v: v | 7,
                         "round(a, -1)": lambda v: (v - 6) // 10 * 10}.get(text, lambda v: v)  # fmt: skip
                list(op.advance(side, {text: shown(text, place(i + 499))}))
        if i > 8000:
            most = max(most, op.metrics.state_rows)
    assert most <= 2100
