"""A join of two streams whose plans follow the data, also in a process that a test may kill."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from spark.killed import started
from spark.second_opinion import joined

ROWS = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])

BAND = "l.t BETWEEN r.t - 20 AND r.t + 10"

SQL = BAND + " AND l.k = r.k"

OUT = "coalesce(l.k, r.k) AS k, l.t, l.v, r.t AS t_right, r.v AS v_right"

STEP, FAR = 4000, 10**9


def follow(a: Any, b: Any, folder: Path, **changed: Any) -> Any:
    given = {"on": "k", "condition": BAND, "left_order": "t", "right_order": "t", "buckets": 3,
             "routing_dir": str(folder / "plans")}  # fmt: skip
    return a.band_join(b, **{**given, **changed})


def piece(side: int, batch: int, n: int = 500) -> list[tuple[int, int, int]]:
    """Key 7 becomes heavy in the third micro-batch."""
    rng = random.Random(10 * batch + side)
    times = sorted(rng.randrange(STEP * batch, STEP * batch + STEP) for _ in range(n))
    heavy = 0.8 if batch > 1 else 0.0
    return [(7 if rng.random() < heavy else rng.randrange(500), t, 100_000 * side + 1000 * batch + i)
            for i, t in enumerate(times)]  # fmt: skip


def expected(batches: int, how: str) -> Counter[Any]:
    tables = []
    for side in (0, 1):
        rows = [r for b in range(batches) for r in piece(side, b)]
        tables.append(pa.table([pa.array(c, pa.int64()) for c in zip(*rows, strict=True)], schema=ROWS))
    return joined(tables[0], tables[1], how, SQL, OUT)


def without_end(rows: Counter[Any]) -> Counter[Any]:
    """Without the rows that only move the frontier."""
    return Counter({row: n for row, n in rows.items() if not {-1, -2} & set(row)})


def started_to_follow(folder: Path, **options: Any) -> subprocess.Popen[bytes]:
    return started(folder, f"""
from spark.following import ROWS, follow
Script(s, folder, lambda a, b: follow(a, b, folder, **{options!r}), ROWS, ROWS).start().awaitTermination()
""")
