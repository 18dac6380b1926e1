"""Times of different units compare as instants: keys, bands and orders against Python's integers, out to the ends."""

from __future__ import annotations

import operator
from collections import Counter
from itertools import product
from typing import Any

import oracle
import pyarrow as pa
import pytest

from ivjoin import EvaluationError, Order, SymmetricHashJoin, band_join

LOW, HIGH = -(2**63), 2**63 - 1
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
TYPES: dict[str, tuple[pa.DataType, int]] = {
    "date": (pa.date32(), DAY),
    **{f"ts_{u}": (pa.timestamp(u), n) for u, n in NANOS.items()},
    **{f"utc_{u}": (pa.timestamp(u, "UTC"), n) for u, n in NANOS.items()},
    "paris_s": (pa.timestamp("s", "Europe/Paris"), NANOS["s"]), "dur_s": (pa.duration("s"), NANOS["s"]),
    "dur_ms": (pa.duration("ms"), NANOS["ms"]), "dur_ns": (pa.duration("ns"), NANOS["ns"]),
}  # fmt: skip
PAIRS = [
    ("ts_s", "ts_ns"), ("ts_ns", "ts_s"), ("ts_ms", "ts_ns"), ("ts_us", "ts_ns"), ("ts_s", "ts_us"), ("ts_ms", "ts_s"),
    ("utc_s", "utc_ns"), ("utc_us", "utc_ms"), ("paris_s", "utc_ns"), ("ts_s", "utc_ns"), ("utc_s", "ts_us"),
    ("date", "ts_ns"), ("ts_us", "date"), ("date", "utc_ns"), ("date", "ts_s"), ("date", "ts_ms"),
    ("dur_s", "dur_ns"), ("dur_ns", "dur_ms"),
]  # fmt: skip
OPERATORS = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "<=>": operator.eq,
}  # fmt: skip


def values(mine: str, theirs: str) -> list[int | None]:
    """Ticks: the ends of both types and their neighbours, values that are equal across the units, and null."""
    (t, per), (u, other) = TYPES[mine], TYPES[theirs]
    (low, high), there = ((-(2**31), 2**31 - 1) if x == pa.date32() else (LOW, HIGH) for x in (t, u))
    ends = [end * other // per for end in there]
    near = {0, 1, -1, 86_400, DAY // per, 3 * DAY // per, *(x + d for x in (low, high, *ends) for d in (-1, 0, 1, 2))}
    return [*sorted(v for v in near if low <= v <= high), None]


def batch(name: str, ticks: list[int | None]) -> pa.RecordBatch:
    t = TYPES[name][0]
    plain = pa.int32() if t == pa.date32() else pa.int64()
    return pa.record_batch({"i": pa.array(range(len(ticks)), pa.int64()), "t": pa.array(ticks, plain).cast(t)})


def matches(left: str, right: str, op: str, shift: int = 0) -> set[tuple[int, int]]:
    a, b = values(left, right), values(right, left)
    out = set()
    for (i, x), (j, y) in product(enumerate(a), enumerate(b)):
        if x is None or y is None:
            if op == "<=>" and x is None and y is None:
                out.add((i, j))
        elif OPERATORS[op](x * TYPES[left][1], y * TYPES[right][1] + shift):
            out.add((i, j))
    return out


def indices(out: Any) -> Counter[tuple[int, ...]]:
    return Counter(tuple(row[f] for f in b.schema.names if f[0] == "i") for b in out for row in _ids(b).to_pylist())


def _ids(b: pa.RecordBatch) -> pa.RecordBatch:
    return b.select([n for n in b.schema.names if n[0] == "i"])


def both(left: str, right: str, condition: str, how: str = "inner", **options: Any) -> Counter[tuple[int, ...]]:
    a, b = batch(left, values(left, right)), batch(right, values(right, left))
    return indices(band_join(a, b, condition=condition, how=how, **options))


@pytest.mark.one_in(11)
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_compared_as_instants(left: str, right: str, op: str) -> None:
    expected = matches(left, right, op)
    zone = {"timezone": "UTC"} if {left[:3], right[:3]} == {"ts_", "utc"} else {}  # one side has no zone
    assert both(left, right, f"l.t {op} r.t", **zone) == Counter(expected)
    if op != "<=>":
        everything = {(i, j) for i in range(len(values(left, right)) - 1) for j in range(len(values(right, left)) - 1)}
        assert both(left, right, f"NOT (l.t {op} r.t)", **zone) == Counter(everything - expected)
        assert both(left, right, f"l.i < 0 OR l.t {op} r.t", **zone) == Counter(expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize(("left", "right"), [("ts_s", "ts_ns"), ("date", "utc_ns"), ("ts_us", "ts_ms")])
@pytest.mark.parametrize("op", ["=", "<=", ">", "<=>"])
def test_every_join_type(how: str, left: str, right: str, op: str) -> None:
    met = matches(left, right, op)
    expected = oracle.pairs(
        range(len(values(left, right))), range(len(values(right, left))), how, condition=lambda i, j: (i, j) in met
    )
    got = both(left, right, f"l.t {op} r.t", how)
    single = how.startswith(("left_", "right_"))
    assert got == Counter((i if i is not None else j,) if single else (i, j) for i, j in expected)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("op", ["=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("left", "right"), [("ts_s", "ts_ns"), ("ts_ns", "ts_ms"), ("date", "ts_us"), ("utc_ns", "ts_s")]
)
def test_with_orders_row_by_row(left: str, right: str, op: str, descending: bool) -> None:
    """Each side in its order, in every interleaving that one side runs ahead by: pruning loses no pair."""
    order = Order("t", descending=descending)
    a, b = ([v for v in values(*p) if v is not None] for p in ((left, right), (right, left)))
    one, other = batch(left, a[:: -1 if descending else 1]), batch(right, b[:: -1 if descending else 1])
    expected = Counter(
        (i, j) for (i, x), (j, y) in product(enumerate(one["t"].cast(_plain(left)).to_pylist()),
                                             enumerate(other["t"].cast(_plain(right)).to_pylist()))
        if OPERATORS[op](x * TYPES[left][1], y * TYPES[right][1])
    )  # fmt: skip
    for ahead in (0, 1, 5, 100):
        options = {"left_order": order, "right_order": order, "timezone": "UTC"}
        op_ = SymmetricHashJoin(one.schema, other.schema, condition=f"l.t {op} r.t", **options)
        out = []
        for k in range(max(len(a), len(b)) + ahead):
            if k < len(a):
                out += op_.push("left", one.slice(k, 1))
            if 0 <= k - ahead < len(b):
                out += op_.push("right", other.slice(k - ahead, 1))
        out += op_.finish()
        assert indices(out) == expected


def _plain(name: str) -> pa.DataType:
    return pa.int32() if TYPES[name][0] == pa.date32() else pa.int64()


@pytest.mark.parametrize(
    ("left", "right"), [("ts_s", "ts_ns"), ("ts_ns", "ts_s"), ("utc_ms", "utc_ns"), ("date", "ts_s")]
)
def test_on_compares_instants(left: str, right: str) -> None:
    expected = matches(left, right, "=")
    assert len(expected) > 2
    a, b = batch(left, values(left, right)), batch(right, values(right, left))
    assert indices(band_join(a, b, on="t")) == Counter(expected)
    assert indices(band_join(a.rename_columns(["i", "u"]), b, on=[("u", "t")])) == Counter(expected)
    lone = len(a) - len({i for i, _ in expected})
    assert sum(c.num_rows for c in band_join(a, b, on="t", how="left_anti")) == lone


def test_unmatched_key_outside_the_common_type_names_the_fix() -> None:
    a, b = batch("ts_s", [1, 2**62]), batch("ts_ns", [10**9])
    assert indices(band_join(a, b, on="t")) == Counter([(0, 0)])
    with pytest.raises(EvaluationError, match=r"'t'.*timestamp\[ns\].*Rename the column on one side"):
        list(band_join(a, b, on="t", how="left"))
    kept = band_join(a.rename_columns(["i", "u"]), b, on=[("u", "t")], how="left")
    assert sum(c.num_rows for c in kept) == 2


def test_a_band_between_units_reaches_the_ends() -> None:
    """A width on the finer side, where the sum itself stays within the range."""
    left, right = "ts_s", "ts_ns"
    a = [v for v in values(left, right) if v is not None]
    b = [v for v in values(right, left) if v is not None and LOW + 5 * 10**9 < v < HIGH - 5 * 10**9]
    for lower, upper in ((">=", "<="), (">", "<")):
        expected = Counter(
            (i, j) for (i, x), (j, y) in product(enumerate(a), enumerate(b))
            if OPERATORS[lower](x * 10**9, y - 5 * 10**9) and OPERATORS[upper](x * 10**9, y + 5 * 10**9)
        )  # fmt: skip
        text = f"l.t {lower} r.t - INTERVAL 5 SECONDS AND l.t {upper} r.t + INTERVAL 5 SECONDS"
        assert indices(band_join(batch(left, a), batch(right, b), condition=text)) == expected


def test_the_window_of_two_units_stays_small() -> None:
    schemas = [pa.schema({"t": pa.timestamp(u)}) for u in ("us", "ns")]
    op = SymmetricHashJoin(
        *schemas, condition="l.t BETWEEN r.t - INTERVAL 5 SECONDS AND r.t", left_order="t", right_order="t"
    )
    for k in range(200):
        for side, schema, per in (("left", schemas[0], 10**6), ("right", schemas[1], 10**9)):
            ticks = pa.array([(10 * k + i) * per for i in range(10)], pa.int64())
            list(op.push(side, pa.record_batch([ticks.cast(schema.types[0])], schema=schema)))
    assert op.metrics.rows_out > 5000
    assert op.metrics.peak_state_rows < 60
