"""As-of joins of two tables, beside duckdb, polars and pandas: ``python -m bench.asof``.

Each gets the same tables in memory, and gives a table of the same rows; what they give is compared before it is timed.
Those that need sorted inputs sort them in the time that is shown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import ivjoin

__all__ = ["contestants", "main", "tables"]


def tables(left_rows: int, right_rows: int, keys: int, ordered: bool, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Trades and quotes; no two quotes have one time, so that there is one answer."""
    rng = np.random.default_rng(seed)
    left_ts = rng.integers(0, 100 * right_rows, left_rows)
    right_ts = rng.permutation(right_rows) * 100 + rng.integers(0, 100, right_rows)
    if ordered:
        left_ts, right_ts = np.sort(left_ts), np.sort(right_ts)
    stamp = pa.timestamp("us")
    left = {"sym": rng.integers(0, keys, left_rows), "ts": pa.array(left_ts).cast(stamp), "qty": rng.random(left_rows)}
    right = {
        "sym": rng.integers(0, keys, right_rows), "ts": pa.array(right_ts).cast(stamp), "bid": rng.random(right_rows)
    }
    return pa.table(left), pa.table(right)


Join = Callable[[pa.Table, pa.Table], Any]


def contestants() -> dict[str, Join]:
    """Who is installed, and how each is asked."""
    out: dict[str, Join] = {"ivjoin": lambda a, b: ivjoin.asof_join(a, b, on="ts", by="sym").read_all()}
    for name, join in (("duckdb", _duckdb), ("polars", _polars), ("pandas", _pandas)):
        try:
            import_module(name)
        except ImportError:
            continue
        out[name] = join
    return out


def _duckdb(left: pa.Table, right: pa.Table) -> Any:
    import duckdb

    con = duckdb.connect()
    con.register("l", left)
    con.register("r", right)
    asked = "SELECT l.*, r.ts AS ts_right, r.bid FROM l ASOF LEFT JOIN r ON l.sym = r.sym AND l.ts >= r.ts"
    return con.sql(asked).to_arrow_table()


def _polars(left: pa.Table, right: pa.Table) -> Any:
    import polars as pl

    a, b = (pl.from_arrow(t).sort("ts") for t in (left, right))
    return a.join_asof(b, on="ts", by="sym", check_sortedness=False).to_arrow()


def _pandas(left: pa.Table, right: pa.Table) -> Any:
    import pandas as pd

    a, b = (t.to_pandas().sort_values("ts") for t in (left, right))
    return pa.Table.from_pandas(pd.merge_asof(a, b, on="ts", by="sym"), preserve_index=False)


def _answer(table: pa.Table) -> tuple[int, int, float]:
    bids = table["bid"].to_numpy()
    return table.num_rows, int(np.isnan(bids).sum()), round(float(np.nansum(bids * table["qty"].to_numpy())), 3)


def main(arguments: list[str] | None = None) -> int:
    """Time all contestants, in turn; 1 if their answers differ."""
    parser = argparse.ArgumentParser(description="As-of joins beside others.")
    parser.add_argument("--left", type=int, default=500_000)
    parser.add_argument("--right", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    differ = False
    print("| tables | who | seconds | processor seconds |\n|---|---|--:|--:|")
    for ordered in (True, False):
        left, right = tables(options.left, options.right, options.keys, ordered)
        joins = contestants()
        answers = {name: _answer(join(left, right)) for name, join in joins.items()}
        if len(set(answers.values())) > 1:
            print(f"answers differ: {answers}", file=sys.stderr)
            differ = True
        best: dict[str, tuple[float, float]] = {}
        for _ in range(options.runs):
            for name, join in joins.items():
                start, used = perf_counter(), process_time()
                join(left, right)
                took = perf_counter() - start, process_time() - used
                best[name] = min(best.get(name, took), took)
        for name, (wall, cpu) in best.items():
            print(f"| {'in order' if ordered else 'out of order'} | {name} | {wall:.2f} | {cpu:.2f} |")
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
