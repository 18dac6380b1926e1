"""Output batches that the kernels build have the same rows as those that Arrow builds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.operator.match import blocks, lending

pytestmark = pytest.mark.nojit
S = pa.schema({"k": pa.int64(), "t": pa.int64()})


def joined() -> tuple[list[Any], bool]:
    """The rows of a small join, and whether its output was built in blocks."""
    op = SymmetricHashJoin(S, S, on="k", condition="l.t <= r.t", how="full", left_order="t", right_order="t")
    out = [*op.push("left", pa.record_batch({"k": [1, 2], "t": [5, 6]}, schema=S))]
    out += [*op.push("right", pa.record_batch({"k": [1, 1], "t": [5, 7]}, schema=S)), *op.finish()]
    rows = sorted((tuple(row.values()) for b in out for row in b.to_pylist()), key=repr)
    return rows, bool(op._core.state.get("blocks"))


ROWS = [(1, 5, 5), (1, 5, 7), (2, 6, None)]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.delenv(blocks.VARIABLE, raising=False)
    lending.forget()


def test_with_and_without_blocks_the_rows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joined() == (ROWS, True)
    monkeypatch.setenv(blocks.VARIABLE, "0")
    assert joined() == (ROWS, False)
