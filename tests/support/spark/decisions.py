"""A model of a streaming band join over integer times: which rows are late, and the output of each micro-batch."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.frontier.order import Order
from ivjoin.plan.question import join_spec
from ivjoin.plan.spec import JoinSpec

ROWS = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
BAND = "l.t BETWEEN r.t - 3 AND r.t"
# for DuckDB
COLUMNS = "coalesce(l.k, r.k) AS k, l.t, l.v, r.t AS t_right, r.v AS v_right"
SLACK = 4
CLOSING = [(-1, 1_000_000, -1)], [(-2, 2_000_000, -2)]

Batches = list[list[tuple[Any, ...]]]


def drawn(seed: int) -> Batches:
    """Six micro-batches of rising times; some rows far behind, some without key or time, some exactly on the edge."""
    rng = random.Random(seed)
    out: Batches = []
    for b in range(6):
        rows = []
        for i in range(rng.randrange(0, 25)):
            at = b * 10 + rng.randrange(10)
            t = rng.choice([at, at, at, at, at, at, at - 15, None])
            rows.append((rng.choice([1, 2, 3, 4, None]), t, 1000 * seed + 100 * b + i))
        out.append(rows)
    return out


def on_time(batches: Batches, slack: int) -> Batches:
    """The rows that are not late: not behind what the earlier micro-batches of the side promised."""
    out: Batches = []
    for rows in batches:
        least = _least([r for batch in out for r in batch], slack)
        out.append([r for r in rows if r[1] is None or least is None or r[1] >= least])
    return out


def kept_and_late(left: Batches, right: Batches) -> tuple[tuple[Batches, Batches], int]:
    """The rows of both sides that are not late under ``SLACK`` on the left, and how many are."""
    kept = on_time(left, SLACK), on_time(right, 0)
    return kept, sum(len(rows) for rows in (*left, *right)) - sum(len(rows) for side in kept for rows in side)


def spec_for(how: str, batch_size: int) -> JoinSpec:
    """``BAND`` with ``SLACK`` on the left, late rows dropped."""
    return join_spec(
        ROWS, ROWS, on="k", condition=BAND, how=how, left_order=Order("t", slack=SLACK), right_order="t",
        on_late="drop", batch_size=batch_size,
    )


def first_decided(left: Batches, right: Batches, how: str) -> list[Counter[Any]]:
    """What each micro-batch has to give: a pair with its later row, an unmatched row once it can find none."""
    arrived: tuple[list[Any], list[Any]] = ([], [])
    matched: tuple[set[int], set[int]] = (set(), set())
    given: tuple[set[int], set[int]] = (set(), set())
    out = []
    for new in zip(left, right, strict=True):
        batch: Counter[Any] = Counter()
        before = len(arrived[0]), len(arrived[1])
        for s in (0, 1):
            arrived[s].extend(new[s])
        for i, a in enumerate(arrived[0]):
            for j, b in enumerate(arrived[1]):
                if (i >= before[0] or j >= before[1]) and _matches(a, b):
                    matched[0].add(i)
                    matched[1].add(j)
                    if how in ("inner", "left", "right", "full"):
                        batch[(*a, b[1], b[2])] += 1
        least = [_least(rows, slack) for rows, slack in zip(arrived, (SLACK, 0), strict=True)]
        for s, side in enumerate(("left", "right")):
            for i, row in enumerate(arrived[s]):
                if i in given[s]:
                    continue
                if how == f"{side}_semi" and i in matched[s]:
                    batch[row] += 1
                    given[s].add(i)
                elif i not in matched[s] and _hopeless(row, s, least[1 - s]):
                    given[s].add(i)
                    if how == f"{side}_anti":
                        batch[row] += 1
                    elif how in (side, "full"):
                        k, t, v = row
                        batch[(k, t, v, None, None) if s == 0 else (k, None, None, t, v)] += 1
        out.append(batch)
    return out


def _matches(a: Any, b: Any) -> bool:
    return None not in (a[0], a[1], b[0], b[1]) and a[0] == b[0] and b[1] - 3 <= a[1] <= b[1]


def _least(rows: list[Any], slack: int) -> int | None:
    """The least time that a row to come may have."""
    times = [r[1] for r in rows if r[1] is not None]
    return max(times) - slack if times else None


def _hopeless(row: Any, side: int, least: int | None) -> bool:
    k, t, _ = row
    return k is None or t is None or (least is not None and (least > t + 3 if side == 0 else least > t))


def as_table(batches: Batches) -> pa.Table:
    columns = zip(*[r for rows in batches for r in rows], strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)], schema=ROWS)
