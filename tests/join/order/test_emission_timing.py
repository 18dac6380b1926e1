"""When rows are emitted: matches with the push that made them, unmatched rows as soon as they are decided."""

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

    @property
    def state(self) -> int:
        return self.op.metrics.state_rows


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


def test_nulls_last_ends_the_values() -> None:
    op = Op("left", right_order=Order("a", nulls="last"))
    assert op.left((1, 5)) == []
    assert op.right((1, 4)) == [(1, 5, 4)]
    assert op.left((1, 90)) == []
    assert op.right((1, None)) == [(1, 90, None)], "after a null only nulls come"
    assert op.left((1, 91)) == [(1, 91, None)]
    assert op.state == 0


def test_a_condition_that_is_never_true_keeps_nothing() -> None:
    op = Op("full", "l.a < r.a AND 1 = 2", on=None)
    assert op.left((1, 2)) == [(1, 2, None, None)]
    assert op.right((1, 2)) == [(None, None, 1, 2)]
    assert op.state == 0


def test_the_order_of_another_expression_decides_too() -> None:
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    op = Op(
        "left", "l.a + l.b <= r.a + r.b AND l.a + l.b >= r.a + r.b - 2", schema=schema, left_order=None,
        right_order=Order("a + b"),
    )
    assert op.left((1, 2, 3), (1, 50, 3)) == []
    assert op.right((1, 100, -92)) == [(1, 2, 3, None, None)]
    assert op.state == 2
