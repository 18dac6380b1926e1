"""``greatest``, ``least`` and ``coalesce`` skip nulls: every join type, with nullable and non-null columns."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join import duck
from join.tables import ids

import ivjoin
from ivjoin import Order

Row = dict[str, Any]

CASES = {
    "two columns": "greatest(l.x, r.x) - least(l.x, r.x) < 4",
    "at most": "greatest(l.x, r.x) <= least(l.x, r.x) + 3",
    "three columns": "greatest(l.x, r.x, r.y) - least(l.x, r.x, r.y) < 6",
    "one of them": "greatest(l.x, r.x) < r.y + 5",
    "coalesce": "coalesce(l.x, l.y) >= r.x AND coalesce(l.x, l.y) < r.x + 4",
}


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
def test_rows_are_those_of_duckdb(name: str, kind: str, how: str) -> None:
    text = CASES[name]
    if kind == "double" and name == "coalesce":
        text = text.replace("4", "4.0e0")
    for seed, (known, holes, falls) in enumerate([
        ("nothing", 0.2, False), ("declared", 0.0, False), ("asked", 0.2, False), ("shown", 0.0, True),
        ("declared", 0.0, True), ("asked", 0.2, True),
    ]):  # fmt: skip
        types = {"id": "int64", "x": kind, "y": kind}
        schema = pa.schema([pa.field(n, t, known != "declared") for n, t in types.items()])
        tables = [pa.Table.from_pylist(some_rows(40, 7 * seed + s, kind, holes, falls), schema) for s in (0, 1)]
        asked = text + (" AND l.x IS NOT NULL AND r.x IS NOT NULL" if known == "asked" else "")
        order = Order("x", descending=falls)
        if known == "shown":  # by the tables themselves
            stream = ivjoin.band_join(*tables, condition=text, how=how)
        else:
            readers = [t.to_reader(3 + seed) for t in tables]
            stream = ivjoin.band_join(*readers, condition=asked, how=how, left_order=order, right_order=order)
        assert ids(stream, how) == Counter(duck.pairs(*tables, how, asked)), (known, holes, falls)


@pytest.mark.parametrize("condition, of_nan", [
    ("coalesce(CAST(l.x - r.x AS DECIMAL(10, 2)) BETWEEN 0 AND 3, TRUE)", True),
    ("coalesce(CAST(l.x - r.x AS DECIMAL(10, 2)), 0) BETWEEN 0 AND 1", True),
    ("CAST(l.x - r.x AS DECIMAL(10, 2)) BETWEEN 0 AND 1", False),
])  # fmt: skip
def test_a_cast_of_nan_to_a_decimal_is_null(condition: str, of_nan: bool) -> None:
    left = pa.table({"i": range(4), "x": [1.0, math.nan, 7.0, math.inf]})
    right = pa.table({"j": range(3), "x": [1.0, 2.0, 100.0]})
    got = ivjoin.band_join(left, right, condition=condition, allow_cross=True).read_all()
    pairs = Counter(zip(got["i"].to_pylist(), got["j"].to_pylist(), strict=True))
    assert {p: n for p, n in pairs.items() if p[0] in (1, 3)} == (
        {(i, j): 1 for i in (1, 3) for j in range(3)} if of_nan else {}
    )
    assert pairs[0, 0] == 1
