"""Slack over doubles, by numpy and by the kernels: the least value that keeps an order, exactly."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from weights import examples

from ivjoin import LateRowError, Order, SymmetricHashJoin
from ivjoin.expr.ordinal import ordinal_of
from ivjoin.expr.types import FLOAT64
from ivjoin.frontier.slack import as_double, doubles_below, exactly_below

EDGES = [
    0.0, 5e-324, 2.2250738585072014e-308, 2.225073858507201e-308, 1e-9, 0.1, 0.5, 1.0, math.nextafter(1.0, 2.0),
    math.nextafter(1.0, 0.0), 2.0**31, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, 2.0**62, 1.7e9, 1.7000000001e9, 9e307,
    1.7976931348623157e308, math.nextafter(1.7976931348623157e308, 0.0), math.inf,
]
SLACKS = [x for x in EDGES if x and math.isfinite(x)]


def keeps(value: float, edge: float, slack: int | Fraction | float) -> bool:
    """Whether a value is no further than the slack below an edge."""
    if math.isinf(value) or math.isinf(edge):
        return value >= edge
    return Fraction(value) >= Fraction(edge) - Fraction(slack)


def check(edge: float, slack: Any, falling: int, least: int) -> None:
    """``least`` is the turned ordinal of the least value (turned) that keeps the order."""
    at = least + falling
    found = float(np.array([at if at >= 0 else (at - 1) ^ (2**63 - 1)], dtype=np.int64).view(np.float64)[0])
    assert ordinal_of(found, FLOAT64) == at
    if found == -math.inf:  # the difference lies beyond all doubles, or rounds to what does
        assert edge == found or Fraction(edge) - Fraction(slack) < Fraction(-1.7976931348623157e308)
        return
    assert keeps(found, edge, slack)
    assert not keeps(math.nextafter(found, -math.inf), edge, slack)


def turned(value: float, falling: int) -> int:
    return ordinal_of(value, FLOAT64) - falling


finite = st.floats(allow_nan=False, allow_infinity=False)


@examples(2)
@given(
    st.floats(allow_nan=False) | st.sampled_from(EDGES + [-x for x in EDGES]),
    finite.map(abs) | st.sampled_from(SLACKS), st.sampled_from([0, 1]),
)
def test_a_double_of_slack(edge: float, slack: float, falling: int) -> None:
    edges = np.array([turned(edge, falling)])
    found = doubles_below(edges, slack, falling)
    check(edge, slack, falling, int(found[0]))
    assert found.tolist() == exactly_below(edges, Fraction(slack), falling).tolist()


@examples(2)
@given(st.sampled_from(EDGES + [-x for x in EDGES]) | finite, st.fractions(min_value=0), st.sampled_from([0, 1]))
def test_a_fraction_of_slack(edge: float, slack: Fraction, falling: int) -> None:
    check(edge, slack, falling, int(exactly_below(np.array([turned(edge, falling)]), slack, falling)[0]))


@pytest.mark.parametrize("falling", [0, 1])
def test_edge_without_rows_with_any_slack(falling: int) -> None:
    none = np.array([-(2**63)])
    assert doubles_below(none, 3.5, falling).tolist() == none.tolist()
    assert exactly_below(none, Fraction(1, 3), falling).tolist() == none.tolist()


def test_which_slacks_are_doubles() -> None:
    assert as_double(Fraction(1, 2)) == 0.5 and as_double(2**53) == 2.0**53 and as_double(Fraction(0.1)) == 0.1
    assert as_double(Fraction(1, 10)) is None and as_double(2**53 + 1) is None and as_double(10**400) is None


def late_rows(values: list[float | None], slack: Any, descending: bool) -> list[bool]:
    """Row by row, by fractions; a late row moves nothing."""
    edge: float | None = None
    late = []
    for v in values:
        if v is None or v != v:
            late.append(False)
            continue
        v = -v if descending else v
        late.append(edge is not None and not keeps(v, edge, slack))
        edge = v if edge is None or v > edge else edge
    return late


def values_near(rng: random.Random, slack: float, n: int, single: bool) -> list[float | None]:
    """Values that lie about a slack below what came before, give and take a double."""
    found: list[float | None] = []
    at = rng.choice([0.0, 1.0, -1.0, 1.7e9, 2.0**53, -(2.0**53), 1e-300, -1.7e308])
    for _ in range(n):
        what = rng.random()
        if what < 0.1:
            found.append(rng.choice([None, math.nan, -0.0]))
            continue
        if what < 0.5:
            at = at + rng.choice([0.0, slack / 3, slack, 2 * slack])
            at = at if math.isfinite(at) else 1.7e308
            v = at
        else:
            v = at - slack
            for _ in range(rng.randrange(3)):
                v = math.nextafter(v, rng.choice([-math.inf, math.inf]))
        if single:
            with np.errstate(over="ignore"):
                v = float(np.float32(v))
            at = max(at, v) if math.isfinite(v) else at
        found.append(v)
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("t", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_late_rows_of_doubles(t: pa.DataType, descending: bool, seed: int) -> None:
    rng = random.Random(seed)
    slack: Any = rng.choice([0.5, 1, 10, 0.1, 1e-12, 3600.0, 2.0**53, 1e308, 5e-324, Decimal("0.1"), 2**53 + 1])
    values = values_near(rng, float(slack), 60, t == pa.float32())
    if descending:
        values = [None if v is None else -v for v in values]
    late = late_rows(values, slack, descending)
    schema = pa.schema({"a": t, "i": pa.int64()})
    op = SymmetricHashJoin(
        schema, schema, condition="l.i = r.i", how="left_anti", on_late="drop",
        left_order=Order("a", descending=descending, slack=slack),
    )
    kept = []
    at = 0
    while at < len(values):
        n = rng.choice([1, 2, 7, 30])
        some = values[at : at + n]
        batch = pa.record_batch([pa.array(some, t), pa.array(range(at, at + len(some)), pa.int64())], schema=schema)
        kept += [i for out in op.push("left", batch) for i in out.column(1).to_pylist()]
        at += n
    kept += [i for out in op.finish() for i in out.column(1).to_pylist()]
    assert sorted(kept) == [i for i, x in enumerate(late) if not x]
    assert op.metrics.late_rows == sum(late)


def test_a_late_double_is_refused_by_name() -> None:
    schema = pa.schema({"a": pa.float64()})
    op = SymmetricHashJoin(schema, schema, condition="l.a = r.a", left_order=Order("a", slack=0.25))
    list(op.push("left", pa.record_batch({"a": [10.0, 9.75]})))
    with pytest.raises(LateRowError, match="9.7"):
        list(op.push("left", pa.record_batch({"a": [math.nextafter(9.75, 0.0)]})))
    list(op.push("left", pa.record_batch({"a": [11.0]})))  # a batch that is refused has moved nothing
