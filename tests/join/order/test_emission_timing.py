"""When rows come out: matches with the push that made them, unmatched rows as soon as they are decided."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from join.tables import rows

from ivjoin import Order, SymmetricHashJoin

SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int64()})
NEAR = "l.a BETWEEN r.a - 2 AND r.a + 2"


def batch(*values: tuple[Any, Any], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, v)) for v in values], schema)


class Op:
    """An operator that tells what each call gave, as a sorted list of rows."""

    def __init__(
        self, how: str, condition: str | None = NEAR, on: Any = "k", schema: pa.Schema = SCHEMA, **options: Any
    ) -> None:
        options = {"left_order": "a", "right_order": "a", **options}
        self.schema = schema
        self.op = SymmetricHashJoin(schema, schema, on=on, condition=condition, how=how, **options)

    def _taken(self, out: Any) -> list[tuple]:
        return sorted((r for b in out for r in rows(b)), key=repr)

    def left(self, *values: tuple) -> list[tuple]:
        return self._taken(self.op.push("left", batch(*values, schema=self.schema)))

    def right(self, *values: tuple) -> list[tuple]:
        return self._taken(self.op.push("right", batch(*values, schema=self.schema)))

    def advance(self, side: str, **values: Any) -> list[tuple]:
        return self._taken(self.op.advance(side, values))

    def finish(self, side: str | None = None) -> list[tuple]:
        return self._taken(self.op.finish(side) if side else self.op.finish())

    @property
    def state(self) -> int:
        return self.op.metrics.state_rows


@pytest.mark.nojit
def test_left_outer_rows_are_emitted_when_decided() -> None:
    op = Op("left")
    assert op.left((1, 1), (1, 5), (1, 10)) == []
    # 5 meets 4; 1 reaches to 3 and the right has passed it.
    assert op.right((1, 4)) == [(1, 1, None), (1, 5, 4)]
    assert op.right((1, 8)) == [(1, 10, 8)]
    assert op.right((1, 13)) == []
    assert op.finish() == []


def test_the_bound_is_inclusive_and_a_strict_one_is_strict() -> None:
    op = Op("left")
    assert op.left((1, 1)) == []
    assert op.right((9, 3)) == [], "another right row with 3 may come and match"
    assert op.right((9, 4)) == [(1, 1, None)]
    op = Op("left", "l.a > r.a - 2 AND l.a < r.a + 2")
    assert op.left((1, 1)) == []
    assert op.right((9, 2)) == []
    assert op.right((9, 3)) == [(1, 1, None)], "no later right row is below 3, and 1 > 3 - 2 does not hold"


@pytest.mark.parametrize(
    ("how", "want"), [("left", (None, 7, None)), ("full", (None, 7, None)), ("left_anti", (None, 7))]
)
def test_a_null_key_is_decided_on_arrival(how: str, want: tuple) -> None:
    op = Op(how)
    assert op.left((None, 7)) == [want]
    assert op.state == 0
    assert op.op.metrics.left_rows_retired == 1


@pytest.mark.parametrize(("how", "want"), [
    ("left", [(1, None, None)]), ("full", [(1, None, None)]), ("left_anti", [(1, None)]), ("inner", []),
    ("right", []), ("left_semi", []), ("right_semi", []), ("right_anti", []),
])  # fmt: skip
@pytest.mark.parametrize("orders", [{}, {"left_order": None, "right_order": None}], ids=["ordered", "unordered"])
def test_a_null_band_value_is_decided_on_arrival(how: str, want: list, orders: dict) -> None:
    op = Op(how, **orders)
    assert op.left((1, None)) == want
    assert op.state == 0
    assert op.op.metrics.left_rows_retired == 1


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("null_safe", [False, True])
def test_a_null_under_a_null_safe_key_waits(side: str, null_safe: bool) -> None:
    op = Op("full", f"{NEAR} AND l.k {'<=>' if null_safe else '='} r.k", on=None)
    got = op.left((None, 7)) if side == "left" else op.right((None, 7))
    alone = (None, 7, None, None) if side == "left" else (None, None, None, 7)
    assert got == ([] if null_safe else [alone])
    assert op.state == int(null_safe)
    other = op.right((None, 8)) if side == "left" else op.left((None, 8))
    met = (None, 7, None, 8) if side == "left" else (None, 8, None, 7)
    assert (met in other) is null_safe


@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_a_row_that_fails_a_filter_is_decided_on_arrival(how: str) -> None:
    """A conjunct over the left alone is no time bound; the rows it rejects are unmatched at once."""
    op = Op(how, f"{NEAR} AND l.k > 5", on=None)
    assert op.left((3, 10)) == [(3, 10) if how == "left_anti" else (3, 10, None, None)]
    assert op.left((6, 10)) == []
    assert op.state == 1


def test_semi_rows_are_emitted_once_at_their_first_match() -> None:
    op = Op("left_semi")
    assert op.left((1, 5), (2, 5), (1, 6)) == []
    assert op.right((1, 4), (1, 4)) == [(1, 5), (1, 6)]
    assert op.state <= 3, "a left row that has come out takes no room; the right rows may"
    assert op.right((1, 5)) == []
    assert op.left((1, 6)) == [(1, 6)], "a right row is there already"
    assert op.finish() == []


def test_right_semi_rows_are_emitted_once_at_their_first_match() -> None:
    op = Op("right_semi")
    assert op.right((1, 5), (2, 5)) == []
    assert op.left((1, 5), (1, 5)) == [(1, 5)]
    assert op.left((1, 6)) == []
    assert op.right((1, 6)) == [(1, 6)]
    assert op.finish() == []


def test_anti_rows_are_evicted_at_a_match_and_emitted_when_decided() -> None:
    op = Op("left_anti")
    assert op.left((1, 5), (2, 5), (1, 9)) == []
    assert op.right((1, 5)) == []
    assert op.right((1, 8)) == [(2, 5)]
    assert op.right((1, 12)) == []
    assert op.left((3, 9)) == [(3, 9)], "behind the right's frontier and unmatched: at once"
    assert op.finish() == []


def test_matched_anti_row_takes_no_memory() -> None:
    op = Op("left_anti", right_order=None, left_order=None)
    op.left((1, 5), (1, 6), (1, 50))
    op.right((1, 5))
    # Of the left, 50 alone is undecided; the right row stays for later left rows.
    assert op.state == 2


@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_a_row_behind_the_other_sides_frontier_never_waits(how: str) -> None:
    op = Op(how)
    op.right((1, 100))
    got = op.left((1, 1), (1, 97))
    width = (1, 1) if how == "left_anti" else (1, 1, None)
    assert width in got and len(got) == 2
    assert op.state == 1, "of both sides, the right's 100 alone can still match"


def test_full_outer_decides_both_sides() -> None:
    op = Op("full")
    assert op.left((1, 1)) == []
    assert op.right((1, 10)) == [(1, 1, None)]
    assert op.left((1, 20)) == [(1, None, 10)]
    assert op.state == 1
    assert op.finish() == [(1, 20, None)]


def test_the_end_of_a_side_decides_the_other() -> None:
    op = Op("full", left_order=None, right_order=None)
    assert op.left((1, 1), (1, 2)) == []
    assert op.right((1, 2)) == [(1, 1, 2), (1, 2, 2)]
    assert op.left((2, 9)) == []
    assert op.finish("right") == [(2, 9, None)]
    assert op.state == 1, "the right row may still match left rows"
    assert op.left((7, 7)) == [(7, 7, None)]
    assert op.left((1, 3)) == [(1, 3, 2)]
    assert op.finish("left") == []
    assert op.state == 0


def test_a_watermark_decides() -> None:
    op = Op("left", left_order=None, right_order=None)
    assert op.left((1, 1), (1, 50)) == []
    assert op.advance("right", a=3) == []
    assert op.advance("right", a=4) == [(1, 1, None)]
    assert op.advance("right", a=2) == [], "behind the frontier it changes nothing"
    assert op.left((1, 1)) == [(1, 1, None)]
    assert op.advance("left", a=1000) == []
    assert op.state == 1
    assert op.right((1, 48)) == [(1, 50, 48)]
    assert op.finish() == []


def test_slack_is_not_subtracted_from_a_watermark() -> None:
    op = Op("left", right_order=Order("a", slack=10))
    assert op.left((1, 1), (1, 20)) == []
    assert op.right((9, 13)) == [], "later right rows may be as low as 3"
    assert op.right((9, 14)) == [(1, 1, None)]
    assert op.right((9, 4)) == [], "not late: 14 - 10"
    assert op.advance("right", a=23) == [(1, 20, None)]


def test_a_watermark_of_a_descending_order_bounds_from_above() -> None:
    op = Op("left", left_order=Order("a", descending=True), right_order=Order("a", descending=True))
    assert op.left((1, 50), (1, 20)) == []
    assert op.advance("right", a=48) == []
    assert op.advance("right", a=47) == [(1, 50, None)]
    assert op.right((1, 22)) == [(1, 20, 22)]


def test_nulls_last_ends_the_values() -> None:
    op = Op("left", right_order=Order("a", nulls="last"))
    assert op.left((1, 5)) == []
    assert op.right((1, 4)) == [(1, 5, 4)]
    assert op.left((1, 90)) == []
    assert op.right((1, None)) == [(1, 90, None)], "after a null only nulls come"
    assert op.left((1, 91)) == [(1, 91, None)]
    assert op.state == 0


def test_nulls_anywhere_say_nothing() -> None:
    op = Op("left")
    assert op.left((1, 5)) == []
    assert op.right((1, None)) == []
    assert op.right((1, 4)) == [(1, 5, 4)]


def test_a_batch_is_joined_before_its_frontier_prunes() -> None:
    op = Op("left")
    assert op.left((1, 1), (1, 2)) == []
    assert op.right((1, 3), (1, 100)) == [(1, 1, 3), (1, 2, 3)]


def test_bounds_decide_on_arrival() -> None:
    op = Op("left", left_order=None, right_order=None, right_bounds={"a": (0, 10)})
    assert op.left((1, 13), (1, -3)) == [(1, -3, None), (1, 13, None)]
    assert op.left((1, 12), (1, -2)) == []
    assert op.state == 2


def test_a_condition_that_is_never_true_keeps_nothing() -> None:
    op = Op("full", "l.a < r.a AND 1 = 2", on=None)
    assert op.left((1, 2)) == [(1, 2, None, None)]
    assert op.right((1, 2)) == [(None, None, 1, 2)]
    assert op.state == 0


def test_rows_of_a_float_side_with_nan() -> None:
    schema = pa.schema({"k": pa.int64(), "a": pa.float64()})
    op = Op("left", "l.a >= r.a", schema=schema)
    assert op.left((1, 1.0), (1, float("nan"))) == []
    # No later right row is below 2: 1.0 is decided; NaN is above everything and stays.
    got = op.right((2, 2.0))
    assert got == [(1, ("float", (1.0).hex()), None)]
    assert op.right((1, float("inf"))) == [(1, "NaN", ("float", "inf"))]


def test_the_order_of_another_expression_decides_too() -> None:
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    op = Op(
        "left", "l.a + l.b <= r.a + r.b AND l.a + l.b >= r.a + r.b - 2", schema=schema, left_order=None,
        right_order=Order("a + b"),
    )
    assert op.left((1, 2, 3), (1, 50, 3)) == []
    assert op.right((1, 100, -92)) == [(1, 2, 3, None, None)]
    assert op.state == 2
