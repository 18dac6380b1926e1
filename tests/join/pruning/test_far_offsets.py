"""Differences that no int64 represents: a conjunct with such bounds is still evaluated, in its place."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin

FAR = 2**63 - 1
LEFT, RIGHT = [(1, 1), (5, 0), (100, 1)], [(1, 1), (2, 1), (0, 0), (5, 0)]
NEVER = [
    f"l.a - {FAR} >= r.a", f"CAST(l.a AS BIGINT) - {FAR} >= r.a", f"r.a - {FAR - 1} > l.a",
    "CAST(l.a AS DECIMAL(38, 0)) >= r.a + 99999999999999999999",
]  # fmt: skip
RELAXED = ["(l.a <= r.a + 2 OR (l.a <= r.a + 5 AND l.b > r.b))", "(l.a >= r.a - 2 OR (l.a >= r.a - 5 AND l.b > r.b))"]


def rows(values: list[tuple[int, int]], t: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array([a for a, _ in values], t), "b": pa.array([b for _, b in values], t)})


def joined(condition: str, t: pa.DataType, how: str = "inner") -> Counter[tuple[int, ...]]:
    left, right = rows(LEFT, t), rows(RIGHT, t)
    op = SymmetricHashJoin(left.schema, right.schema, condition=condition, how=how)
    out = [*op.push("left", left), *op.push("right", right), *op.finish()]
    return Counter(tuple(row.values()) for b in out for row in b.to_pylist())


@pytest.mark.one_in(5)
@pytest.mark.parametrize("t", [pa.int8(), pa.int32(), pa.uint8(), pa.uint32(), pa.int64()], ids=str)
@pytest.mark.parametrize("relaxed", RELAXED)
@pytest.mark.parametrize("never", NEVER)
def test_next_to_a_relaxed_band_over_the_same_columns(never: str, relaxed: str, t: pa.DataType) -> None:
    for condition in (f"{never} AND {relaxed}", f"{relaxed} AND {never}"):
        assert not joined(condition, t)
        assert joined(condition, t, "left_anti") == Counter(LEFT)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("t", [pa.uint8(), pa.uint32()], ids=str)
@pytest.mark.parametrize("band", ["l.a >= r.a", "l.a <= r.a + 3", "l.a BETWEEN r.a - 4 AND r.a"])
def test_next_to_an_exact_band(band: str, t: pa.DataType) -> None:
    near = {"l.a >= r.a": (0, 999), "l.a <= r.a + 3": (-999, 3), "l.a BETWEEN r.a - 4 AND r.a": (-4, 0)}[band]
    want = Counter((*x, *y) for x in LEFT for y in RIGHT if near[0] <= x[0] - y[0] <= near[1])
    for always in (f"l.a + {FAR - 300} >= r.a", f"CAST(l.a AS DECIMAL(38, 0)) <= r.a + {2 * FAR}"):
        assert joined(f"{always} AND {band}", t) == joined(f"{band} AND {always}", t) == want
    for never in NEVER:
        assert not joined(f"{never} AND {band}", t)
        assert not joined(f"{band} AND {never}", t)


@pytest.mark.parametrize("far", [f"l.a - {FAR} >= r.a", f"l.a - {FAR} > r.a AND r.b < 9"])
def test_conjuncts_to_its_right_raise_nothing(far: str) -> None:
    assert not joined(f"{far} AND CASE WHEN l.b > r.b THEN l.a - r.a < 3 ELSE l.a - r.a < 4 END", pa.uint8())
    assert not joined(f"{far} AND (l.a - r.a) * 2 < 3 * l.a", pa.uint8())
