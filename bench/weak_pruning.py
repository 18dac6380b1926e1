"""Compare the state of ivjoin and of DataFusion's symmetric join under conditions that are hard to prune.

    python -m bench.weak_pruning                 # 20,000 rows per side, batches of 256
    python -m bench.weak_pruning --rows 1000000  # use --only-ivjoin, because DataFusion takes too long

The conditions are in tests/support/join/weak.py. ivjoin's number of output rows is compared with a brute-force count.
Its peak state is the largest state at the end of any call. DataFusion reports only ``stream_memory_usage``, which is
the bytes in the state of both sides at the end of the input. It needs an equality key, so a column of ones is added.
DataFusion also runs with a quarter of the rows: state that is not pruned grows with the rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import shared_tables
from bench.peers.datafusion_peers import create_external, session, state_bytes
from bench.runner import RESULTS, save

__all__ = ["main", "through_ivjoin"]

_LIMIT = 30.0  # seconds for DataFusion on one condition: with one key it compares every pair it holds


def inputs(weak: Any, rows: int) -> tuple[pa.Table, pa.Table]:
    w = shared_tables.weak()
    left, right = (w.record(side(rows), weak.types) for side in (weak.left, weak.right))
    if not getattr(weak, "nullable", True):
        left, right = (
            t.cast(pa.schema([f.with_nullable(False) for f in t.schema])) for t in (left, right)
        )  # fmt: skip
    return left, right


def through_ivjoin(weak: Any, rows: int, batch: int) -> dict[str, Any]:
    """Batches of both sides in turn; raises if the number of output rows is wrong."""
    from ivjoin import Order, SymmetricHashJoin

    left, right = inputs(weak, rows)
    options: dict[str, Any] = {
        k: Order(**v) if k.endswith("order") and isinstance(v, dict) else v for k, v in weak.options.items()
    }  # fmt: skip
    op = SymmetricHashJoin(left.schema, right.schema, condition=weak.condition, **options)
    out = 0
    for a, b in zip(left.to_batches(max_chunksize=batch), right.to_batches(max_chunksize=batch), strict=True):
        out += sum(x.num_rows for x in op.push("left", a))
        out += sum(x.num_rows for x in op.push("right", b))
    m = op.metrics
    held = {"end_state_rows": m.state_rows, "end_state_bytes": m.state_bytes}
    out += sum(x.num_rows for x in op.finish())
    want = len(shared_tables.weak().expected(weak, rows))
    if out != want:
        raise AssertionError(f"{weak.name}: {out} rows came out, {want} were expected")
    return {
        **held, "rows_out": out, "peak_state_rows": m.peak_state_rows, "peak_state_bytes": m.peak_state_bytes,
    }  # fmt: skip


def _order(options: dict[str, Any], side: str) -> tuple[str, str]:
    """The declared order as SQL, and why DataFusion cannot have it."""
    order = options.get(f"{side}_order")
    spec = order if isinstance(order, dict) else {"expr": order}
    return f"{spec['expr']} {'DESC' if spec.get('descending') else 'ASC'}", "no slack" if spec.get("slack") else ""


def through_datafusion(weak: Any, rows: int, batch: int) -> dict[str, Any]:
    """In this process; the caller limits its time."""
    (left_order, a), (right_order, b) = _order(weak.options, "left"), _order(weak.options, "right")
    if a or b:
        return {"why": "cannot declare an order with slack"}
    condition = shared_tables.datafusion_sql(weak.condition)
    sql = f"SELECT l.n, r.n AS m FROM l JOIN r ON l.one = r.one AND ({condition})"
    with tempfile.TemporaryDirectory() as folder:
        ctx = session(batch)
        for name, table, order in zip("lr", inputs(weak, rows), (left_order, right_order), strict=True):
            with_key = table.append_column("one", pa.array([1] * rows, pa.int64()))
            create_external(ctx, name, with_key, order, Path(folder))
        if "SymmetricHashJoinExec" not in ctx.sql(sql).execution_plan().display_indent():
            return {"why": "planned without a symmetric hash join"}
        held = state_bytes(ctx, sql)
    return {"why": "reports none"} if held is None else {"state_bytes": held}


def _limited(weak: Any, rows: int, batch: int) -> dict[str, Any]:
    """DataFusion in a process of its own."""
    command = [sys.executable, "-m", "bench.weak_pruning", "--child", weak.name]
    command += ["--rows", str(rows), "--batch", str(batch)]
    root = Path(__file__).parent.parent
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, cwd=root, check=False)
    except subprocess.TimeoutExpired:
        return {"why": f"over {_LIMIT:g} s"}
    if done.returncode:
        text = done.stderr.rpartition("Traceback (most recent call last):")[2]
        lines = [x for x in text.splitlines() if x and not x.startswith(" ")]
        return {"why": "the engine raises an error", "error": " ".join(lines)[:300]}
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.weak_pruning", description=__doc__.splitlines()[0])
    p.add_argument("condition", nargs="*", help="names in the list (default: all)")
    p.add_argument("--rows", type=int, default=20_000)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--only-ivjoin", action="store_true")
    p.add_argument("--out", default=str(RESULTS / "weak_pruning.jsonl"))
    p.add_argument("--child", help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    every = shared_tables.weak().WEAK
    if args.child:
        print(json.dumps(through_datafusion(next(w for w in every if w.name == args.child), args.rows, args.batch)))
        return 0
    chosen = [w for w in every if not args.condition or w.name in args.condition]
    if not chosen:
        p.error(f"nothing in the list is called {args.condition}")
    records = []
    for w in chosen:
        record = {"kind": "weak", "name": w.name, "condition": w.condition, "window": w.window, "rows": args.rows,
                  "batch": args.batch, **through_ivjoin(w, args.rows, args.batch)}  # fmt: skip
        record["datafusion"] = {"why": "not run"} if args.only_ivjoin else _limited(w, args.rows, args.batch)
        if "state_bytes" in record["datafusion"]:
            record["datafusion"]["quarter"] = _limited(w, args.rows // 4, args.batch).get("state_bytes")
        records.append(record)
        other = record["datafusion"]
        print(
            f"{w.name:40} window {w.window:4}  ivjoin: peak {record['peak_state_rows']:7} rows "
            f"{record['peak_state_bytes']:9} B, end {record['end_state_rows']:6} rows {record['end_state_bytes']:9} B  "
            f"DataFusion: {other.get('state_bytes', other.get('why'))} ({other.get('quarter', '')})",
            flush=True,
        )
    save(Path(args.out), records)
    # about the window: the bound that tests/join/pruning/test_state_size.py holds it to
    loose = [r["name"] for r in records if r["peak_state_rows"] > 10 * r["window"] + 2 * args.batch]
    print(f"beyond ten windows and two batches: {', '.join(loose) or 'none'}")
    return 1 if loose else 0


if __name__ == "__main__":
    raise SystemExit(main())
