"""Conditions on the spread of values of several inputs: the state they need, depending on nullable columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from multi.turns import pushed

import ivjoin
from ivjoin import MultiJoin, Order
from ivjoin.multi.question import multi_spec
from ivjoin.multi.shape.steps import laid_out
from ivjoin.plan.cache import plan_of

ROWS, BATCH = 12_000, 500
TYPES: dict[str, tuple[pa.DataType, str]] = {
    "int64": (pa.int64(), "20"), "int32": (pa.int32(), "20"), "uint64": (pa.uint64(), "20"),
    "float64": (pa.float64(), "20.0e0"), "date": (pa.date32(), "20"),
    "timestamp": (pa.timestamp("us"), "INTERVAL 0.00002 SECOND"), "decimal": (pa.decimal128(12, 2), "20"),
}  # fmt: skip
SPREAD = "greatest(a.ts, b.ts, c.ts) - least(a.ts, b.ts, c.ts) < {w}"
SAID = {
    "keys": "a.k = b.k AND b.k = c.k AND " + SPREAD,
    "no key": SPREAD,
    "moved": "a.k = b.k AND b.k = c.k AND greatest(a.ts, b.ts, c.ts) <= least(a.ts, b.ts, c.ts) + {w}",
    "turned": "a.k = b.k AND b.k = c.k AND {w} > greatest(c.ts, a.ts, b.ts) - least(b.ts, a.ts, c.ts)",
}
ORDERS = dict.fromkeys("abc", "ts")


def schema(kind: str, nullable: bool) -> pa.Schema:
    return pa.schema([pa.field("k", pa.int64()), pa.field("ts", TYPES[kind][0], nullable)])


def rows(seed: int, kind: str = "int64", falls: bool = False, nullable: bool = False, n: int = ROWS) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 2 * n, n))
    values = pa.array(ts[::-1] if falls else ts)
    if kind == "date":
        values = values.cast(pa.int32())
    elif kind == "decimal":
        values = values.cast(pa.decimal128(21, 2))
    return pa.record_batch([rng.integers(0, 5, n), values.cast(TYPES[kind][0])], schema(kind, nullable))


@pytest.mark.one_in(29)
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("kind", TYPES)
def test_the_state_stays_at_the_windows(kind: str, said: str) -> None:
    condition = SAID[said].format(w=TYPES[kind][1])
    op = MultiJoin(dict.fromkeys("abc", schema(kind, False)), condition, orders=ORDERS)
    assert pushed(op, {a: rows(i, kind) for i, a in enumerate("abc")}, BATCH) > 0
    assert op.metrics.peak_state_rows < 9 * BATCH, op.metrics
    assert "so a.ts" in op.explain() and "is stored until" not in op.explain()


@pytest.mark.slow
@pytest.mark.parametrize("views", ["none", [("b", "c")]])
def test_each_set_of_views_has_the_bands_of_two(views: Any) -> None:
    condition = SAID["no key"].format(w="20")
    op = MultiJoin(dict.fromkeys("abc", schema("int64", False)), condition, orders=ORDERS, views=views)
    assert pushed(op, {a: rows(i) for i, a in enumerate("abc")}, BATCH) > 0
    assert op.metrics.peak_state_rows < 9 * BATCH, op.metrics


@pytest.mark.slow
def test_rows_with_ignored_nulls_are_stored_and_explained() -> None:
    condition = SAID["keys"].format(w="20")
    plain = dict.fromkeys("abc", schema("int64", True))
    op = MultiJoin(plain, condition, orders=ORDERS)
    first = {a: rows(i, nullable=True).slice(0, BATCH) for i, a in enumerate("abc")}
    for alias, batch in first.items():
        list(op.push(alias, batch))
    far = pa.record_batch([[1], [ROWS]], plain["a"])
    for alias in "abc":
        list(op.push(alias, far))
    assert all(n > BATCH for n in op.metrics.stored.values()), "a later row without ts is near whatever is stored"
    near = sum(b.num_rows for b in op.push("b", pa.record_batch([[1], pa.array([None], pa.int64())], plain["a"])))
    assert near > 0
    assert "c: every row is stored until a and b end, because nothing bounds it" in op.explain()
    assert "by their later rows: a null in a.ts and b.ts would be passed by" in op.explain()
    asked = f"{condition} AND " + " AND ".join(f"{a}.ts IS NOT NULL" for a in "abc")
    op = MultiJoin(plain, asked, orders=ORDERS)
    assert pushed(op, {a: rows(i, nullable=True) for i, a in enumerate("abc")}, BATCH) > 0
    assert op.metrics.peak_state_rows < 9 * BATCH, op.metrics


@pytest.mark.slow
def test_tables_show_that_they_have_no_null() -> None:
    n = 8 * ROWS
    tables = {a: pa.Table.from_batches([rows(i, nullable=True, n=n)]) for i, a in enumerate("abc")}
    for condition in (SAID["keys"], SAID["no key"]):
        stream = ivjoin.multi_join(tables, condition.format(w="20"))
        out = stream.read_all()
        assert out.schema.equals(pa.schema({f"{a}_{f.name}": f.type for a in "abc" for f in tables[a].schema}))
        assert len(out) > 0
        assert stream.metrics.peak_state_rows < n, stream.metrics
    near = "greatest(l.ts, r.ts) - least(l.ts, r.ts) < 20"
    stream = ivjoin.band_join(tables["a"], tables["b"], on="k", condition=near, left_order="ts", right_order="ts")
    out = stream.read_all()
    assert all(f.nullable for f in out.schema)
    assert stream.metrics.peak_state_rows < n // 2
    other = ivjoin.band_join(tables["a"], tables["b"], on="k", condition="abs(l.ts - r.ts) < 20").read_all()
    assert len(out) == len(other) > 0


@pytest.mark.parametrize("kind", TYPES)
def test_two_inputs(kind: str) -> None:
    s, w = schema(kind, False), TYPES[kind][1]
    op = ivjoin.SymmetricHashJoin(
        s, s, on="k", condition=f"greatest(l.ts, r.ts) - least(l.ts, r.ts) < {w}", left_order="ts", right_order="ts"
    )
    given = {"left": rows(0, kind), "right": rows(1, kind)}
    found = 0
    for start in range(0, ROWS, BATCH):
        for side, batch in given.items():
            found += sum(b.num_rows for b in op.push(side, batch.slice(start, BATCH)))
    assert found > 0
    assert op.metrics.peak_state_rows < 5 * BATCH, op.metrics


@pytest.mark.slow
@pytest.mark.parametrize("width", ["w BIGINT", "w in bounds"])
def test_falling_floats_and_a_width_that_is_a_column(width: str) -> None:
    """A NaN is above all numbers, and may come whatever the order: where none can match, the order bounds."""
    kind = pa.int64() if width == "w BIGINT" else pa.float64()
    s = pa.schema([pa.field("k", pa.int64()), pa.field("x", pa.float64()), pa.field("w", kind)])
    condition = "a.k = b.k AND b.k = c.k AND abs(a.x - b.x) <= a.w AND abs(b.x - c.x) <= b.w"
    bounds = {a: {"w": (0, 20)} for a in "abc"}
    orders = dict.fromkeys("abc", Order("x", descending=True))
    op = MultiJoin(dict.fromkeys("abc", s), condition, orders=orders, bounds=bounds)
    given = {}
    for i, alias in enumerate("abc"):
        x = rows(i, "float64", falls=True)
        w = pa.array(np.random.default_rng(i + 9).integers(0, 21, ROWS)).cast(kind)
        given[alias] = pa.record_batch([x.column("k"), x.column("ts"), w], schema=s)
    assert pushed(op, given, BATCH) > 0
    assert op.metrics.peak_state_rows < 9 * BATCH, op.metrics
    two = ivjoin.SymmetricHashJoin(
        s, s, on="k", condition="abs(l.x - r.x) <= l.w", left_order=Order("x", True), right_order=Order("x", True),
        left_bounds=bounds["a"],
    )
    for start in range(0, ROWS, BATCH):
        for side, batch in (("left", given["a"]), ("right", given["b"])):
            list(two.push(side, batch.slice(start, BATCH)))
    assert two.metrics.peak_state_rows < 5 * BATCH, two.metrics


@pytest.mark.parametrize("conjunct, band", [
    ("greatest(a.ts, b.ts, c.ts) - least(a.ts, b.ts, c.ts) < 20", [(-19, 19)]),
    ("greatest(a.ts, b.ts) - least(b.ts, c.ts) < 20", [(None, 19)]),
    ("abs(a.ts - b.ts) + abs(b.ts - c.ts) <= 7", [(-7, 7)]),
    ("(a.ts - b.ts) * (a.ts - b.ts) + (b.ts - c.ts) * (b.ts - c.ts) <= 50", [(-7, 7)]),
    ("least(a.ts, b.ts, c.ts) - greatest(a.ts, b.ts, c.ts) >= -4", [(-4, 4)]),
    ("greatest(a.ts, b.ts, c.ts) - least(a.ts, b.ts, c.ts) > 20", []),
    ("greatest(a.ts, c.ts) - least(b.ts, c.ts) <= b.k", [(None, 0)]),
    ("a.ts + b.ts <= c.ts", []),
])  # fmt: skip
def test_what_follows_for_two_of_three(conjunct: str, band: list[Any]) -> None:
    spec = multi_spec(dict.fromkeys("abc", schema("int64", False)), f"{conjunct} AND a.k = b.k AND b.k = c.k")
    first = laid_out(spec, (("a", "b"), "c")).steps[0]
    assert [(t.lo, t.hi) for t in plan_of(first.spec).kernel_terms] == band


FAR = [
    "least(a.ts, c.ts) - greatest(b.ts, c.ts) > -20e0",
    "-20e0 <= least(a.ts, b.ts, c.ts) - greatest(a.ts, b.ts, c.ts)",
    "least(a.ts, b.ts) - greatest(b.ts, c.ts * c.w) > -20e0",
    "least(a.ts, b.ts) - greatest(b.ts, c.ts - c.w) > -20e0",
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("views", ["auto", "none", [("a", "b")]])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("condition", FAR)
def test_a_spread_that_is_nan_is_above_all_numbers(condition: str, there: bool, views: Any) -> None:
    """-20 < NaN, so rows of a and b match however far they lie apart."""
    inf, nan = float("inf"), float("nan")
    schema = pa.schema({"ts": pa.float64(), "w": pa.float64()})
    numbers = [f"NOT isnan({a}.ts)" for a in ("abc" if there else "ab")]
    present = [f"{a}.ts IS NOT NULL" for a in "abc"]
    op = MultiJoin(dict.fromkeys("abc", schema), " AND ".join([*numbers, *present, condition]), views=views)
    third = {FAR[2]: [0.0, inf], FAR[3]: [inf, inf]}.get(condition, [5.0 if there else nan, 0.0])
    out = []
    for alias, row in {"a": [5.0, 0.0], "b": [500.0, 0.0], "c": third}.items():
        out += op.push(alias, pa.record_batch([[row[0]], [row[1]]], schema))
    found = sum(b.num_rows for b in [*out, *op.finish()])
    assert found == int(condition in FAR[2:] or not there)
