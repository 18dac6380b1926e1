"""Bytes of stored rows: at most twice their payload once a window has many times the rows of a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench import report, tables
from bench.memory import KINDS, held
from ivjoin import SymmetricHashJoin
from ivjoin.operator.match.kernel import reuse


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "make", "condition"), KINDS, ids=[k for k, *_ in KINDS])
def test_state_is_at_most_twice_the_payload(kind, make, condition):
    found = held(kind, make, condition, 20_000)
    assert 40_000 <= found["state_rows"] <= 42_000
    assert found["ratio"] <= 2.0


@pytest.mark.one_in(5)
@pytest.mark.parametrize("which", [0, 1, 3, 4, 5, 6], ids=lambda i: KINDS[i][0])
def test_state_is_less_than_one_and_a_half_times_the_payload_where_keys_have_many_rows(which: int) -> None:
    reuse.forget()
    assert held(*KINDS[which], 10_000)["ratio"] < 1.5


def test_the_ratio_is_on_the_page(tmp_path):
    records = [held(*KINDS[0], 2000)]
    assert f"{records[0]['ratio']:.2f}" in tables.memory_table(records)
    assert "Bytes of state for each byte of payload" in report.render(records, [], tmp_path)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", [True, False], ids=["text", "words"])
def test_memory_is_freed_after_a_burst(text: bool) -> None:
    """A window that was large for a while needs hardly more memory afterwards than one that never was."""
    kind = pa.string() if text else pa.int64()
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "name": kind})

    def state(burst: int) -> int:
        op = SymmetricHashJoin(
            schema, schema, on="k", condition="l.t BETWEEN r.t - 10 AND r.t + 10", left_order="t", right_order="t"
        )
        for i in range(400):
            n = burst if i == 5 else 100
            for side in ("left", "right"):
                t, k = np.full(n, 5 * i), np.arange(n) + (n if side == "left" else 0)
                batch = pa.record_batch([k, t, pa.array(range(n), pa.int64()).cast(kind)], schema=schema)
                for _ in op.push(side, batch):
                    pass
        return op.metrics.state_bytes

    few, many = state(100), state(20_000)
    assert many <= 1.5 * few + 16_384
    assert few <= 150_000
