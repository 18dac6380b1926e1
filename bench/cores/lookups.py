"""As-of joins and aggregates over a window: a quarter as many left rows as right ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import ivjoin

_WITHIN = 100_000  # ticks to either side; right rows are 100 ticks apart, so two of 1,000 keys lie within


@dataclass(frozen=True)
class Lookup:
    """The last quote of each trade (``asof``), or the number and mean of the quotes around it."""

    name: str
    asof: bool
    ordered: bool = True

    def tables(self, rows: int) -> tuple[pa.Table, pa.Table]:
        """Trades and quotes of 1,000 symbols; no two quotes have one time, so that there is one answer."""
        rng = np.random.default_rng(1)
        left, right = rng.integers(0, 100 * rows, rows // 4), rng.permutation(rows) * 100
        if self.ordered:
            left, right = np.sort(left), np.sort(right)
        trades = {"k": rng.integers(0, 1000, rows // 4), "ts": left, "v": np.arange(rows // 4)}
        quotes = {"k": rng.integers(0, 1000, rows), "ts": right, "bid": rng.random(rows)}
        return pa.table(trades), pa.table(quotes)

    def expected(self, left: pa.Table, right: pa.Table) -> int:
        return left.num_rows

    def join(self, left: pa.Table, right: pa.Table, threads: int) -> list[pa.RecordBatch]:
        if self.asof:
            return list(ivjoin.asof_join(left, right, on="ts", by="k", threads=threads))
        within = f"r.ts BETWEEN l.ts - {_WITHIN} AND l.ts + {_WITHIN}"
        asked = {"n": "count(*)", "mean": "avg(r.bid)"}
        return list(ivjoin.window_join(left, right, on="k", condition=within, aggregate=asked, threads=threads))

    def sql(self) -> str:
        if self.asof:
            return "SELECT l.*, r.ts AS ts_right, r.bid FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts"
        bucket = f"ts // {2 * _WITHIN + 1}"
        return (
            f"SELECT any_value(l.k), any_value(l.ts), l.v, count(r.k), avg(r.bid) "
            f"FROM (SELECT *, unnest([{bucket} - 1, {bucket}, {bucket} + 1]) AS b FROM l) l LEFT JOIN "
            f"(SELECT *, {bucket} AS b FROM r) r ON l.k = r.k AND l.b = r.b "
            f"AND r.ts BETWEEN l.ts - {_WITHIN} AND l.ts + {_WITHIN} GROUP BY l.v"
        )

    def polars(self, left: pa.Table, right: pa.Table) -> Any:
        """The rows by Polars, which needs sorted inputs, or None where it has no such join."""
        if not self.asof:
            return None
        import polars as pl

        a, b = pl.from_arrow(left), pl.from_arrow(right)
        if not self.ordered:
            a, b = a.sort("ts"), b.sort("ts")
        return a.join_asof(b, on="ts", by="k", check_sortedness=False)


LOOKUPS = [
    Lookup("as of", True),
    Lookup("as of, unordered", True, ordered=False),
    Lookup("count and mean", False),
    Lookup("count and mean, unordered", False, ordered=False),
]
