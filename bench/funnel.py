"""A funnel of three Parquet files: views, carts within an hour of a view, purchases within an hour of a cart.

    python -m bench.funnel [--rows 1000000] [--runs 4]

The engines alternate in one process, each on one thread; the least processor time of so many runs counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ivjoin

__all__ = ["main"]

HOUR = 3600 * 10**6


def inputs(rng: np.random.Generator, rows: int, ordered: bool) -> dict[str, pa.Table]:
    """Return views of 20 rows a user in a week, and a third as many carts and a tenth of these as purchases."""

    def table(user: np.ndarray, ts: np.ndarray, name: str) -> pa.Table:
        order = np.argsort(ts) if ordered else np.arange(len(ts))
        at = pa.array(ts[order]).view(pa.timestamp("us"))
        return pa.table({"user": user[order], "ts": at, name: np.arange(len(ts))})

    def after(before: pa.Table, n: int, name: str) -> pa.Table:
        some = before.take(pa.array(rng.integers(0, len(before), n)))
        ts = np.asarray(some["ts"].cast(pa.int64())) + rng.integers(0, 2 * HOUR, n)
        return table(np.asarray(some["user"]), ts, name)

    view = table(rng.integers(0, max(1, rows // 20), rows), rng.integers(0, 7 * 24 * HOUR, rows), "view")
    cart = after(view, rows // 3, "cart")
    return {"v": view, "c": cart, "p": after(cart, rows // 10, "buy")}


def least(runs: int, *calls: Callable[[], int]) -> list[tuple[float, int]]:
    """Return the least processor time of each call, in seconds, and its rows."""
    found = [(float("inf"), 0)] * len(calls)
    for _ in range(runs):
        for i, call in enumerate(calls):
            start = time.process_time()
            rows = call()
            found[i] = min(found[i], (time.process_time() - start, rows))
    return found


def mine(files: dict[str, str], on: str, hows: dict[str, str] | None) -> int:
    names = ["v_view", "c_cart", "p_buy"]
    return ivjoin.multi_join(files, on, hows=hows, columns=names, threads=1).read_all().num_rows


def duckdbs(db: duckdb.DuckDBPyConnection, query: str) -> int:
    return db.sql(query).to_arrow_table().num_rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    wrong = 0
    print("| files | join | ivjoin s | duckdb s | ratio | rows |\n|---|---|--:|--:|--:|--:|")
    for ordered in (True, False):
        with tempfile.TemporaryDirectory() as where, duckdb.connect(config={"threads": 1}) as db:
            files = {a: str(Path(where) / f"{a}.parquet") for a in "vcp"}
            for a, table in inputs(np.random.default_rng(0), options.rows, ordered).items():
                pq.write_table(table, files[a])
            for how in ("inner", "left"):
                condition = "c.user = v.user AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 1 HOUR"
                later = "p.user = c.user AND p.ts BETWEEN c.ts AND c.ts + INTERVAL 1 HOUR"
                query = (
                    f"SELECT v.view, c.cart, p.buy FROM '{files['v']}' v {how} JOIN '{files['c']}' c ON {condition} "
                    f"{how} JOIN '{files['p']}' p ON {later}"
                )
                hows = None if how == "inner" else {"c": "left", "p": "left"}

                on = f"{condition} AND {later}"
                calls = partial(mine, files, on, hows), partial(duckdbs, db, query)
                (own, rows), (other, theirs) = least(options.runs, *calls)
                wrong += rows != theirs
                order = "in order of time" if ordered else "unordered"
                print(f"| {order} | {how} | {own:.3f} | {other:.3f} | {own / other:.2f} | {rows:,} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
