"""Band joins of two tables, and how many rows each must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import ivjoin

SPAN = 1000  # ticks for each row
COLUMNS = ["k", "ts", "v", "ts_right", "v_right"]
Keys = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Band:
    """Left rows `below` ticks before a right row to `above` ticks after it; `keys` is None for a join without a key."""

    name: str
    keys: Keys | None
    below: int
    above: int
    how: str = "inner"
    ordered: bool = True
    text: bool = False
    gaps: bool = False  # Zipf gaps between timestamps in place of even ones

    def table(self, rows: int, seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        ts = rng.integers(0, rows * SPAN, rows)
        if self.gaps:
            ts = np.cumsum(np.minimum(rng.zipf(1.5, rows), 10_000)) * (SPAN // 4)
        k = self.keys(rng, rows).astype(np.int64) if self.keys else np.zeros(rows, np.int64)
        key = pa.array([f"key number {i}" for i in range(int(k.max()) + 1)]).take(pa.array(k)) if self.text else k
        return pa.table({"k": key, "ts": np.sort(ts) if self.ordered else ts, "v": np.arange(rows)})

    def tables(self, rows: int) -> tuple[pa.Table, pa.Table]:
        return self.table(rows, 1), self.table(rows, 2)

    def expected(self, left: pa.Table, right: pa.Table) -> int:
        """Rows out, counted by searches in sorted numbers of key and time."""
        shift = 1 << 44  # more than any tick
        a, b = (_numbers(t["k"]) * shift + t["ts"].to_numpy() for t in (left, right))
        pairs, alone = [], []
        for mine, other, less, more in ((a, b, self.above, self.below), (b, a, self.below, self.above)):
            theirs = np.sort(other)
            first = np.searchsorted(theirs, mine - less)
            found = np.searchsorted(theirs, mine + more, side="right") - first
            pairs.append(int(found.sum()))
            alone.append(int((found == 0).sum()))
        if self.how == "left_semi":
            return len(a) - alone[0]
        return pairs[0] + alone[0] * (self.how in ("left", "full")) + alone[1] * (self.how == "full")

    def join(self, left: pa.Table, right: pa.Table, threads: int) -> list[pa.RecordBatch]:
        orders: dict[str, Any] = {"left_order": "ts", "right_order": "ts"} if self.ordered else {}
        return list(
            ivjoin.band_join(
                left, right, on="k" if self.keys else None, how=self.how, threads=threads,
                condition=f"r.ts BETWEEN l.ts - {self.above} AND l.ts + {self.below}",
                columns=COLUMNS[:3] if self.how == "left_semi" else COLUMNS, **orders,
            )
        )  # fmt: skip

    def sql(self) -> str | None:
        """DuckDB's query, the band cut into buckets; None where only ivjoin is measured."""
        if self.how != "inner" or self.text or self.gaps:
            return None
        width = 4 * (self.below + self.above + 1)
        first, last = f"(ts - {self.below}) // {width}", f"(ts + {self.above}) // {width}"
        copies = (
            f"SELECT *, {first} AS b FROM r UNION ALL BY NAME "
            f"SELECT *, unnest(range({first} + 1, {last} + 1)) AS b FROM r WHERE {last} > {first}"
        )
        return (
            f"SELECT l.k, l.ts, l.v, r.ts AS ts_right, r.v AS v_right FROM (SELECT *, ts // {width} AS b FROM l) l "
            f"JOIN ({copies}) r ON {'l.k = r.k AND ' if self.keys else ''}l.b = r.b "
            f"AND l.ts BETWEEN r.ts - {self.below} AND r.ts + {self.above}"
        )

    def polars(self, left: pa.Table, right: pa.Table) -> Any:
        return None  # its join by inequalities has no key


def _numbers(keys: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_string(keys.type):
        return np.array([int(k[11:]) for k in keys.to_pylist()], np.int64)
    return keys.to_numpy()


def _even(keys: int) -> Keys:
    return lambda rng, rows: rng.integers(0, keys, rows)


def _hot(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(rng.random(rows) < 0.8, 0, rng.integers(0, 10_000, rows))


_WIDE, _NARROW = (10_000_000, 5_000_000), (3_000, 2_000)
BANDS = [
    *(Band("10,000 keys", _even(10_000), *_WIDE, how=how) for how in ("inner", "left", "full", "left_semi")),
    Band("one key has 80 %", _hot, *_NARROW),
    Band("no key", None, *_NARROW),
    Band("1,000 text keys", _even(1_000), 1_000_000, 1_000_000, text=True),
    Band("1,000 keys, Zipf gaps", _even(1_000), 1_500_000, 1_500_000, gaps=True),
    Band("10,000 keys, unordered", _even(10_000), *_WIDE, ordered=False),
]
