"""Overflow, division by zero and bad casts in a condition: raised for the pair that has them, and for no other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from join.tables import rows

from ivjoin import EvaluationError, IvjoinError, ProtocolError, SymmetricHashJoin

MAX32, MAX64 = 2**31 - 1, 2**63 - 1
SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int32(), "b": pa.int32(), "c": pa.int64(), "s": pa.string()})


def batch(*values: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows (k, a, b, c, s); what is left out is 0 or ''."""
    full = [(*v, *(0, 0, 0, 0, "")[len(v) :]) for v in values]
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, v)) for v in full], SCHEMA)


def make(condition: str, how: str = "inner", **options: Any) -> Any:
    return SymmetricHashJoin(SCHEMA, SCHEMA, **{"on": "k", "condition": condition, "how": how, **options})


def pull(out: Any) -> list[tuple]:
    return [r for b in out for r in rows(b)]


# condition, an erring left row, a right row it errs with, what the message names
ERRING = [
    pytest.param("l.a + 10 < r.a", (1, MAX32), (1, 5), ("l.a", "10", str(MAX32)), id="overflow of one side"),
    pytest.param("l.a < r.a + 10", (1, 5), (1, MAX32), ("r.a", str(MAX32)), id="overflow of the right"),
    pytest.param("l.c - r.c <= 10", (1, 0, 0, MAX64), (1, 0, 0, -5), ("l.c", "r.c"), id="overflow of a difference"),
    pytest.param("l.c - r.c BETWEEN -10 AND 10", (1, 0, 0, -MAX64), (1, 0, 0, 5), ("l.c",), id="overflow below"),
    pytest.param("abs(l.c - r.c) < 20", (1, 0, 0, -MAX64 - 1), (1, 0, 0, 0), (), id="overflow of abs"),
    pytest.param("l.a * r.a > 3", (1, 100_000), (1, 100_000), ("100000",), id="overflow of a product"),
    pytest.param("l.a div r.b > 1", (1, 5), (1, 5, 0), ("zero",), id="integer division by zero"),
    pytest.param("l.a / r.b > 1", (1, 5), (1, 5, 0), ("zero",), id="division by zero"),
    pytest.param("10 div l.b > r.a", (1, 5, 0), (1, 5), ("zero", "l.b"), id="division by zero on one side"),
    pytest.param("l.a % r.b = 1", (1, 5), (1, 5, 0), ("zero",), id="remainder by zero"),
    pytest.param("pmod(l.a, r.b) = 1", (1, 5), (1, 5, 0), ("zero",), id="pmod by zero"),
    pytest.param("-l.a < r.a", (1, -MAX32 - 1), (1, 5), (), id="overflow of minus"),
    pytest.param("CAST(l.c AS INT) < r.a", (1, 0, 0, 2**40), (1, 5), (str(2**40),), id="cast out of range"),
    pytest.param("CAST(l.s AS INT) < r.a", (1, 0, 0, 0, "abc"), (1, 5), ("abc",), id="cast of text"),
    pytest.param("l.a + 10 < r.a AND l.b > r.b", (1, MAX32, 1), (1, 5, 9), (), id="a FALSE to the right saves nothing"),
    pytest.param("l.b > r.b AND l.a + 10 < r.a", (1, MAX32, 9), (1, 5, 1), (), id="a TRUE to the left"),
    pytest.param(
        "l.s <> r.s AND l.a + 10 < r.a", (1, MAX32, 9, 0, "a"), (1, 5, 1, 0, None), (), id="a NULL to the left"
    ),
    pytest.param("l.b > r.b OR l.a + 10 < r.a", (1, MAX32, 1), (1, 5, 9), (), id="FALSE OR error"),
    pytest.param("l.a + 1 = r.a", (1, MAX32), (1, 5), (), id="overflow in a key"),
    pytest.param("coalesce(l.a + 1, 0) < r.a", (1, MAX32), (1, 5), (), id="coalesce hides no error"),
    pytest.param("NOT (l.a + 10 >= r.a)", (1, MAX32), (1, 5), (), id="under NOT"),
]


@pytest.mark.parametrize(("condition", "left", "right", "parts"), ERRING)
@pytest.mark.parametrize("first", ["left", "right"])
def test_raised_for_the_pair(condition: str, left: tuple, right: tuple, parts: tuple[str, ...], first: str) -> None:
    op = make(condition, "full")
    rows_ = {"left": batch(left), "right": batch(right)}
    second = "right" if first == "left" else "left"
    assert pull(op.push(first, rows_[first])) == [], "no partner yet: no error, and nothing decided"
    with pytest.raises(EvaluationError) as e:
        pull(op.push(second, rows_[second]))
    for part in parts:
        assert part in str(e.value)
    assert isinstance(e.value, ArithmeticError)
    with pytest.raises(ProtocolError):
        op.push(first, rows_[first])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("condition", "left", "right", "parts"), ERRING)
@pytest.mark.parametrize("how", ["full", "left_anti", "right_anti", "inner", "left_semi"])
def test_no_pair_of_equal_keys_no_error(condition: str, left: tuple, right: tuple, parts: tuple, how: str) -> None:
    """Without a partner, the row that would raise is an unmatched row like any other."""
    op = make(condition, how)
    out = pull(op.push("left", batch(left))) + pull(op.push("right", batch((2, *right[1:]))))
    out += pull(op.push("left", batch((3, *left[1:])))) + pull(op.finish())
    assert len(out) == {"full": 3, "left_anti": 2, "right_anti": 1}.get(how, 0)


QUIET = [
    pytest.param("l.b > r.b AND l.a + 10 < r.a", (1, MAX32, 1), (1, 5, 9), id="a FALSE to the left"),
    pytest.param("r.b <> 0 AND l.a div r.b > 1", (1, 5), (1, 5, 0), id="a filter before the division"),
    pytest.param("CASE WHEN r.b = 0 THEN FALSE ELSE l.a div r.b > 1 END", (1, 5), (1, 5, 0), id="CASE"),
    pytest.param(
        "l.b < r.b AND (l.a < 100 AND l.a * r.a > 3)", (1, 100_000, 1), (1, 100_000, 5), id="within a bracket"
    ),
    pytest.param("NOT (l.b <= r.b OR l.a + 10 >= r.a)", (1, MAX32, 1), (1, 5, 9), id="NOT OR"),
    pytest.param("ln(l.b) < r.a", (1, 5, 0), (1, 5), id="the logarithm of zero is NULL"),
    pytest.param("sqrt(l.a) < r.a", (1, -5), (1, 5), id="the root of a negative is NaN"),
    pytest.param("coalesce(r.b, l.a + 10) < 0", (1, MAX32), (1, 5, 7), id="coalesce stops at a value"),
]


@pytest.mark.parametrize(("condition", "left", "right"), QUIET)
@pytest.mark.parametrize("first", ["left", "right"])
def test_nothing_is_raised_where_evaluation_stops_before(condition: str, left: tuple, right: tuple, first: str) -> None:
    op = make(condition, "full")
    rows_ = {"left": batch(left), "right": batch(right)}
    out = pull(op.push(first, rows_[first]))
    out += pull(op.push("right" if first == "left" else "left", rows_["right" if first == "left" else "left"]))
    out += pull(op.finish())
    assert len(out) == 2, "two unmatched rows"


def test_an_error_may_be_hidden_where_the_pair_cannot_match() -> None:
    """Far outside the window the square overflows; whether it is computed there is the planner's affair."""
    op = make("(l.a - r.a) * (l.a - r.a) < 400", "full")
    pull(op.push("left", batch((1, 70_000))))
    try:
        out = pull(op.push("right", batch((1, 1)))) + pull(op.finish())
    except EvaluationError:
        return
    assert len(out) == 2


def test_true_or_error_is_true() -> None:
    op = make("l.b = 0 OR 1 div l.b > r.a")
    pull(op.push("left", batch((1, 5, 0))))
    assert len(pull(op.push("right", batch((1, 5))))) == 1


def test_the_other_rows_of_a_batch_are_not_harmed() -> None:
    op = make("l.a + 10 > r.a AND l.a < r.a + 10", "full")
    assert pull(op.push("left", batch((1, 5), (2, MAX32), (3, 7), (4, MAX32 - 10)))) == []
    got = pull(op.push("right", batch((1, 6), (3, 8), (5, MAX32), (4, MAX32 - 11))))
    assert sorted(r[0] for r in got) == [1, 3, 4]
    assert sorted(r[0] for r in pull(op.finish())) == [2, 5]


@pytest.mark.parametrize("ordered", [False, True])
def test_large_values_that_do_not_overflow_still_match(ordered: bool) -> None:
    """Where a rewrite could overflow but the condition as written does not."""
    order = {"left_order": "c", "right_order": "c"} if ordered else {}
    op = make("l.c - r.c BETWEEN -10 AND 10", "full", **order)
    left = batch((1, 0, 0, -MAX64 - 1), (1, 0, 0, -MAX64), (2, 0, 0, MAX64 - 3))
    right = batch((1, 0, 0, -MAX64 + 5), (2, 0, 0, MAX64))
    out = pull(op.push("left", left)) + pull(op.push("right", right)) + pull(op.finish())
    assert sorted((r[3], r[7]) for r in out) == [(-MAX64 - 1, -MAX64 + 5), (-MAX64, -MAX64 + 5), (MAX64 - 3, MAX64)]


def test_pruning_hides_an_error_and_causes_none() -> None:
    """The left row at the limit has no partner nearby: whatever the frontiers, it is just unmatched."""
    op = make("l.c + 10 >= r.c AND l.c <= r.c", "full", left_order="c", right_order="c")
    out = pull(op.push("left", batch((1, 0, 0, 5), (2, 0, 0, MAX64))))
    out += pull(op.push("right", batch((1, 0, 0, 7), (3, 0, 0, 100), (4, 0, 0, MAX64 - 1))))
    out += pull(op.finish())
    assert len(out) == 4
    assert sum(r[3] == 5 and r[7] == 7 for r in out) == 1


def test_decided_row_with_an_error_is_emitted() -> None:
    """Its filter errs, but the right has passed its band: it is unmatched, without an error."""
    op = make("l.a BETWEEN r.a - 2 AND r.a + 2 AND 10 div l.b > 0", "left", left_order="a", right_order="a")
    assert pull(op.push("left", batch((1, 5, 0), (1, 50, 0)))) == []
    got = pull(op.push("right", batch((1, 20))))
    assert [r[1] for r in got] == [5]
    assert [r[1] for r in pull(op.finish())] == [50]


def test_an_erring_row_is_remembered_through_a_snapshot() -> None:
    op = make("l.a + 10 < r.a", "full")
    pull(op.push("left", batch((1, MAX32), (2, 3))))
    op = SymmetricHashJoin.restore(op.snapshot())
    assert len(pull(op.push("right", batch((2, 20))))) == 1
    with pytest.raises(EvaluationError):
        pull(op.push("right", batch((1, 20))))


def test_an_order_that_errs_is_an_error_of_its_row() -> None:
    op = make("l.a < r.a", left_order="a + 10")
    pull(op.push("left", batch((1, 5))))
    with pytest.raises(IvjoinError, match=r"a \+ 10|overflow"):
        pull(op.push("left", batch((1, MAX32))))


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_key_that_erred_is_remembered_by_a_snapshot(snapshots: bool) -> None:
    """A row whose computed key errs is set against every row, before and after a restore."""
    schema = pa.schema({"a": pa.int32(), "b": pa.int32(), "t": pa.int64()})
    op = SymmetricHashJoin(
        schema, schema, condition="l.a + l.b = r.a + r.b AND l.t BETWEEN r.t - 9 AND r.t", left_order="t",
        right_order="t",
    )
    for a in (1, 2**31 - 1, 3):
        assert list(op.push("left", pa.record_batch({"a": [a], "b": [5], "t": [1]}, schema=schema))) == []
        if snapshots:
            op = SymmetricHashJoin.restore(op.snapshot())
    with pytest.raises(EvaluationError, match=r"integer overflow in l\.a \+ l\.b"):
        list(op.push("right", pa.record_batch({"a": [4], "b": [4], "t": [2]}, schema=schema)))
