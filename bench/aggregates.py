"""Aggregates of each trade's prices within a second, without the pairs and with them: a window join as people run it.

    python -m bench.aggregates [--scale 1] [--symbols 50] [--engines ivjoin pairs duckdb] [--runs 1] [--seconds 300]

At scale 1: 1,000,000 trades, 3,000,000 prices, both in order of time, text symbols, one second to either side: some 50
prices a trade. Each engine runs in a process of its own, over the same Parquet files; the time is that of the join,
from files to an Arrow table, on the wall and of the processor. The engines must agree before a time is printed.
Bytecode is kept, as it is of a package that is installed; `--runs 2` leaves out the run that makes it.

ivjoin       ``window_join(..., aggregate=...)``
pairs        ``band_join`` makes the pairs, DuckDB groups them: what a join without aggregates has to do
duckdb       a join on symbol and bucket of a second, then the grouping
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["main"]

ENGINES = ("ivjoin", "pairs", "duckdb")
WITHIN = "r.ts BETWEEN l.ts - INTERVAL 1 SECOND AND l.ts + INTERVAL 1 SECOND"
COLUMNS = "avg(price) AS mean, count(price) AS n, max(price) AS top"


def tables(scale: float, symbols: int) -> tuple[pa.Table, pa.Table]:
    """Trades and prices in order of time."""
    rng = np.random.default_rng(7)
    trades, prices = int(1_000_000 * scale), int(3_000_000 * scale)
    span = max(1, int(2_160_000_000 * scale))  # microseconds: some 28 prices a symbol and second, at 50 symbols
    names = pa.array([f"SYM{i:04}" for i in range(symbols)])

    def side(n: int, value: str) -> pa.Table:
        symbol = names.take(pa.array(rng.integers(0, symbols, n)))
        ts = pa.array(np.sort(rng.integers(0, span, n))).view(pa.timestamp("us"))
        return pa.table({"id": np.arange(n), "sym": symbol, "ts": ts, value: np.round(rng.random(n) * 100, 2)})

    return side(trades, "qty"), side(prices, "price").drop_columns(["id"])


def run(engine: str, folder: Path) -> pa.Table:
    """id, mean, n and top of each trade."""
    trades, prices = str(folder / "trades.parquet"), str(folder / "prices.parquet")
    if engine == "duckdb":
        import duckdb

        second = "CAST(floor(epoch_us({}) / 1000000) AS BIGINT)"
        return duckdb.sql(
            f"WITH t AS (SELECT id, sym, ts, unnest([b - 1, b, b + 1]) AS bucket FROM (SELECT *, {second.format('ts')} "
            f"AS b FROM '{trades}')), p AS (SELECT *, {second.format('ts')} AS bucket FROM '{prices}'), "
            f"g AS (SELECT l.id, {COLUMNS} FROM t l JOIN p r ON l.sym = r.sym AND l.bucket = r.bucket AND {WITHIN} "
            f"GROUP BY l.id) SELECT t.id, g.mean, coalesce(g.n, 0) AS n, g.top FROM '{trades}' t LEFT JOIN g USING (id)"
        ).to_arrow_table()
    import ivjoin

    options: dict[str, Any] = {"on": "sym", "condition": WITHIN, "how": "left"}
    if engine == "ivjoin":
        asked = {"mean": ("price", "mean"), "n": ("price", "count"), "top": ("price", "max")}
        return ivjoin.window_join(
            trades, prices, **options, how="inner", aggregate=asked, columns=["id", *asked]
        ).read_all()
    import duckdb

    pairs = ivjoin.band_join(trades, prices, **options, columns=["id", "price"]).to_reader()  # noqa: F841
    return duckdb.sql(f"SELECT id, {COLUMNS} FROM pairs GROUP BY id").to_arrow_table()


def measured(engine: str, folder: Path) -> dict[str, Any]:
    """One run, in this process."""
    __import__("ivjoin" if engine != "duckdb" else "duckdb")
    start, processor = time.perf_counter(), time.process_time()
    out = run(engine, folder)
    seconds, used = time.perf_counter() - start, time.process_time() - processor
    out = out.sort_by("id")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": seconds, "processor": used, "mb": peak, "rows": out.num_rows,
        "pairs": int(np.asarray(out["n"]).sum()), "mean": float(np.nansum(out["mean"].to_numpy())),
        "top": float(np.nansum(out["top"].to_numpy())),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--symbols", type=int, default=50)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(json.dumps(measured(options.inside[0], Path(options.inside[1]))))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trades, prices = tables(options.scale, options.symbols)
        pq.write_table(trades, folder / "trades.parquet", row_group_size=131_072)
        pq.write_table(prices, folder / "prices.parquet", row_group_size=131_072)
        rows = trades.num_rows + prices.num_rows
        print(f"{trades.num_rows:,} trades, {prices.num_rows:,} prices, {options.symbols} symbols, "
              f"{os.cpu_count()} cores; best of {options.runs}")
        first: dict[str, Any] | None = None
        for engine in options.engines:
            best = _best(engine, folder, options)
            if best is None:
                print(f"{engine:8} no result in {options.seconds:.0f} s")
                continue
            first = first or best
            for field in ("rows", "pairs", "mean", "top"):
                if abs(best[field] - first[field]) > 1e-9 * abs(first[field]):
                    print(f"{engine} differs: {field} {best[field]} instead of {first[field]}")
                    return 1
            print(f"{engine:8} {best['seconds']:8.2f} s  {best['processor']:8.2f} s of the processor  "
                  f"{rows / best['seconds']:12,.0f} rows/s in  {best['mb']:6,.0f} MB  "
                  f"{best['processor'] / first['processor']:6.1f} x")
        if first is not None:
            print(f"{first['pairs']:,} pairs that need not be made")
    return 0


def _best(engine: str, folder: Path, options: argparse.Namespace) -> dict[str, Any] | None:
    found = []
    for _ in range(options.runs):
        command = [sys.executable, "-m", "bench.aggregates", "--inside", engine, str(folder)]
        around = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=options.seconds, check=True, env=around
            )
        except subprocess.TimeoutExpired:
            return None
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(found, key=lambda r: r["processor"])


if __name__ == "__main__":
    sys.exit(main())
