"""Windows of few stored rows: both sides are swept in order, and by lists where they are not in order."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join import duck
from oracle import HOWS

from ivjoin import Order, SymmetricHashJoin

pytestmark = pytest.mark.nojit

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})
Row = tuple[int | None, int | None, int]


def drawn(rng: random.Random, n: int, keys: int, disorder: float, nulls: float) -> list[Row]:
    """Rows about one a tick; some are late by up to 40 ticks, in some the key or the tick is missing."""
    rows: list[Row] = []
    for i in range(n):
        t = i - (rng.random() < 0.3) - (rng.randrange(40) if rng.random() < disorder else 0)
        k, at = rng.randrange(keys), max(t, i - 40)
        rows.append((None if rng.random() < nulls else k, None if rng.random() < nulls else at, i))
    return rows


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip("ktv", row, strict=True)) for row in rows], schema=SCHEMA)


def wanted(left: list[Row], right: list[Row], how: str, condition: str) -> Counter[Any]:
    tables = (pa.Table.from_batches([batch(rows)]) for rows in (left, right))
    found = duck.pairs(*tables, how, f"l.k = r.k AND {condition}")
    return Counter((None if i is None else left[i][2], None if j is None else right[j][2]) for i, j in found)


def joined(
    op: SymmetricHashJoin, left: list[Row], right: list[Row], sizes: list[int], lead: int, how: str
) -> tuple[Counter[Any], int]:
    """The output as (v of the left row, v of the right one), and how many times a side was probed in order."""
    out: Counter[Any] = Counter()
    done, swept, turn = [0, 0], 0, 0

    def take(batches: Any) -> None:
        for b in batches:
            names = b.schema.names
            a = b["v"].to_pylist() if not how.startswith("right_") else [None] * b.num_rows
            r = "v_right" if "v_right" in names else "v" if how.startswith("right_") else None
            out.update(zip(a, b[r].to_pylist() if r else [None] * b.num_rows, strict=True))

    rows = left, right
    while done != [len(left), len(right)]:
        side = 0 if (done[0] < done[1] + lead and done[0] < len(left)) or done[1] == len(right) else 1
        size = sizes[turn % len(sizes)]
        turn += 1
        take(op.push(("left", "right")[side], batch(rows[side][done[side] : done[side] + size])))
        done[side] = min(done[side] + size, len(rows[side]))
        swept = max(swept, *(op._engine.state.side(s, "swept") for s in (0, 1)))
        keys = op._engine.keys
        listed = keys.slots[: keys.n_ids]
        # of keys with rows in lists, by which it is decided whether to pass through in order
        assert keys.live == np.count_nonzero((listed[:, 0] >= 0) | (listed[:, 3] >= 0))
    take(op.finish())
    return out, swept


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("disorder", "nulls"), [(0, 0), (0.05, 0), (0.01, 0.03), (0, 0.05)])
def test_every_join_type_against_all_pairs(how: str, disorder: float, nulls: float) -> None:
    rng = random.Random(f"{how} {disorder} {nulls}")
    for turn in range(4):
        keys = (3, 11, 5, 2)[turn]
        low = rng.randrange(-3, 6)
        high = low + rng.randrange(3)
        left, right = (drawn(rng, rng.randrange(60, 240), keys, disorder, nulls) for _ in range(2))
        most = None if turn % 2 else rng.randrange(300)  # decided in Python; the other one by checks
        early = None if turn != 3 else rng.randrange(60)
        condition = f"l.t - r.t BETWEEN {low} AND {high}" + ("" if most is None else f" AND l.v + r.v <= {most}")
        condition += "" if early is None else f" AND (l.v < {early} OR l.t - r.t < {high})"
        order = Order("t", slack=40 if disorder else None)
        op = SymmetricHashJoin(
            SCHEMA, SCHEMA, on="k", condition=condition, how=how, left_order=order, right_order=order,
            batch_size=rng.choice([3, 65536]),
        )
        sizes = [rng.choice([1, 7, 16, 33, 64, 150]) for _ in range(5)]
        got, swept = joined(op, left, right, sizes, rng.choice([0, 40, 200]), how)
        assert got == wanted(left, right, how, condition)
        assert swept or disorder or nulls


def test_a_store_in_order_is_swept_again_once_late_rows_have_left() -> None:
    rng = random.Random(5)
    op = SymmetricHashJoin(
        SCHEMA, SCHEMA, on="k", condition="l.t - r.t BETWEEN 0 AND 1", left_order=Order("t", slack=3),
        right_order=Order("t", slack=3),
    )
    rows: list[Row] = [(rng.randrange(4), i, i) for i in range(400)]
    late: list[Row] = [*rows[:105], (1, 103, 1000), *rows[105:]]
    got: Counter[Any] = Counter()
    since: list[int] = []
    for i in range(0, 420, 20):
        for side, given in (("right", late), ("left", rows)):
            for out in op.push(side, batch(given[i : i + 20])):
                got.update(zip(out["v"].to_pylist(), out["v_right"].to_pylist(), strict=True))
            if side == "right":
                since.append(op._engine.state.side(1, "since") - op._engine.state.side(1, "lo"))
    assert got == wanted(rows, late, "inner", "l.t - r.t BETWEEN 0 AND 1")
    assert since[5] > 0  # the late row's batch is in no order
    assert {max(s, 0) for s in since[7:]} == {0}


@pytest.mark.slow
def test_a_batch_far_away_from_the_last_one_is_left_to_the_lists() -> None:
    """Where a side has come far and the other one jumps to and fro in it, passing through would take too long."""
    rng = random.Random(9)
    left: list[Row] = [(rng.randrange(50), i, i) for i in range(2000)]
    starts = [rng.randrange(2000 - 5) for _ in range(60)]
    right: list[Row] = [(rng.randrange(50), start + i, 5 * n + i) for n, start in enumerate(starts) for i in range(5)]
    op = SymmetricHashJoin(
        SCHEMA, SCHEMA, on="k", condition="l.t - r.t BETWEEN 0 AND 1", left_order="t",
        right_order=Order("t", slack=2000),
    )  # fmt: skip
    got, _ = joined(op, left, right, [5], 2000, "inner")
    assert got == wanted(left, right, "inner", "l.t - r.t BETWEEN 0 AND 1")


@pytest.mark.parametrize("end", [-(2**63), 2**63 - 1])
def test_windows_that_reach_beyond_int64_are_not_swept(end: int) -> None:
    step = 1 if end < 0 else -1
    rows: list[Row] = [(i % 3, v, i) for i, v in enumerate(sorted(end + step * i for i in range(30)))]
    op = SymmetricHashJoin(
        SCHEMA, SCHEMA, on="k", condition="l.t - r.t BETWEEN -2 AND 2", left_order="t", right_order="t"
    )
    got, _ = joined(op, rows, rows, [7], 0, "inner")
    assert got == wanted(rows, rows, "inner", "l.t - r.t BETWEEN -2 AND 2")


def pushed(op: SymmetricHashJoin, side: str, rows: list[Row]) -> Counter[Any]:
    out: Counter[Any] = Counter()
    for b in op.push(side, batch(rows)):
        out.update(zip(b["v"].to_pylist(), b["v_right"].to_pylist(), strict=True))
    return out


def in_no_list(op: SymmetricHashJoin) -> bool:
    return any(op._engine.state.side(s, "loose") for s in (0, 1))


@pytest.mark.parametrize("distinct", [2, 9, 100_000])
def test_ids_of_keys_are_taken_back_while_rows_are_in_no_list(distinct: int) -> None:
    """Thousands of keys that come and go, most of them in no list ever; now and then rows that are out of order."""
    rng = random.Random(distinct)
    options = {"on": "k", "condition": "l.t - r.t BETWEEN -1 AND 1"}
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **options, left_order=Order("t", slack=5), right_order=Order("t", slack=5))
    n, step = 6000, 250
    keys = [i // 40 % distinct if rng.random() < 0.7 else rng.randrange(distinct) for i in range(n)]
    left: list[Row] = [(keys[i], i, i) for i in range(n)]
    right: list[Row] = [(keys[i - rng.randrange(2)], i, i) for i in range(n)]
    left[3100] = (left[3100][0], 3097, 3100)
    right[3900] = (right[3900][0], 3896, 3900)
    got: Counter[Any] = Counter()
    loose = 0
    for start in range(0, n, step):
        for side, rows in (("left", left), ("right", right)):
            got += pushed(op, side, rows[start : start + step])
            loose += in_no_list(op)
    assert sum(b.num_rows for b in op.finish()) == 0
    assert got == wanted(left, right, "inner", "l.t - r.t BETWEEN -1 AND 1")
    assert loose > n // step // 2


@pytest.mark.slow
@pytest.mark.parametrize("what", ["snapshot", "advance", "reach", "finish", "grow"])
def test_any_call_while_rows_are_in_no_list(what: str) -> None:
    rng = random.Random(what)
    op = SymmetricHashJoin(
        SCHEMA, SCHEMA, on="k", condition="l.t - r.t BETWEEN 0 AND 1", left_order="t", right_order="t"
    )
    rows: list[Row] = [(rng.randrange(5), i, i) for i in range(1200)]
    got: Counter[Any] = Counter()
    for start in range(0, 200, 50):
        got += pushed(op, "right", rows[start : start + 50])
        got += pushed(op, "left", rows[start : start + 50])
    got += pushed(op, "right", rows[200:250])
    assert in_no_list(op)
    if what == "snapshot":
        op = SymmetricHashJoin.restore(op.snapshot())
    elif what == "advance":
        assert list(op.advance("right", {"t": 249})) == []
    elif what == "reach":
        assert list(op.reach("right", [249])) == []
    elif what == "grow":
        got += pushed(op, "right", rows[250:1200])  # the ring must grow, and ids move
    if what == "finish":
        assert list(op.finish("right")) == []
        got += pushed(op, "left", rows[200:250])
        done = 250
    else:
        got += pushed(op, "left", rows[200:1200])
        if what != "grow":
            got += pushed(op, "right", rows[250:1200])
        done = 1200
    assert got == wanted(rows[:done], rows[:done], "inner", "l.t - r.t BETWEEN 0 AND 1")
    assert sum(b.num_rows for b in op.finish()) == 0
    assert op.metrics.state_rows == 0
