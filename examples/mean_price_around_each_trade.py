"""Compute the mean, the greatest and the last price within a second of each trade, without building pairs.

    python examples/mean_price_around_each_trade.py [TRADES]
"""

import sys
from time import perf_counter

import numpy as np
import pyarrow as pa

import ivjoin

TRADES = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
rng = np.random.default_rng(1)
SYMBOLS = pa.array(["AAA", "BBB", "CCC", "DDD"])


def side(n: int, column: str) -> pa.Table:
    """Return a table with one price in each row, in order of time."""
    ts = np.sort(rng.integers(0, TRADES * 4_000, n))
    return pa.table({
        "sym": SYMBOLS.take(pa.array(rng.integers(0, 4, n))), "ts": pa.array(ts).view(pa.timestamp("us")),
        column: np.round(100 + rng.normal(size=n), 2),
    })  # fmt: skip


trades, prices = side(TRADES, "paid"), side(3 * TRADES, "price")
start = perf_counter()
stream = ivjoin.window_join(
    trades, prices, on="sym",
    condition="r.ts BETWEEN l.ts - INTERVAL 1 SECOND AND l.ts + INTERVAL 1 SECOND",
    aggregate={"mean": "mean(r.price)", "top": "max(r.price)", "last": "last(r.price)", "n": "count(*)"},
)
out = stream.to_arrow()
print(out.slice(0, 3).to_pandas().to_string(index=False))
pairs = sum(out["n"].to_pylist())
print(f"{out.num_rows:,} trades in {perf_counter() - start:.2f} s; {pairs:,} pairs that were not built")
print(f"at most {stream.metrics.peak_state_rows:,} rows stored")
