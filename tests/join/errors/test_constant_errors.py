"""A conjunct without columns that raises: for the first pair that must evaluate it, and for no other."""

from __future__ import annotations

from typing import Any

import oracle
import pyarrow as pa
import pytest
from join.tables import rows

from ivjoin import EvaluationError, SymmetricHashJoin, band_join

ERRING = [
    "2147483647 + 1 < 0", "1/0 > 0", "1 % 0 = 5", "1 div 0 > 1", "CAST('x' AS INT) > 3", "CAST(300 AS TINYINT) < 0",
    "coalesce(1/0, 3) = 5", "NOT (1/0 > 0)", "1/0 > 0 OR 1 = 2", "-CAST(-128 AS TINYINT) > 0",
    "NULL AND 1/0 > 0", "NULL > 3 AND l.a = r.a AND 1/0 > 0",
    "l.a - r.a > CAST(300 AS TINYINT)", "l.a - r.a >= 2147483647 + 1", "abs(l.a - r.a) <= 1 div 0",
]  # fmt: skip
SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int32(), "s": pa.string()})


def table(*values: tuple[int, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "a": a, "s": ""} for k, a in values], SCHEMA)


def join(left: pa.Table, right: pa.Table, condition: str, how: str = "inner", **options: Any) -> list[tuple]:
    out = band_join(left, right, **{"on": "k", "condition": condition, "how": how, **options})
    return [r for b in out for r in rows(b)]


@pytest.mark.parametrize("condition", ERRING)
def test_raised_for_a_pair_with_equal_keys(condition: str) -> None:
    with pytest.raises(EvaluationError):
        join(table((1, 5)), table((1, 5)), condition)


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("orders", [{}, {"left_order": "a", "right_order": "a"}], ids=["unordered", "ordered"])
@pytest.mark.parametrize("keyed", [True, False])
def test_every_join_type_raises(how: str, orders: dict[str, str], keyed: bool) -> None:
    with pytest.raises(EvaluationError, match="zero"):
        join(table((1, 5)), table((1, 5)), "1/0 > 0", how, on="k" if keyed else None, **orders)


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("condition", ["1/0 > 0", "l.a > 0 AND 1/0 > 0", "1/0 > 0 AND l.a <= r.a"])
def test_without_a_pair_nothing_is_raised(how: str, condition: str) -> None:
    """Every row is unmatched, as with any condition that no pair gets to."""
    left, right = table((1, 5), (2, 6)), table((3, 5))
    out = join(left, right, condition, how)
    assert len(out) == {"left": 2, "right": 1, "full": 3, "left_anti": 2, "right_anti": 1}.get(how, 0)
    out = join(left, right.slice(0, 0), condition, how, on=None)
    assert len(out) == {"left": 2, "full": 2, "left_anti": 2}.get(how, 0)


@pytest.mark.parametrize("how", oracle.HOWS)
def test_a_conjunct_to_the_left_that_is_false_saves_the_pair(how: str) -> None:
    left, right = table((1, 0), (2, -3)), table((1, 5), (2, 6))
    for condition in ("l.a > 0 AND 1/0 > 0", "l.a > r.a AND 1/0 > 0", "l.a BETWEEN r.a AND r.a + 3 AND 1/0 > 0"):
        out = join(left, right, condition, how)
        assert len(out) == {"left": 2, "right": 2, "full": 4, "left_anti": 2, "right_anti": 2}.get(how, 0)
        assert len(join(left, right, f"FALSE AND {condition}", how)) == len(out)


@pytest.mark.parametrize("condition", ["l.a > 0 AND 1/0 > 0", "l.a >= r.a AND 1/0 > 0", "l.a = r.a AND 1/0 > 0"])
@pytest.mark.parametrize("how", ["inner", "left_anti", "full"])
def test_a_conjunct_to_the_left_that_is_true_or_null_does_not(condition: str, how: str) -> None:
    with pytest.raises(EvaluationError, match="zero"):
        join(table((1, 5)), table((1, 5)), condition, how)
    if "=" not in condition:  # a NULL in a comparison of both sides is decided before any pair is made
        with pytest.raises(EvaluationError, match="zero"):
            join(table((1, None)), table((1, 5)), condition, how)


@pytest.mark.parametrize(
    "condition", ["1/0 > 0 AND l.a > 0", "1/0 > 0 AND l.a > r.a", "1/0 > 0 AND FALSE", "1/0 > 0 AND l.s LIKE 'x%'"]
)
@pytest.mark.parametrize("how", ["inner", "left_anti", "full"])
def test_a_conjunct_to_the_right_saves_nothing(condition: str, how: str) -> None:
    with pytest.raises(EvaluationError, match="zero"):
        join(table((1, -5)), table((1, 5)), condition, how)


def test_constants_without_errors_decide() -> None:
    left, right = table((1, 5)), table((1, 5))
    assert len(join(left, right, "1 + 1 = 2 AND l.a = r.a")) == 1
    for never in ("1 + 1 = 3", "NULL > 3", "1 = 2 AND 1/0 > 0"):
        assert join(left, right, never) == []
        assert len(join(left, right, never, "full")) == 2


@pytest.mark.parametrize("how", oracle.HOWS)
def test_rows_wait_for_the_pair_through_a_snapshot(how: str) -> None:
    """Whichever side comes first, and in batches without any partner."""
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition="1/0 > 0 AND l.a > r.a", how=how)
    push = lambda side, *values: list(op.push(side, table(*values).to_batches()[0]))  # noqa: E731
    assert push("left", (1, 5), (2, None)) == push("right", (3, 5)) == push("left", (4, 1)) == []
    op = SymmetricHashJoin.restore(op.snapshot())
    with pytest.raises(EvaluationError, match="zero"):
        push("right", (9, 9), (2, 9))
