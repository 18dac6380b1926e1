"""Measure memory over a long run: 10^8 rows through one join, with samples of the state and of the process.

    python -m bench.soak                 # 10^8 rows, several minutes
    python -m bench.soak --rows 1000000  # a short run

The join is a full outer join on 10^4 keys with a window of 1,000 rows. The keys change over time, so that a key table
that never removes keys would grow. The run fails if the process or the state grows by more than a tenth after the first
fifth of the rows.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cell import memory
from bench.runner import RESULTS, save

__all__ = ["main", "soak"]

REACH, KEYS, BATCH = 1000, 10_000, 4096


def _batch(rng: np.random.Generator, start: int) -> pa.RecordBatch:
    """``BATCH`` rows from row ``start`` on; the keys drift by one every 100 rows."""
    s = np.arange(start, start + BATCH)
    return pa.record_batch({"k": rng.integers(0, KEYS, BATCH) + s // 100, "s": s, "v": rng.random(BATCH)})


def soak(rows: int, samples: int = 200) -> list[dict[str, Any]]:
    """Push ``rows`` rows, both sides together; a record for each sample."""
    from ivjoin import SymmetricHashJoin

    rng = np.random.default_rng(1)
    schema = _batch(rng, 0).schema
    op = SymmetricHashJoin(
        schema, schema, on="k", how="full", condition=f"l.s BETWEEN r.s - {REACH} AND r.s + {REACH}", left_order="s",
        right_order="s",
    )  # fmt: skip
    out, pushes = [], max(samples, rows // (2 * BATCH))
    begun = time.perf_counter()
    for i in range(pushes):
        for side in ("left", "right"):
            for _ in op.push(side, _batch(rng, i * BATCH)):
                pass
        if (i + 1) * samples // pushes > i * samples // pushes:
            m = op.metrics
            out.append({
                "kind": "soak", "rows": 2 * (i + 1) * BATCH, "seconds": time.perf_counter() - begun,
                "state_rows": m.state_rows, "state_bytes": m.state_bytes, "memory": memory("VmRSS"),
                "rows_out": m.rows_out,
            })  # fmt: skip
    return out


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.soak", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=10**8)
    p.add_argument("--out", default=str(RESULTS / "soak.jsonl"))
    args = p.parse_args(argv)
    records = soak(args.rows)
    save(Path(args.out), records)
    fifth = max(1, len(records) // 5)
    grown = {}
    for field in ("state_rows", "state_bytes", "memory"):
        early, late = (max(r[field] for r in part) for part in (records[:fifth], records[-fifth:]))
        grown[field] = late / max(early, 1)
        print(f"{field:12} {early:>14,} in the first fifth, {late:>14,} in the last: {grown[field]:.3f}")
    last = records[-1]
    print(f"{last['rows']:,} rows in {last['seconds']:.1f} s, {last['rows_out']:,} rows out")
    return 1 if max(grown.values()) > 1.1 else 0


if __name__ == "__main__":
    raise SystemExit(main())
