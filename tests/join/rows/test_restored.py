"""A join that is saved and restored at random points gives the rows of an uninterrupted one."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from drivers import restored

import ivjoin
from ivjoin.operator.lookup import rows as stored


@pytest.mark.parametrize("block", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 12))])
def test_joins_restored_at_random_points(block: int) -> None:
    did: Counter[str] = Counter()
    for seed in range(20 * block, 20 * block + 20):
        restored.check(seed, did)
    assert did["restored"] >= 20
    assert did["within a limit"] >= 7
    assert did["in files"]


@pytest.mark.parametrize("side", ["left", "right"])
def test_more_text_than_a_column_holds(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema({"t": pa.int64(), "s": pa.string()})
    op = ivjoin.SymmetricHashJoin(
        schema, schema, condition="l.t >= r.t", left_order="t", right_order="t", how="left",
        pick=ivjoin.Pick("t", "last"),
    )
    monkeypatch.setattr(stored, "_SHORT", 0)  # the columns of few rows stay apart, as those of many do
    for t in (1, 2):
        list(op.push(side, pa.record_batch([[t], ["x"]], schema=schema)))

    def full(arrays: object) -> pa.Array:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    with monkeypatch.context() as patch:
        patch.setattr(stored, "one_array", full)
        with pytest.raises(ivjoin.errors.CapacityError, match=f"stored rows of the {side} input.*large_string"):
            op.snapshot()
    assert ivjoin.SymmetricHashJoin.restore(op.snapshot()).metrics.state_rows == 2
