"""Whole months between times about midnight: a part of a day less can take two months from those on the calendar."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join.months import months

import ivjoin
from ivjoin.conditions import scalar
from ivjoin.expr import Scope
from ivjoin.propagation import Direction, ordering

Row = dict[str, Any]
SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.timestamp("us"))])
TICK = dt.timedelta(microseconds=1)


def about_midnight(count: int, seed: int) -> list[Row]:
    """Times at, before and after the first midnights and the last of months, in order."""
    rng = random.Random(seed)
    times = []
    for _ in range(count):
        day = dt.datetime(2022, 12, 1) + dt.timedelta(days=rng.randrange(150))
        if rng.random() < 0.8:
            day = day.replace(day=1) + dt.timedelta(days=rng.choice([-2, -1, 0, 0, 0, 1]))
        times.append(day + rng.choice([-TICK, TICK, dt.timedelta(), dt.timedelta(), dt.timedelta(hours=7)]))
    return [{"id": i, "t": t} for i, t in enumerate(sorted(times))]


CASES: list[tuple[str, Callable[[dt.datetime, dt.datetime], bool]]] = [
    ("timestampdiff(MONTH, l.t, r.t) = 1", lambda a, b: months(a, b) == 1),
    ("timestampdiff(MONTH, l.t, r.t) BETWEEN 0 AND 1", lambda a, b: 0 <= months(a, b) <= 1),
    ("timestampdiff(MONTH, r.t, l.t) = -1", lambda a, b: months(b, a) == -1),
    ("timestampdiff(MONTH, r.t, l.t) >= -1", lambda a, b: months(b, a) >= -1),
    ("timestampdiff(QUARTER, l.t, r.t) = 0", lambda a, b: abs(months(a, b)) < 3),
]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
@pytest.mark.parametrize("text, holds", CASES)
def test_no_month_is_pruned_too_early(text: str, holds: Callable[..., bool], how: str) -> None:
    left, right = about_midnight(70, 1), about_midnight(70, 2)
    want = Counter(oracle.pairs(left, right, how, (), lambda a, b: holds(a["t"], b["t"])))
    op = ivjoin.SymmetricHashJoin(SCHEMA, SCHEMA, condition=text, how=how, left_order="t", right_order="t", suffix="_r")
    out = []
    for a, b in zip(left, right, strict=True):
        out += list(op.push("left", pa.RecordBatch.from_pylist([a], schema=SCHEMA)))
        out += list(op.push("right", pa.RecordBatch.from_pylist([b], schema=SCHEMA)))
    if text.endswith("= 1") or "BETWEEN" in text:
        assert op.metrics.left_rows_retired > 10
    out += list(op.finish())
    rows = [r for batch in out for r in batch.to_pylist()]
    assert Counter((r["id"], r.get("id_r")) for r in rows) == want


def test_count_follows_only_the_end() -> None:
    scope = Scope(pa.schema([("t", pa.timestamp("us")), ("d", pa.date32())]), pa.schema([]))
    t, d = scalar("t", scope), scalar("d", scope)
    orders = {t: Direction.ASCENDING, d: Direction.ASCENDING}
    for text, want in [
        ("timestampdiff(MONTH, t, TIMESTAMP '2023-03-01 00:00:00')", Direction.NONE),
        ("timestampdiff(MONTH, TIMESTAMP '2022-12-31 23:59:59', t)", Direction.ASCENDING),
        ("timestampdiff(MONTH, d, DATE '2023-03-01')", Direction.DESCENDING),
        ("timestampdiff(YEAR, DATE '2023-03-01', d)", Direction.ASCENDING),
        ("timestampdiff(MONTH, d, TIMESTAMP '2023-03-01 07:00:00')", Direction.NONE),
    ]:
        assert ordering(scalar(text, scope), orders) is want, text
    zoned = scalar("timestampdiff(MONTH, d, DATE '2023-03-01')", scope, timezone="America/Sao_Paulo")
    assert ordering(zoned, orders) is Direction.NONE
