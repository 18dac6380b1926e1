"""Random disorder under ``on_late="drop"``: the join of exactly those rows that kept their side's promise."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

HOWS = ["inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti"]
SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "n": pa.int64()})


def side(rng: random.Random, n: int, falling: bool) -> list[tuple[int | None, int | None, int]]:
    rows = []
    for i in range(n):
        t = i // 2 + rng.choice([0, 0, 0, -1, -3, -9, 4])
        rows.append((rng.choice([0, 1, 2, None]), None if rng.random() < 0.05 else -t if falling else t, i))
    return rows


def on_time(rows: list[tuple], slack: int, falling: bool) -> list[tuple]:
    """The promise, row by row: never more than ``slack`` behind the farthest value so far."""
    kept, edge = [], None
    for row in rows:
        t = row[1] if not falling or row[1] is None else -row[1]
        if t is not None and edge is not None and t < edge - slack:
            continue
        if t is not None:
            edge = t if edge is None else max(edge, t)
        kept.append(row)
    return kept


def nested_loop(left: list[tuple], right: list[tuple], how: str, reach: int) -> Counter:
    def match(a: tuple, b: tuple) -> bool:
        known = None not in (a[0], b[0], a[1], b[1])
        return known and a[0] == b[0] and -reach <= a[1] - b[1] <= 2

    pairs = [(a, b) for a in left for b in right if match(a, b)]
    matched = ({a[2] for a, _ in pairs}, {b[2] for _, b in pairs})
    out: list[Any] = []
    if how in ("inner", "left", "right", "full"):
        out += [(a[0], *a[1:], *b[1:]) for a, b in pairs]
    if how in ("left", "full"):
        out += [(*a, None, None) for a in left if a[2] not in matched[0]]
    if how in ("right", "full"):
        out += [(b[0], None, None, *b[1:]) for b in right if b[2] not in matched[1]]
    if how.endswith(("semi", "anti")):
        p = 0 if how.startswith("left") else 1
        out += [r for r in (left, right)[p] if (r[2] in matched[p]) == how.endswith("semi")]
    return Counter(out)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seed", range(6))
def test_dropping_late_rows(how: str, seed: int) -> None:
    import ivjoin

    rng = random.Random(f"{how} {seed}")
    falling = rng.random() < 0.4
    slack, reach = rng.choice([0, 2, 7]), rng.choice([0, 3, 12])
    rows = [side(rng, rng.randrange(60), falling) for _ in range(2)]
    order = ivjoin.Order("t", descending=falling, slack=slack)
    op = ivjoin.SymmetricHashJoin(
        SCHEMA, SCHEMA, on="k", condition=f"l.t BETWEEN r.t - {reach} AND r.t + 2", how=how, left_order=order,
        right_order=order, on_late="drop", batch_size=rng.choice([1, 5, 1000]),
    )
    at, out = [0, 0], []
    while at[0] < len(rows[0]) or at[1] < len(rows[1]):
        p = rng.randrange(2)
        n = rng.choice([1, 3, 20])
        piece = rows[p][at[p] : at[p] + n]
        at[p] += len(piece)
        columns = [pa.array([r[i] for r in piece], pa.int64()) for i in range(3)]
        out += op.push(("left", "right")[p], pa.record_batch(columns, schema=SCHEMA))
        if rng.random() < 0.1:
            op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    out += op.finish()
    kept = [on_time(r, slack, falling) for r in rows]
    got = Counter(tuple(r.values()) for b in out for r in b.to_pylist())
    assert got == nested_loop(kept[0], kept[1], how, reach)
    assert op.metrics.late_rows == sum(len(r) - len(k) for r, k in zip(rows, kept))
    assert op.metrics.state_rows == 0
