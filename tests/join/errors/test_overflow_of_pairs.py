"""Arithmetic over both sides that overflows raises, unless a conjunct to its left is false.

``tests/join/types/test_edge_values.py`` plays every pair of edge values through every shape of condition.
"""

from __future__ import annotations

import oracle
import pyarrow as pa
import pytest
from join.tables import rows

from ivjoin import EvaluationError, SymmetricHashJoin, band_join


def batch(t: pa.DataType, *values: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch(
        {"k": pa.array([k for k, _ in values], pa.int64()), "a": pa.array([a for _, a in values], t)}
    )


@pytest.mark.parametrize(("t", "condition", "x", "y"), [
    (pa.timestamp("us"), "l.a = r.a OR l.a - r.a > INTERVAL 5 SECONDS", -(2**63), 1),
    (pa.timestamp("ns", "UTC"), "l.a = r.a OR l.a - r.a > INTERVAL 5 SECONDS", -(2**63), 1),
    (pa.duration("ms"), "l.a = r.a OR l.a + r.a < INTERVAL 5 SECONDS", 2**63 - 1, 1),
    (pa.date32(), "l.a = r.a OR l.a - r.a > 5", -(2**31), 1),
    (pa.int32(), "l.a = r.a OR l.a + 10 < r.a", 2**31 - 1, 1),
    (pa.int32(), "greatest(l.a - r.a, l.k) < 3", 2**31 - 1, -5),
    (pa.int64(), "l.a = r.a OR CAST(l.a - r.a AS TINYINT) = 1", 300, 1),
])  # fmt: skip
def test_other_types_and_shapes(t: pa.DataType, condition: str, x: int, y: int) -> None:
    plain = pa.int32() if t == pa.date32() else pa.int64()
    left, right = (pa.record_batch({"k": pa.array([1], pa.int64()), "a": pa.array([v], plain).cast(t)}) for v in (x, y))
    with pytest.raises(EvaluationError, match="overflow|cannot be cast"):
        list(band_join(left, right, on="k", condition=condition))
    assert sum(b.num_rows for b in band_join(left, left, on="k", condition="l.a = r.a")) == 1


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("keyed", [True, False])
def test_every_join_type_raises(how: str, keyed: bool) -> None:
    left, right = batch(pa.uint32(), (1, 1010)), batch(pa.uint32(), (1, 1013))
    with pytest.raises(EvaluationError, match="overflow"):
        list(band_join(left, right, on="k" if keyed else None, condition="l.a - r.a BETWEEN -4 AND 2", how=how))
    left, right = batch(pa.uint32(), (1, 1013), (2, 7)), batch(pa.uint32(), (1, 1011), (2, 0))
    out = [r for b in band_join(left, right, on="k", condition="l.a - r.a BETWEEN -4 AND 2", how=how) for r in rows(b)]
    assert len(out) == {"inner": 1, "left": 2, "right": 2, "full": 3}.get(how, 1)


@pytest.mark.parametrize(
    ("t", "condition", "x", "y"),
    [(pa.uint32(), "l.a - r.a <= 2", 1, 5), (pa.int32(), "(l.a = r.a OR l.a - r.a > 5)", -(2**31), 1)],
)
def test_a_conjunct_to_the_left_that_is_false_saves_the_pair(t: pa.DataType, condition: str, x: int, y: int) -> None:
    def join(text: str) -> int:
        out = band_join(batch(t, (1, x)), batch(t, (1, y)), on="k", condition=text, how="full")
        return sum(b.num_rows for b in out)

    for saving in ("l.a > r.a", "l.a = r.a", "l.k <> r.k", "l.a > 2", "abs(l.k - r.k) = 1"):
        assert join(f"{saving} AND {condition}") == 2
    with pytest.raises(EvaluationError, match="overflow"):
        join(f"l.a <> r.a AND {condition}")


def test_rows_long_stored_are_met_whatever_the_index() -> None:
    """Many rows of one key, in and out of order, so that the store turns to another index on the way."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "a": pa.uint16()})
    text = "l.t BETWEEN r.t - 5 AND r.t + 5 AND l.a - r.a <= 2"
    for stride in (1, 7919):
        op = SymmetricHashJoin(schema, schema, on="k", condition=text)
        n = 4000
        t = [i * stride % n for i in range(n)]
        out = list(op.push("left", pa.record_batch({"k": [1] * n, "t": t, "a": [9] * n}, schema=schema)))
        for i in range(0, n, 400):
            right = {"k": [1] * 400, "t": t[i : i + 400], "a": [9] * 400}
            out += op.push("right", pa.record_batch(right, schema=schema))
        assert sum(b.num_rows for b in out) == 11 * n - 30
        with pytest.raises(EvaluationError, match="overflow"):
            list(op.push("right", pa.record_batch({"k": [1], "t": [77], "a": [10]}, schema=schema)))
