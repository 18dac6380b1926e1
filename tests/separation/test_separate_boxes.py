"""The promises of separate() for every pair of a box of values, and for times about the changes of a zone."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import partial
from itertools import product

import pyarrow as pa
import pytest
from separation.pairs import Author, Row, Table, broken_promises, report

from ivjoin.conditions import condition as to_condition
from ivjoin.expr import Scope
from ivjoin.expr import build as b
from ivjoin.expr.nodes import columns_of
from ivjoin.expr.types import INT8
from ivjoin.plan.derived.inner_bounds import inner_bounds
from ivjoin.separation.separate import separate

ZONED = [
    "l.ts - r.ts < INTERVAL 2 HOURS AND l.ts > r.ts",
    "l.ts <= r.ts + INTERVAL 1 DAY AND l.ts >= r.ts",
    "l.ts - INTERVAL 1 DAY <= r.ts - INTERVAL 30 MINUTES",
    "abs(l.ts - r.ts) <= INTERVAL 25 HOURS",
    "l.ts - r.ts + r.dur <= INTERVAL 1 DAY",
    "CAST(l.ts AS DATE) = CAST(r.ts AS DATE) AND l.ts + INTERVAL 90 MINUTES > r.ts",
    "datediff(l.ts, r.ts) BETWEEN -1 AND 0",
    "l.local >= r.ts",
    "date_trunc('day', l.ts) <= r.ts - INTERVAL 12 HOURS",
    "l.ts + INTERVAL 1 MONTH > r.ts AND l.ts <= r.ts",
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"])
@pytest.mark.parametrize("text", ZONED)
def test_times_in_a_zone_keep_every_match(text, zone):
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "dur": pa.duration("us"), "local": pa.timestamp("us")})
    condition = to_condition(text, Scope(schema, schema), zone)
    sep = separate(condition)
    assert sep.bands
    rng = random.Random(text)
    hour = 3600 * 10**6
    columns = columns_of(condition)
    # Berlin's two changes of 2024, the day Apia left out (2011-12-30), and a month's end.
    instants = [1_711_846_800, 1_729_990_800, 1_325_239_200, 1_706_659_200]
    rows = []
    for _ in range(600):
        base, spread = rng.choice(instants) * 10**6, rng.choice([4, 60, 120])
        row: Row = {}
        for c in columns:
            x = rng.randint(-spread, spread) * hour // 2
            row[c.params] = x if c.type.kind == "duration" else base + x
        rows.append(row)
    assert Table(rows, columns).true(condition).sum() > 20
    broken = broken_promises(sep, rows, columns)
    assert not broken, report(broken, condition, 0)


# Each has lost a pair, or would without one line of the code.
BOXES = [
    ("-(abs(l.x - r.x) + abs(l.y - r.y)) >= -5", [0.0, 100.0, math.nan, None]),
    ("greatest(l.x - r.x, r.y) < abs(l.x) AND l.y <= r.y", [math.nan, 1.0, -4.0, None]),
    ("greatest(l.t, r.i) <= r.t - 100", [-128, -127, 100, 127, -1000, None]),
    ("least(l.t, r.i) >= r.t + 100", [-128, -127, 100, 127, 1000, None]),
    ("greatest(l.i, r.i - r.i) - least(l.i, r.i - r.i) <= r.t", [-6, 4, 0, None]),
    ("greatest(l.i, r.i) - least(l.i, r.i) <= r.t", [-6, 4, 0, None]),
    ("greatest(l.i, r.i) - least(l.t, r.i) + l.b <= r.b", [-6, 4, 0, None]),
    ("abs(l.i - r.i) < 20", [-(2**31), 2**31 - 1, -(2**30), 2**30, 0, 19, 20, None]),
    ("(l.i - r.i) * (l.i - r.i) * (l.i - r.i) <= -27", [0, 1, 2, 3, 4, -3]),
    ("CAST(l.p - r.p AS DECIMAL(10,1)) <= 0.5", [0, 50, 54, 55, -55, 1]),
    ("CAST(CAST(l.x - r.x AS FLOAT) AS DOUBLE) <= r.y", [-0.5, 9.97e291, -math.inf, -1.5, math.inf]),
    ("l.i*l.i - 2*l.i*r.i + r.i*r.i + 4*(l.i - r.i) < 46", list(range(-5, 6))),
    ("l.x + 1.0 >= r.x", [0.1, 1.1, -0.5, 1e16, math.nan, math.inf]),
    ("abs(l.x - r.x) <= 0.1 OR l.x - r.x BETWEEN 1 AND 1.1", [0.1, 0.2, 0.3, 1.1, 1.2, 0.0, math.nan]),
    ("l.i div 2 >= r.i", [-7, -3, -4, 7, 3]),
    ("l.b - r.b <= l.x", [2**53 + 1, 2**53, -(2**63), 2**63 - 1, 1, 0]),
    ("r.i IS NULL OR l.i < r.i", [-(2**31), 2**31 - 1, 1 - 2**31, 2**31 - 2, 0, None]),
    ("l.i > r.t AND (r.i IS NULL OR l.i <= r.i)", [-(2**31), 2**31 - 1, -1, 0, None]),
    ("r.b IS NULL OR l.t < 0 OR l.b BETWEEN r.b AND r.b + 3", [-(2**63), 2**63 - 1, 2**63 - 4, -1, 0, None]),
    ("r.x IS NULL OR l.x < r.x", [math.nan, math.inf, -math.inf, 0.0, -0.0, None]),
    ("coalesce(l.x >= r.x, TRUE)", [math.nan, math.inf, -math.inf, 0.0, -0.0, None]),
    ("CASE WHEN r.i IS NOT NULL THEN l.i < r.i ELSE l.t > 0 END", [-(2**31), 2**31 - 1, 0, 1, None]),
    ("l.i < coalesce(r.i, l.t)", [-(2**31), 2**31 - 1, 0, 1, None]),
    ("l.x / r.x BETWEEN 0.5 AND 2 OR r.x IS NULL",
     [1.0, 2.0, 0.5, -1.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, None]),
    ("l.x * r.x >= 0.5", [1.0, 2.0, 0.5, 0.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, 1e308, None]),
    ("(l.i - r.i) / 7.0 BETWEEN 0 AND 1", [-(2**31), 2**31 - 1, 0, 7, 8, -1, None]),
    ("round((l.b - r.b) / 7.0) = 1", [-(2**63), 2**63 - 1, 0, 3, 4, 10, 11, None]),
]  # fmt: skip
WITHOUT_BAND = {BOXES[0][0], BOXES[4][0]}


@pytest.mark.parametrize("text, values", BOXES)
def test_every_pair_of_a_box_is_kept(text, values):
    kinds = {"x": pa.float64(), "y": pa.float64(), "t": pa.int8(), "i": pa.int32(), "b": pa.int64()}
    kinds["p"] = pa.decimal128(10, 2)
    schema = pa.schema(kinds)
    condition = to_condition(text, Scope(schema, schema))
    columns = columns_of(condition)
    fitting = []
    for c in columns:
        lo, hi = (-math.inf, math.inf) if c.type.kind == "float" else c.type.limits
        fitting.append([v for v in values if v is None or v != v or lo <= v <= hi])
        if c.type.kind == "float":
            fitting[-1] = [None if v is None else float(v) for v in fitting[-1]]
    rows = [dict(zip((c.params for c in columns), picks)) for picks in product(*fitting)]
    sep = separate(condition, infer=partial(inner_bounds, never_null=frozenset()))
    assert bool(sep.bands) == (text not in WITHOUT_BAND)
    assert Table(rows, columns).true(condition).any()
    broken = broken_promises(sep, rows, columns)
    assert not broken, report(broken, condition, 0)


def test_the_check_sees_a_band_that_is_one_too_narrow():
    x, y = b.column("left", "a", INT8), b.column("right", "a", INT8)
    sep = separate(b.le(b.sub(x, y), b.literal(5)))
    rows: list[Row] = [{x.params: i, y.params: j} for i in range(-9, 9) for j in range(-9, 9)]
    assert not broken_promises(sep, rows, [x, y])
    (band,) = sep.bands
    lossy = replace(sep, bands=(replace(band, hi=4),))
    assert {what for what, _, _ in broken_promises(lossy, rows, [x, y])} == {"lost by"}
    loose = replace(sep, bands=(replace(band, hi=6),), residual=())
    assert {what for what, _, _ in broken_promises(loose, rows, [x, y])} == {"let through"}


def test_columns_that_a_part_reads_are_columns_of_the_condition():
    author = Author("ints", 3)
    condition = author.condition()
    sep = separate(condition)
    read = columns_of(*(n for t in sep.bands for n in (t.left, t.right)), *(g.node for g in sep.guards))
    assert set(read) <= set(columns_of(condition))
    assert {n.params[0] for t in sep.bands for n in columns_of(t.left)} <= {"left"}
    assert {n.params[0] for t in sep.bands for n in columns_of(t.right)} <= {"right"}
