"""Rows dealt to cells by Spark SQL: the cells that the routing plan gives, for values of every type to their ends."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS
from routing.routed import random_plan
from spark.script import rows_of
from spark.second_opinion import joined

from ivjoin.plan.question import join_spec
from ivjoin.routing import RoutingPlan
from ivjoin.spark.spread.dealing import dealt, why_in_python

pytestmark = pytest.mark.spark

I32 = [-(2**31), -(2**31) + 1, -7, -1, 0, 1, 2, 2**31 - 2, 2**31 - 1]
I64 = [-(2**63), -(2**63) + 1, -(2**62), -(2**53) - 1, -2, -1, 0, 1, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1]
F64 = [-math.inf, -1.7e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.0, 1.1, 2.0**53, math.inf, math.nan]
F32 = [-math.inf, -1.0, -0.0, 0.0, 1e-45, 1.5, math.inf, math.nan]
D92 = [Decimal(s) for s in ("-9999999.99", "-0.01", "0.00", "0.01", "1.50", "9999999.99")]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(d.year, d.month, d.day, 11, 59, 59, 999_999) for d in DAYS]
TYPES = [
    (pa.int8(), [-128, -127, -1, 0, 1, 126, 127]), (pa.int32(), I32), (pa.int64(), I64), (pa.float64(), F64),
    (pa.float32(), F32), (pa.decimal128(9, 2), D92), (pa.date32(), DAYS), (pa.timestamp("us"), TIMES),
    (pa.timestamp("us", "UTC"), [t.replace(tzinfo=dt.UTC) for t in TIMES]),
]  # fmt: skip
EDGES = "l.a BETWEEN r.a AND r.b"
PLUS = {"int": " + 3", "decimal": " + 0.02", "float": "", "date": " + INTERVAL 2 DAY", "timestamp": " + INTERVAL 1 DAY"}


def kind_of(t: pa.DataType) -> str:
    return next((kind for kind in ("int", "decimal", "date", "timestamp") if str(t).startswith(kind)), "float")


def drawn(t: pa.DataType, values: list[Any], rng: random.Random, n: int = 60) -> pa.Table:
    some: list[Any] = [*values, None]
    columns = {name: pa.array([rng.choice(some) for _ in range(n)], t) for name in "kab"}
    return pa.table({**columns, "id": pa.array(range(n), pa.int64())})


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("t", "values"), TYPES, ids=[str(t) for t, _ in TYPES])
@pytest.mark.parametrize("keyed", [False, True], ids=["no key", "key"])
def test_cells_are_those_of_the_plan(spark: Any, t: pa.DataType, values: list[Any], keyed: bool) -> None:
    """The key's hash is a column of both sides here, so that the plan and Spark SQL are given the same one."""
    rng = random.Random(f"{t} {keyed}")
    tables = [drawn(t, values, rng) for _ in "lr"]
    frames = [spark.createDataFrame(table).selectExpr("*", "xxhash64(k) AS kh") for table in tables]
    batches = [frame.toArrow().combine_chunks().to_batches()[0] for frame in frames]
    slack = PLUS[kind_of(t)]
    conditions = [EDGES, "l.a BETWEEN r.a AND r.b AND l.b <= r.b"]
    if slack:
        conditions += [f"l.a <= r.a AND r.a <= l.a{slack}", f"l.a{slack} >= r.a AND l.a <= r.a AND l.b <= r.b"]
    expected: set[tuple[int, int, int, int, bool]] = set()
    lone: set[tuple[int, int, int]] = set()
    sent, in_sql, owners = [], 0, {}
    for number in range(8):
        condition = conditions[number % len(conditions)]
        call: dict[str, Any] = {"on": "k" if keyed else None, "how": HOWS[number % 8], "condition": condition}
        plan, made = random_plan(*batches, call, rng, gridded=False, key_hash="kh" if keyed else None)
        spec = join_spec(*(b.schema for b in batches), **call)
        if why_in_python(spec, plan):
            assert slack, f"{made}: {why_in_python(spec, plan)}"
            continue
        in_sql += 1
        for s, batch in enumerate(batches):
            rows, cells, owned = plan.cells(("left", "right")[s], batch)
            apart = plan.features(s, batch).lone
            for row, cell, own in zip(rows.tolist(), cells.tolist(), owned.tolist(), strict=True):
                if apart is not None and apart[row]:
                    lone.add((number, s, row))
                else:
                    expected.add((number, s, row, cell, own))
            owners[number, s] = plan
            named = frames[s].toDF(*[f"c{i}" for i in range(len(frames[s].columns))])
            out, mine = dealt(named, spec, plan, s, "c4" if keyed else None, "xxhash64(c3)")
            sent.append(out.selectExpr(f"{number} AS n", f"{s} AS s", "c3 AS id", "cell", f"{mine} AS owned"))
    assert in_sql >= 4
    got = [tuple(row.values()) for row in reduce(lambda a, b: a.union(b), sent).toArrow().to_pylist()]
    assert len(set(got)) == len(got)
    assert {row for row in got if row[:3] not in lone} == expected
    assert {row[:3] for row in got if row[:3] in lone} == lone, "a row without a copy"
    alone = Counter(row[:3] for row in got if row[:3] in lone and row[4])
    for number, s, row in lone:
        plan = owners[number, s]
        assert all(0 <= c < plan.n_cells for n, side, r, c, _ in got if (n, side, r) == (number, s, row))
        if s == 1 or plan.layout.both or not _is_copied(plan, s):
            assert alone[number, s, row] == 1


def _is_copied(plan: RoutingPlan, s: int) -> bool:
    return plan.axis is not None and plan.axis.divided != s


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", HOWS)
def test_values_at_the_ends_of_their_types_are_joined_as_by_one_task(spark: Any, how: str) -> None:
    for t, values in ((pa.int64(), I64), (pa.float64(), F64), (pa.timestamp("us"), TIMES)):
        rng = random.Random(f"{t} {how}")
        tables = [drawn(t, values, rng, 90) for _ in "lr"]
        left, right = (spark.createDataFrame(table) for table in tables)
        on = rng.choice([None, "k"])
        spread = left.band_join(right, on=on, condition=EDGES, how=how, buckets=3, routing="slices")
        one = left.band_join(right, on=on, condition=EDGES, how=how, routing="hash")
        assert counted(spread) == counted(one)


def counted(frame: Any) -> Counter[Any]:
    """Rows, NaN equal to itself and -0.0 as it is."""
    return Counter({tuple(map(repr, row)): n for row, n in rows_of(frame.toArrow()).items()})


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", HOWS)
def test_ranges_between_columns_and_several_bands(spark: Any, how: str) -> None:
    rng = random.Random(how)
    n = 400
    a, b = (
        pa.table({
            "k": pa.array([rng.choice("aaaaab") for _ in range(n)]),
            "x": pa.array([rng.choice([None, *range(300)]) for _ in range(n)], pa.int64()),
            "y": pa.array([rng.randrange(-20, 320) for _ in range(n)], pa.int64()), "v": list(range(n)),
        })
        for _ in "lr"
    )  # fmt: skip
    condition = "l.x >= r.x AND l.x <= r.y AND l.x <= r.x + 9 OR l.x = r.y AND l.x BETWEEN r.x AND r.x + 4"
    left, right = spark.createDataFrame(a), spark.createDataFrame(b)
    out = left.band_join(right, on="k", condition=condition, how=how, buckets=3, routing="slices")
    columns = "coalesce(l.k, r.k) AS k, l.x, l.y, l.v, r.x AS x_right, r.y AS y_right, r.v AS v_right"
    assert rows_of(out.toArrow()) == joined(a, b, how, f"l.k = r.k AND ({condition})", columns)


def test_no_python_sees_rows_before_the_shuffle(spark: Any) -> None:
    from ivjoin.spark import explain

    frame = spark.range(3000).selectExpr("id AS x", "id % 2 * 0 AS k", "CAST(id AS STRING) AS s", "id * 1.5D AS d")

    def stages(**call: Any) -> tuple[int, str]:
        out = frame.band_join(frame, buckets=3, **call)
        text = explain(frame, frame, buckets=3, **call)
        line = next((x for x in text.splitlines() if "rows find their cells" in x), "")
        return out._jdf.queryExecution().executedPlan().toString().count("MapInArrow "), line.strip()

    band = "l.x BETWEEN r.x - 2 AND r.x + 1"
    assert stages(condition=band) == (1, "rows find their cells by Spark SQL")
    assert stages(on="k", condition=band) == (1, "rows find their cells by Spark SQL")
    assert stages(condition="l.x <= r.x") == (
        3, "rows find their cells in Python, since grids deal rows out by hashes of ivjoin's own"
    )
    assert stages(condition=f"l.x % 2 = r.x % 2 AND {band}", routing="slices")[1] == (
        "rows find their cells in Python, since keys are computed"
    )
    assert stages(condition=f"{band} AND l.s > '1'")[1] == (
        "rows find their cells in Python, since the condition filters rows of one side"
    )
    assert stages(condition="l.d BETWEEN r.d + 1.0D AND r.d + 9.0D")[1].endswith(
        "is no column that Spark compares as ivjoin does"
    )
