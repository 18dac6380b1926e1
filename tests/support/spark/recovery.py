"""A numbered band join of two streams, and the rows that it must emit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

NUMBERED = pa.schema([("k", pa.int64()), ("t", pa.int64())])

BAND = "l.t BETWEEN r.t - 3 AND r.t"


def band(a: Any, b: Any, **changed: Any) -> Any:
    given = {"on": "k", "condition": BAND, "how": "left", "left_order": "t", "right_order": "t", "buckets": 3}
    return a.band_join(b, **{**given, **changed})


def rows(batch: int, size: int = 20) -> list[tuple[int, int]]:
    return [(i % 5, batch * size + i) for i in range(size)]


def expected(left: list[tuple[int, int]], right: list[tuple[int, int]], frontier: int) -> Counter[Any]:
    """Matched pairs, and the unmatched left rows that a right side come to ``frontier`` has decided."""
    out: Counter[Any] = Counter()
    for k, t in left:
        partners = [u for j, u in right if j == k and u - 3 <= t <= u]
        out.update((k, t, u) for u in partners)
        if not partners and t < frontier - 3:
            out[k, t, None] += 1
    return out
