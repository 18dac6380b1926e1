"""Compare the state of a join of three inputs over time with two joins of two inputs.

    python -m bench.multiway_state            # writes docs/multiway-state.svg

Three ordered inputs are pushed in turn, in batches of a hundred rows, into one ``MultiJoin`` and into two
``SymmetricHashJoin``. The second of these receives the output and the ``output_bounds`` of the first. After each round,
the stored rows of all operators are counted. The results are compared. In the case "transitive", only c bounds a, so
the join of a and b has no band. Two joins of two inputs then never evict its rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.charts import pyplot, save
from bench.runner import RESULTS
from bench.runner import save as save_records
from ivjoin import MultiJoin, SymmetricHashJoin

__all__ = ["SHAPES", "main", "over_time"]

_ROWS, _KEYS, _BATCH = 6000, 100, 100
_SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64()})
_KEYED = "a.k = b.k AND b.k = c.k AND "
# By shape: the whole condition, that of a (l) with b (r), and that of these (l: ts, ts_right) with c (r).
SHAPES: dict[str, tuple[str, str | None, str]] = {
    "chain": (
        _KEYED + "b.ts BETWEEN a.ts AND a.ts + 1000 AND c.ts BETWEEN b.ts - 1000 AND b.ts",
        "r.ts BETWEEN l.ts AND l.ts + 1000", "r.ts BETWEEN l.ts_right - 1000 AND l.ts_right",
    ),
    "star": (
        _KEYED + "b.ts BETWEEN a.ts - 1000 AND a.ts AND c.ts BETWEEN a.ts - 1000 AND a.ts",
        "r.ts BETWEEN l.ts - 1000 AND l.ts", "r.ts BETWEEN l.ts - 1000 AND l.ts",
    ),
    "triangle": (
        _KEYED + "b.ts BETWEEN a.ts AND a.ts + 1000 AND c.ts BETWEEN b.ts AND b.ts + 1000 AND c.ts <= a.ts + 1500",
        "r.ts BETWEEN l.ts AND l.ts + 1000", "r.ts BETWEEN l.ts_right AND l.ts_right + 1000 AND r.ts <= l.ts + 1500",
    ),
    "transitive": (
        _KEYED + "a.ts BETWEEN c.ts - 1000 AND c.ts AND b.ts BETWEEN c.ts - 50 AND c.ts", None,
        "l.ts BETWEEN r.ts - 1000 AND r.ts AND l.ts_right BETWEEN r.ts - 50 AND r.ts",
    ),
}  # fmt: skip


class Pairs:
    """Two joins of two, one after the other."""

    def __init__(self, first: str | None, second: str) -> None:
        self.one = SymmetricHashJoin(_SCHEMA, _SCHEMA, on="k", condition=first, left_order="ts", right_order="ts")
        self.two = SymmetricHashJoin(self.one.schema, _SCHEMA, on="k", condition=second, right_order="ts", suffix="_c")

    def push(self, alias: str, batch: pa.RecordBatch) -> int:
        if alias == "c":
            return sum(b.num_rows for b in self.two.push("right", batch))
        rows = 0
        for out in self.one.push("left" if alias == "a" else "right", batch):
            rows += sum(b.num_rows for b in self.two.push("left", out))
        bounds = self.one.output_bounds()
        known = {n: bounds[n][0] for n in ("ts", "ts_right") if n in bounds and bounds[n][0] is not None}
        if known:
            rows += sum(b.num_rows for b in self.two.advance("left", known))  # type: ignore[arg-type]
        return rows

    @property
    def held(self) -> int:
        return self.one.metrics.state_rows + self.two.metrics.state_rows


def over_time(shape: str, rows: int) -> dict[str, Any]:
    """Rows stored after each round, by both methods."""
    whole, first, second = SHAPES[shape]
    given = {}
    for seed, alias in enumerate("abc"):
        rng = np.random.default_rng(seed)
        ts = np.sort(rng.integers(0, 2 * rows, rows))
        given[alias] = pa.record_batch([rng.integers(0, _KEYS, rows), ts], schema=_SCHEMA)
    many = MultiJoin(dict.fromkeys("abc", _SCHEMA), whole, orders=dict.fromkeys("abc", "ts"))
    pairs = Pairs(first, second)
    held: dict[str, list[int]] = {"multi_join": [], "pairs": []}
    out = {"multi_join": 0, "pairs": 0}
    for start in range(0, rows, _BATCH):
        for alias, batch in given.items():
            piece = batch.slice(start, _BATCH)
            out["multi_join"] += sum(b.num_rows for b in many.push(alias, piece))
            out["pairs"] += pairs.push(alias, piece)
        held["multi_join"].append(many.metrics.state_rows)
        held["pairs"].append(pairs.held)
    assert out["multi_join"] == out["pairs"] > 0, out
    return {"kind": "state", "case": shape, "rows": rows, "rows_out": out["pairs"], "held": held}


def chart(records: list[dict[str, Any]], path: Path) -> str:
    plt = pyplot()
    figure, axes = plt.subplots(1, len(records), figsize=(2.6 * len(records), 2.6), sharey=True)
    for axis, r in zip(np.atleast_1d(axes), records, strict=True):
        at = np.arange(1, len(r["held"]["pairs"]) + 1) * _BATCH
        for way, color in (("pairs", "gray"), ("multi_join", "#c1272d")):
            axis.semilogy(at, r["held"][way], color=color, label=way)
        axis.set(title=r["case"], xlabel="rows of each input")
    np.atleast_1d(axes)[0].set_ylabel("stored rows")
    np.atleast_1d(axes)[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    return save(figure, path)


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.multiway_state", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=_ROWS, help="of each input (default: %(default)s)")
    p.add_argument("--out", default=str(RESULTS / "multiway_state.jsonl"))
    p.add_argument("--chart", default=str(Path(__file__).parent.parent / "docs" / "multiway-state.svg"))
    args = p.parse_args(argv)
    records = [over_time(shape, args.rows) for shape in SHAPES]
    for r in records:
        most = {way: f"{max(counts):,}" for way, counts in r["held"].items()}
        print(f"{r['case']}: at most {most['multi_join']} rows stored, by pairs {most['pairs']}")
    save_records(Path(args.out), records)
    chart(records, Path(args.chart))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
