"""Frontiers at the ends of a type, where a bound that is shifted by a band's width would leave int64."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from ivjoin import Order, SymmetricHashJoin

NEAR = range(9)
BANDS: list[tuple[str, Callable[[int, int], bool]]] = [
    ("l.a - r.a BETWEEN -5 AND 5", lambda a, b: -5 <= a - b <= 5),
    ("abs(l.a - r.a) <= 5", lambda a, b: abs(a - b) <= 5),
    ("l.a - r.a >= -5", lambda a, b: a - b >= -5),
    ("l.a - r.a <= 5", lambda a, b: a - b <= 5),
    ("l.a - r.a BETWEEN 2 AND 6", lambda a, b: 2 <= a - b <= 6),
    ("l.a - r.a BETWEEN -6 AND -2", lambda a, b: -6 <= a - b <= -2),
    ("l.a < r.a", lambda a, b: a < b),
]


@pytest.mark.nojit
@pytest.mark.parametrize("bits", [*(pytest.param(n, marks=pytest.mark.slow) for n in (8, 32)), 64])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("least", [False, True])
def test_no_row_is_lost_to_a_bound_that_wraps(bits: int, descending: bool, least: bool) -> None:
    end = -(2 ** (bits - 1)) if least else 2 ** (bits - 1) - 1
    values = sorted((end + i if least else end - i for i in NEAR), reverse=descending)
    kind = getattr(pa, f"int{bits}")()
    schema = pa.schema({"k": pa.int64(), "a": kind})

    def rows(*at: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array([0] * len(at)), pa.array(at, kind)], schema=schema)

    for text, matches in BANDS:
        want = sorted((a, b) for a in values for b in values if matches(a, b))
        for whole in ("left", "right", ""):
            op = SymmetricHashJoin(
                schema, schema, on="k", condition=text, left_order=Order("a", descending=descending),
                right_order=Order("a", descending=descending),
            )
            out: list[pa.RecordBatch] = []
            if whole:
                out += op.push(whole, rows(*values))
            for value in values:
                for side in ("left", "right"):
                    if side != whole:
                        out += op.push(side, rows(value))
            out += op.finish()
            got = sorted((r["a"], r["a_right"]) for b in out for r in b.to_pylist())
            assert got == want, (text, whole)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32()])
@pytest.mark.parametrize("told", ["bounds", "watermark", "slack"])
@pytest.mark.parametrize(
    "text", ["l.x <> r.x", "l.x < r.x OR l.x > r.x + 5", "NOT (l.x BETWEEN r.x - 1 AND r.x + 1)", "abs(l.x - r.x) > 3"]
)
def test_bounds_of_narrow_floats_may_exceed_their_type(kind: pa.DataType, told: str, text: str) -> None:
    """Bounds of doubles about columns that hold no such numbers, contracted through conditions in parts."""
    schema = pa.schema({"x": kind})
    far = Order("x", slack=1e300) if told == "slack" else None
    bounds = {"x": (-1e300, 1e300)} if told == "bounds" else None
    op = SymmetricHashJoin(
        schema, schema, condition=text, how="left_semi", left_order=far, right_order=far, left_bounds=bounds,
        right_bounds=bounds,
    )
    out = []
    for start in (0, 300):
        rows = pa.record_batch([pa.array(range(start, start + 300), pa.float64()).cast(kind)], schema=schema)
        for side in ("left", "right"):
            out += op.push(side, rows)
            if told == "watermark":
                out += op.advance(side, {"x": -1e300})
            op = SymmetricHashJoin.restore(op.snapshot())
    out += op.finish()
    assert sorted(v for b in out for v in b["x"].to_pylist()) == list(range(600))
