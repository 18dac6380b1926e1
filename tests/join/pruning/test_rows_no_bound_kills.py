"""Rows whose axis has no value: whatever its bounds do, they may still match."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ivjoin

SCHEMA = pa.schema({"k": pa.int8(), "a": pa.int8()})


def batch(*values: int | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array([1] * len(values), pa.int8()), pa.array(values, pa.int8())], schema=SCHEMA)


@pytest.mark.parametrize("how", ["inner", "left", "full", "left_semi", "left_anti"])
@pytest.mark.parametrize("falling", [True, False])
def test_a_null_that_was_stored_before_any_bound_moved(how: str, falling: bool) -> None:
    sign = -1 if falling else 1
    op = ivjoin.SymmetricHashJoin(
        SCHEMA, SCHEMA, on="k", condition=f"l.a IS NULL OR l.a {'<=' if falling else '>='} r.a", how=how,
        right_order=[ivjoin.Order("a", descending=falling, slack=1)],
        right_bounds={"a": (-12, -10) if falling else (10, 12)},
    )  # fmt: skip
    got = list(op.push("left", batch(None, sign * 12)))
    for a in (10, 11, 12, 12, 12):
        got += op.push("right", batch(sign * a))
    got += op.finish()
    rows = sum(b.num_rows for b in got)
    assert rows == {"inner": 10, "left": 10, "full": 10, "left_semi": 2, "left_anti": 0}[how]
