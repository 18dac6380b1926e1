"""``greatest``, ``least`` and ``coalesce`` pass nulls by: every join type, by what is known of the columns' nulls."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join.tables import ids

import ivjoin
from ivjoin import Order

Row = dict[str, Any]
Made = Callable[..., Any]


def above(x: Any, y: Any) -> bool:
    """NaN is the greatest number."""
    return (x != x and y == y) or x > y


def greatest(*values: Any) -> Any:
    there = [v for v in values if v is not None]
    best = there[0] if there else None
    for v in there[1:]:
        best = v if above(v, best) else best
    return best


def least(*values: Any) -> Any:
    there = [v for v in values if v is not None]
    best = there[0] if there else None
    for v in there[1:]:
        best = v if above(best, v) else best
    return best


def less(x: Any, y: Any) -> bool | None:
    return None if x is None or y is None else above(y, x)


def apart(*values: Any) -> Any:
    top, bottom = greatest(*values), least(*values)
    return None if top is None else math.nan if top != top or top - bottom != top - bottom else top - bottom


CASES: dict[str, tuple[str, Made]] = {
    "two columns": ("greatest(l.x, r.x) - least(l.x, r.x) < 4", lambda a, b: less(apart(a["x"], b["x"]), 4)),
    "at most": ("greatest(l.x, r.x) <= least(l.x, r.x) + 3",
                lambda a, b: None if greatest(a["x"], b["x"]) is None
                else not above(greatest(a["x"], b["x"]), least(a["x"], b["x"]) + 3)),
    "three columns": ("greatest(l.x, r.x, r.y) - least(l.x, r.x, r.y) < 6",
                      lambda a, b: less(apart(a["x"], b["x"], b["y"]), 6)),
    "one of them": ("greatest(l.x, r.x) < r.y + 5",
                    lambda a, b: less(greatest(a["x"], b["x"]), None if b["y"] is None else b["y"] + 5)),
    "coalesce": ("coalesce(l.x, l.y) >= r.x AND coalesce(l.x, l.y) < r.x + 4",
                 lambda a, b: less(b["x"] - 1e-9 if b["x"] is not None else None, _first(a))
                 and less(_first(a), None if b["x"] is None else b["x"] + 4)),
}  # fmt: skip


def _first(row: Row) -> Any:
    return row["y"] if row["x"] is None else row["x"]


def some_rows(n: int, seed: int, kind: str, holes: float, falls: bool) -> list[Row]:
    rng = random.Random(seed)
    x = sorted((rng.randrange(0, 2 * n) for _ in range(n)), reverse=falls)
    out: list[Row] = [{"id": i, "x": v, "y": v + rng.randrange(-3, 4)} for i, v in enumerate(x)]
    for row in out:
        for name in "xy":
            if kind == "double":
                row[name] = math.nan if rng.random() < 0.08 else row[name] / 1.0
            if rng.random() < holes:
                row[name] = None
    return out


@pytest.mark.one_in(37)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("kind", ["int64", "double"])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_a_nested_loop(name: str, kind: str, how: str) -> None:
    text, condition = CASES[name]
    if kind == "double" and name == "coalesce":
        text = text.replace("4", "4.0e0")
    for seed, (known, holes, falls) in enumerate([
        ("nothing", 0.2, False), ("declared", 0.0, False), ("asked", 0.2, False), ("shown", 0.0, True),
        ("declared", 0.0, True), ("asked", 0.2, True),
    ]):  # fmt: skip
        left, right = (some_rows(40, 7 * seed + s, kind, holes, falls) for s in (0, 1))
        asked = " AND l.x IS NOT NULL AND r.x IS NOT NULL" if known == "asked" else ""

        def holds(a: Row, b: Row, asked: str = asked) -> bool | None:
            return condition(a, b) and not (asked and (a["x"] is None or b["x"] is None))

        want = Counter(oracle.pairs(left, right, how, (), holds))
        types = {"id": "int64", "x": kind, "y": kind}
        schema = pa.schema([pa.field(n, t, known != "declared") for n, t in types.items()])
        tables = [pa.Table.from_pylist(rows, schema) for rows in (left, right)]
        order = Order("x", descending=falls)
        if known == "shown":  # by the tables themselves
            stream = ivjoin.band_join(*tables, condition=text, how=how)
        else:
            readers = [pa.RecordBatchReader.from_batches(schema, t.to_batches(max_chunksize=3 + seed)) for t in tables]
            stream = ivjoin.band_join(
                *readers, condition=text + asked, how=how, left_order=order, right_order=order
            )
        assert ids(stream, how) == want, (known, holes, falls)
