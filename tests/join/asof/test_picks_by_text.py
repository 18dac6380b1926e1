"""Joins that pick by text, bytes and long decimals: against a nested loop and DuckDB; state; errors."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from taken import one_of

import ivjoin
from ivjoin import SymmetricHashJoin
from ivjoin.errors import ConditionError, EvaluationError


def test_types_without_distance_or_order() -> None:
    left = pa.table({"t": [1], "s": ["a"], "d": pa.array([Decimal(1)], pa.decimal128(30, 0))})
    for name, said in (("s", "is string"), ("d", r"is decimal\(30, ?0\)")):
        with pytest.raises(ConditionError, match=f"{said}, have no distances.*'backward' or 'forward'"):
            one_of(left.schema, left.schema, "nearest", name, name)
        with pytest.raises(ConditionError, match=f"on.*{said}.*a time"):
            ivjoin.asof_join(left, left, on=name)
    for value in ([1], {"a": 1}):
        with pytest.raises(ConditionError, match="expected a number, a bool, a time, text or bytes"):
            ivjoin.band_join(left, pa.table({"x": [value]}), pick=ivjoin.Pick("x", "last"))
    right = pa.table({"x": ["a"]})
    for pick in (
        ivjoin.Pick("cast(cast(x AS int) AS string)", "last"),
        one_of(left.schema, right.schema, "last", "cast(cast(x AS int) AS string)"),
    ):
        with pytest.raises(EvaluationError, match="cast"):
            list(ivjoin.band_join(left, right, pick=pick))


# -- what is held ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_text_of_evicted_rows_is_freed() -> None:
    left, right = pa.schema({"t": pa.int64()}), pa.schema({"t": pa.int64(), "s": pa.string()})
    op = SymmetricHashJoin(
        left, right, condition="r.t BETWEEN l.t - 50 AND l.t", left_order="t", right_order="t",
        pick=one_of(left, right, "last", "s"),
    )
    rows = []
    for at in range(0, 40_000, 500):
        t = np.arange(at, at + 500)
        for side, columns in (("right", [t, [f"{i * 7919 % 40_009:060}" for i in t]]), ("left", [t])):
            for b in op.push(side, pa.record_batch(columns, schema=right if side == "right" else left)):
                rows += b.to_pylist()
    assert op.metrics.peak_state_rows <= 1_700
    assert op.metrics.state_bytes < 700_000
    assert all(r["s"] == max(f"{i * 7919 % 40_009:060}" for i in range(max(0, r["t"] - 50), r["t"] + 1)) for r in rows)
    assert len(rows) > 39_000
    assert not list(op.finish("left"))
    for at in range(40_000, 60_000, 500):  # which nobody can take
        t = np.arange(at, at + 500)
        late = [r["t"] for b in op.push("right", pa.record_batch([t, [f"{i:060}" for i in t]], schema=right))
                for r in b.to_pylist()]
        assert late == ([39_999] if at == 40_000 else [])
    assert op.metrics.state_rows == 0 and op.metrics.state_bytes < 700_000


@pytest.mark.slow
def test_one_row_of_a_key_is_stored_if_every_left_row_can_take_it() -> None:
    left = pa.schema({"k": pa.int64(), "t": pa.int64(), "id": pa.int64()})
    right = pa.schema({"k": pa.int64(), "t": pa.int64(), "s": pa.string(), "n": pa.int64()})
    rng = np.random.default_rng(4)
    for by in ("s", ["n", "s"]):
        op = SymmetricHashJoin(
            left, right, on="k", condition="r.t <= l.t AND r.t >= 0", left_order="t", right_order="t",
            pick=one_of(left, right, "last", by), how="left",
        )
        best: dict[int, Any] = {}
        rows: dict[int, Any] = {}
        want: dict[int, Any] = {}
        for at in range(0, 20_000, 500):
            t, keys, numbers = np.arange(at, at + 500), rng.integers(0, 30, 500), rng.integers(0, 1 << 40, 500)
            words = [f"{n:015}" for n in numbers]
            out = [*op.push("right", pa.record_batch([keys, t, words, numbers], schema=right))]
            asked = rng.integers(0, 30, 500)
            out += op.push("left", pa.record_batch([asked, t, t], schema=left))
            rows |= {r["id"]: r["s"] for b in out for r in b.to_pylist()}
            for i in range(500):
                best[keys[i]] = max(best.get(keys[i], ""), words[i])
                want[at + i] = best.get(asked[i])
        assert op.metrics.peak_state_rows < 2_500 and op.metrics.state_rows < 1_100
        rows |= {r["id"]: r["s"] for b in op.finish() for r in b.to_pylist()}
        assert rows == want
