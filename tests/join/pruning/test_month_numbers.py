"""``year(d) * 12 + month(d)`` and its kin prune by the month, which alone follows no order."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import oracle
import pyarrow as pa
import pytest
from join.tables import ids

import ivjoin
from ivjoin import Order
from ivjoin.conditions import scalar
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr import Scope
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import INT32, from_arrow
from ivjoin.propagation import Dom, forward
from ivjoin.separation.linear import Forms, reach

SCHEMA = pa.schema([("id", pa.int64()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC")), ("m", pa.int32())])
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Row = dict[str, Any]


def month(v: dt.date) -> int:
    return v.year * 12 + v.month


def there(f: Callable[[Row, Row], bool], name: str = "d") -> Callable[[Row, Row], bool]:
    return lambda a, b: a[name] is not None and b[name] is not None and f(a, b)


def at(v: dt.datetime) -> dt.datetime:
    return v.astimezone(ZoneInfo("America/New_York"))


CASES: list[Any] = [
    ("year(l.d) * 12 + month(l.d) = year(r.d) * 12 + month(r.d)",
     there(lambda a, b: month(a["d"]) == month(b["d"])), 64),
    ("year(l.d) = year(r.d) AND month(r.d) = month(l.d)", there(lambda a, b: month(a["d"]) == month(b["d"])), 64),
    ("(year(l.d) - year(r.d)) * 12 + month(l.d) - month(r.d) BETWEEN 0 AND 1",
     there(lambda a, b: 0 <= month(a["d"]) - month(b["d"]) <= 1), 95),
    ("month(l.d) + 12 * year(l.d) < month(r.d) + 12 * year(r.d) + 2 AND r.d <= l.d",
     there(lambda a, b: month(a["d"]) < month(b["d"]) + 2 and b["d"] <= a["d"]), None),
    ("24 * year(l.d) + 2 * month(l.d) = 24 * year(r.d) + 2 * month(r.d) + 2",
     there(lambda a, b: month(a["d"]) == month(b["d"]) + 1), 64),
    ("year(l.t) * 12 + month(l.t) = year(r.t) * 12 + month(r.t)",
     there(lambda a, b: month(at(a["t"])) == month(at(b["t"])), "t"), 66),
    ("year(l.d) * 12 + month(l.d) = r.m", lambda a, b: a["d"] is not None and month(a["d"]) == b["m"], 64),
    ("year(l.d) * 11 + month(l.d) = year(r.d) * 11 + month(r.d) AND l.d <= r.d",
     there(lambda a, b: a["d"].year * 11 + a["d"].month == b["d"].year * 11 + b["d"].month and a["d"] <= b["d"]), None),
    ("year(l.d) * 12 + month(r.d) = year(r.d) * 12 + month(l.d) AND year(l.d) - 1 = year(r.d)",
     there(lambda a, b: a["d"].year * 12 + b["d"].month == b["d"].year * 12 + a["d"].month
           and a["d"].year - 1 == b["d"].year), None),
]  # fmt: skip
IDS = [c[0] for c in CASES]


def some_rows(n: int, seed: int, step: int, down: bool = False) -> list[Row]:
    rng, day, out = random.Random(seed), dt.date(1969, 10, 3), []
    for i in range(n):
        day += dt.timedelta(days=rng.randrange(step) if n < 1000 else 1)
        v = None if rng.random() < 0.05 and n < 1000 else day
        t = None if v is None else dt.datetime(*v.timetuple()[:3], rng.choice([0, 3, 4, 5, 23]), tzinfo=dt.UTC)
        out.append({"id": i, "d": v, "t": t, "m": month(day)})
    if not down:
        # times of one day in order, too
        ts = sorted(r["t"] for r in out if r["t"])
        for r in out:
            r["t"] = ts.pop(0) if r["t"] else None
        return out
    return [dict(r, id=i) for i, r in enumerate(reversed(out))]


def batches(rows: list[Row], size: int) -> pa.RecordBatchReader:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return pa.RecordBatchReader.from_batches(SCHEMA, table.to_batches(max_chunksize=size))


@pytest.mark.one_in(19)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("text, condition, _", CASES, ids=IDS)
def test_rows_are_those_of_a_nested_loop(text: str, condition: Any, _: Any, how: str) -> None:
    for seed, size, down in ((1, 1, False), (2, 7, True), (3, 100, False)):
        left, right = some_rows(40, seed, 40, down), some_rows(44, seed + 9, 40, down)
        want = Counter(oracle.pairs(left, right, how, (), condition))
        orders = Order("d", descending=True) if down else [Order("d"), Order("t"), Order("m")]
        stream = ivjoin.band_join(
            batches(left, size), batches(right, size + 1), condition=text, how=how, left_order=orders,
            right_order=orders, timezone="America/New_York",
        )  # fmt: skip
        assert ids(stream, how) == want


@pytest.mark.one_in(5)
@pytest.mark.parametrize("text, _, most", [c for c in CASES if c[2]], ids=[c[0] for c in CASES if c[2]])
def test_the_state_is_that_of_a_month(text: str, _: Any, most: int) -> None:
    orders = ["d", "t", "m"]
    op = ivjoin.SymmetricHashJoin(
        SCHEMA, SCHEMA, condition=text, left_order=orders, right_order=orders, timezone="America/New_York"
    )
    rows = some_rows(1500, 1, 1)
    largest = 0
    for i in range(0, 1500, 10):
        for side in ("left", "right"):
            list(op.push(side, pa.RecordBatch.from_pylist(rows[i : i + 10], schema=SCHEMA)))
        largest = max(largest, op.metrics.state_rows)
    assert largest <= most + 20


ZONES = ["UTC", "America/Havana", "Pacific/Apia", "+05:30"]
TYPES = [pa.date32(), pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), *(pa.timestamp("us", "UTC") for _ in ZONES)]


def number_of(t: pa.DataType, zone: str) -> tuple[Node, Node]:
    year = scalar("year(l.d)", Scope(pa.schema([("d", t)]), pa.schema([])), zone)
    return make("extract", year.args, ("month_number", *year.params[1:]), INT32), year.args[0]


@pytest.mark.parametrize("t, zone", [(t, ZONES[max(i - 3, 0)]) for i, t in enumerate(TYPES)])
def test_its_interval_holds_its_values(t: pa.DataType, zone: str) -> None:
    node, column = number_of(t, zone)
    rng = random.Random(4)
    unit = 1 if pa.types.is_date(t) else 86_400 * {"s": 1, "us": 10**6, "ns": 10**9}[t.unit]
    low, high = from_arrow(t).limits
    far = [low, low + 1, high, high - 1, 0, -1, 1] if t != pa.timestamp("s", "UTC") else [0, -1, 1]
    near = [rng.randrange(-40_000, 40_000) * unit + rng.choice([0, -1, 1, unit // 24, -unit // 6]) for _ in range(200)]
    values = np.array([v for v in far + near if low <= v <= high], dtype=np.int64)
    array = pa.array(values.astype(np.int32) if unit == 1 else values, type=t)
    (months,) = evaluate([node], lambda _, name: array, len(values))
    got = months.values.tolist()
    errs = np.zeros(len(values), dtype=bool) if months.error is None else months.error
    least, most = reach(node)
    for _ in range(300):
        i, j = sorted(rng.sample(range(len(values)), 2), key=lambda k: values[k])
        a, b = int(values[i]), int(values[j])
        dom = forward(node, {column: Dom.of(column.type, a, b, null=False)})
        for k in (i, j):
            assert errs[k] or (dom.lo <= got[k] <= dom.hi and least <= got[k] <= most)
    assert Forms().form(node) is not None
