"""The rows at the least distance between doubles, where distances are rounded, infinite or NaN."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

import ivjoin

SPECIAL = (math.inf, -math.inf, math.nan, 0.0, -0.0, 1e16, 1e16 + 2, -1e16, 1e308, -1e308, 5e-324)


def image(x: float) -> tuple[int, float]:
    return (1, 0.0) if math.isnan(x) else (0, x)


def distance(a: float, b: float) -> tuple[int, float]:
    return image(abs(a - b))


def side(r: random.Random, name: str) -> pa.Table:
    wide = r.choice((3.0, 40.0, 1e17))
    n = r.choice((1, 8, 40, 200))
    few = r.random() < 0.5
    x = [None if r.random() < 0.05 else r.choice(SPECIAL) if r.random() < 0.2 else
         float(r.randrange(9)) if few else r.uniform(-wide, wide) for _ in range(n)]  # fmt: skip
    return pa.table({name: range(n), "k": [r.randrange(2) for _ in range(n)], "x": pa.array(x, pa.float64())})


@pytest.mark.parametrize("seed", range(60))
def test_picks_are_those_of_a_loop(seed: int) -> None:
    r = random.Random(seed)
    left, right = side(r, "id"), side(r, "rid")
    width: float
    ties: Any
    width, k, ties = r.choice((0.5, 5.0, 1e17, 1e308)), r.choice((1, 2, 3)), r.choice(("any", "all"))
    condition = r.choice((f"abs(l.x - r.x) <= {width!r}", f"r.x BETWEEN l.x - {width!r} AND l.x + {width!r}"))
    by: list[str] = ["abs(l.x - r.x)", *(["r.rid"] if ties == "any" else [])]
    inputs: list[Any] = [left, right]
    if r.random() < 0.4:
        inputs = [iter(t.to_batches(max_chunksize=7)) for t in inputs]
    got: dict[int, list[int]] = {}
    stream = ivjoin.band_join(inputs[0], inputs[1], on="k", condition=condition, pick=ivjoin.Pick(by, k=k, ties=ties))
    for row in stream.read_all().to_pylist():
        got.setdefault(row["id"], []).append(row["rid"])
    wanted = {}
    for a in left.to_pylist():
        found = []
        for b in right.to_pylist():
            if a["k"] != b["k"] or a["x"] is None or b["x"] is None:
                continue
            apart = distance(a["x"], b["x"])
            low, high = image(a["x"] - width), image(a["x"] + width)
            if apart <= (0, width) if condition.startswith("abs") else low <= image(b["x"]) <= high:
                found.append((apart, b["rid"]))
        found.sort()
        if found:
            last = found[min(k, len(found)) - 1][0]
            wanted[a["id"]] = [rid for i, (d, rid) in enumerate(found) if i < k or (ties == "all" and d == last)]
    assert {i: sorted(rows) for i, rows in got.items()} == {i: sorted(rows) for i, rows in wanted.items()}
