"""Count the rows that pruning loses in DataFusion's symmetric hash join and in ivjoin, over difficult conditions.

    python -m bench.lost_rows            # every family, both sides ascending and both descending
    python -m bench.lost_rows absorption # only some families

The SQL of the two systems differs (NaN, rounding of decimals), so each is compared with its own semantics. DataFusion's
symmetric join is compared with DataFusion's plain hash join over the same files. ivjoin is compared with a nested loop
in Python that follows Spark's ANSI SQL. Rows arrive one at a time, so that every arrival may prune. Each right row
arrives twice, so that a bound that is too tight drops the match of the second one. ``extra`` are rows that are not in
the expected result.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import shared_tables
from bench.peers.datafusion_peers import create_external, session
from bench.runner import RESULTS, save

__all__ = ["main", "through_datafusion", "through_ivjoin"]

Pairs = Counter


def tables(trap: Any, descending: bool) -> tuple[pa.Table, pa.Table]:
    """The trap's rows in order, numbered by ``n``, each right row twice; ``one`` is a key that all share."""
    rank = shared_tables._import("join.conditions").rank
    out = []
    for side, (values, kind, twice) in enumerate(zip((trap.left, trap.right), trap.kinds, (1, 2), strict=True)):
        order = sorted((i for i in range(len(values))), key=lambda i: rank(values[i]), reverse=descending)
        order = [i for i in order for _ in range(twice)]
        columns = {
            "n": pa.array(range(len(order)), pa.int64()), "one": pa.array([1] * len(order), pa.int64()),
            "a": shared_tables.column(kind, [values[i] for i in order]),
        }  # fmt: skip
        for name, more in (trap.more or {}).items():
            columns[name] = shared_tables.column(more[0], [more[1 + side][i] for i in order])
        out.append(pa.table(columns))
    return out[0], out[1]


def truth(trap: Any, left: pa.Table, right: pa.Table) -> Pairs:
    rows = shared_tables.records(left), shared_tables.records(right)
    return Counter((a["n"], b["n"]) for a in rows[0] for b in rows[1] if trap.holds(a, b) is True)


def through_ivjoin(condition: str, left: pa.Table, right: pa.Table, descending: bool) -> Pairs:
    from ivjoin import Order, SymmetricHashJoin

    order = Order("a", descending=descending)
    op = SymmetricHashJoin(
        left.schema, right.schema, on="one", condition=condition, left_order=order, right_order=order
    )
    found: Pairs = Counter()

    def take(batches: Any) -> None:
        for b in batches:
            found.update(zip(b.column("n").to_pylist(), b.column("n_right").to_pylist(), strict=True))

    for i in range(max(left.num_rows, right.num_rows)):
        for side, table in (("left", left), ("right", right)):
            if i < table.num_rows:
                take(op.push(side, table.slice(i, 1).combine_chunks().to_batches()[0]))
    take(op.finish())
    return found


def through_datafusion(condition: str, left: pa.Table, right: pa.Table, descending: bool) -> tuple[Pairs, Pairs]:
    """What the symmetric join returns and what the plain hash join returns."""
    sql = f"SELECT l.n, r.n AS m FROM l JOIN r ON l.one = r.one AND ({shared_tables.datafusion_sql(condition)})"
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for unbounded in (True, False):
            ctx = session(1)
            for name, table in (("l", left), ("r", right)):
                order = f"a {'DESC' if descending else 'ASC'}" if unbounded else None
                create_external(ctx, name, table, order, Path(folder))
            frame = ctx.sql(sql)
            if unbounded and "SymmetricHashJoinExec" not in frame.execution_plan().display_indent():
                raise RuntimeError("planned without a symmetric hash join")
            found: Pairs = Counter()
            for b in frame.collect():
                found.update(zip(b.column("n").to_pylist(), b.column("m").to_pylist(), strict=True))
            answers.append(found)
    return answers[0], answers[1]


def _count(have: Pairs, want: Pairs) -> dict[str, int]:
    return {
        "expected": want.total(), "lost": (want - have).total(), "extra": (have - want).total(),
    }  # fmt: skip


def family(trap: Any) -> dict[str, Any]:
    """One family through both systems, ascending and descending together."""
    record: dict[str, Any] = {"kind": "lost", "family": trap.name, "condition": trap.condition}
    if trap.kinds[0].name in ("string", "dec20"):
        ways = [False]
    else:
        ways = [False, True]
    for system in ("ivjoin", "datafusion"):
        total: Counter[str] = Counter()
        try:
            for descending in ways:
                left, right = tables(trap, descending)
                if system == "ivjoin":
                    have = through_ivjoin(trap.condition, left, right, descending)
                    total.update(_count(have, truth(trap, left, right)))
                else:
                    total.update(_count(*through_datafusion(trap.condition, left, right, descending)))
            record[system] = {k: total[k] for k in ("expected", "lost", "extra")}
        except Exception as e:
            record[system] = {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:160]}"}
    return record


def _shown(r: dict[str, Any]) -> str:
    return f"error: {r['error'][:60]}" if "error" in r else f"{r['lost']} of {r['expected']}, {r['extra']} extra"


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.lost_rows", description=__doc__.splitlines()[0])
    p.add_argument("family", nargs="*", help="names of families (default: all)")
    p.add_argument("--out", default=str(RESULTS / "lost_rows.jsonl"))
    args = p.parse_args(argv)
    chosen = [t for t in shared_tables.traps().TRAPS if not args.family or t.name in args.family]
    if not chosen:
        p.error(f"no family is called {args.family}")
    records = []
    for trap in chosen:
        records.append(family(trap))
        r = records[-1]
        print(f"{trap.name:34} DataFusion: {_shown(r['datafusion']):70} ivjoin: {_shown(r['ivjoin'])}", flush=True)
    save(Path(args.out), records)
    ours = sum(r["ivjoin"].get("lost", 1) + r["ivjoin"].get("extra", 1) for r in records)
    theirs = sum(r["datafusion"].get("lost", 0) for r in records)
    families = sum(r["datafusion"].get("lost", 0) > 0 for r in records)
    print(f"DataFusion lost {theirs} rows in {families} of {len(records)} families; ivjoin: {ours} lost or extra")
    return 1 if ours else 0


if __name__ == "__main__":
    raise SystemExit(main())
