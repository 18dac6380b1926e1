"""What ``explain`` shows of the rows that a picking join stores, compared with what it does store."""

from __future__ import annotations

import pyarrow as pa
import pytest
from taken import one_of

import ivjoin
from ivjoin import SymmetricHashJoin

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "u": pa.int64(), "name": pa.string()})
ROWS, EACH = 3000, 50
NEVER, BETTER, DONE = "can never be evicted", "are evicted once a better one", "are emitted once they have a match"

CASES: list[tuple[str | None, bool, str, str]] = [
    ("r.t <= l.t", True, "last", "t"), ("r.t <= l.t", True, "first", "t"), ("r.t >= l.t", True, "first", "t"),
    ("r.t BETWEEN l.t - 5 AND l.t", True, "last", "t"), ("r.t <= l.t", True, "last", "name"),
    ("r.t <= l.t AND r.u * l.u < 9", True, "last", "t"), (None, False, "last", "t"), (None, True, "first", "t"),
    (None, True, "nearest", "t"), ("r.t <= l.t", False, "last", "t"),
]


@pytest.mark.one_in(17)
@pytest.mark.parametrize(("condition", "ordered", "pick", "by"), CASES)
@pytest.mark.parametrize("on", ["k", None])
def test_evictions_are_explained(on: str | None, condition: str | None, ordered: bool, pick: str, by: str) -> None:
    if on is None and condition is None:
        condition = "l.k = r.k"
    ask = {"left_order": "t", "right_order": "t"} if ordered else {}
    question = {"on": on, "condition": condition, "how": "left", "pick": one_of(SCHEMA, SCHEMA, pick, by), **ask}
    lines = [x.strip() for x in str(ivjoin.explain(
        SCHEMA, SCHEMA, condition=question.pop("condition"), **question
    )).splitlines()]
    op = SymmetricHashJoin(SCHEMA, SCHEMA, condition=condition, **question)
    held = {"left": 0, "right": 0}
    for start in range(0, ROWS, EACH):
        at = list(range(start, start + EACH))
        rows = {"k": [x % 3 for x in at], "t": at, "u": [x % 5 for x in at], "name": [f"n{x % 97}" for x in at]}
        for side in held:
            for _ in op.push(side, pa.record_batch(rows, schema=SCHEMA)):
                pass
        m = op.metrics
        held = {"left": m.left_rows_in - m.left_rows_retired, "right": m.right_rows_in - m.right_rows_retired}
    assert m.state_rows == sum(held.values())
    for side, rows_held in held.items():
        told = [x for x in lines if x.startswith(f"{side} rows")]
        if any(NEVER in x for x in told):
            assert len(told) == 1
            assert rows_held == ROWS
        else:
            assert any(BETTER in x or DONE in x or "are stored while" in x for x in told)
            assert rows_held < ROWS / 4
