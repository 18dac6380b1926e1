"""Squall (Vitorovic et al., VLDB 2016): joins of many inputs on a grid of workers, and local views against cascades.

Relations have the sizes of TPC-H at scale 0.1, keys drawn evenly or by Zipf's law (exponent 1.5). Rows are really
hashed. Q3 is customer, orders and lineitem, the partial Q9 part (the 5.4 % of one colour), partsupp and lineitem;
3-reachability follows three edges of one graph.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.charts import pyplot, save
from bench.multiway import Tables, rows_by_duckdb
from bench.static_spark import drawn_keys
from bench.tables import table
from ivjoin import MultiJoin
from ivjoin.routing import HypercubePlan, Relation, hypercube

__all__ = ["CONDITIONS", "examples", "grids", "lines", "local_views", "run", "squall"]

Columns = dict[str, dict[str, np.ndarray]]
Record = dict[str, Any]
_PUSHED, _ZIPF = 1024, 1.5
_COLORS = {"hash": "#0b5394", "random": "#6aa84f", "hybrid": "#c1272d"}
H = 1_000_000
CHAIN = {"R": Relation(H, ("x", "y")), "S": Relation(H, ("y", "z")), "T": Relation(H, ("z", "t"))}


def examples() -> list[list[str]]:
    """The worked examples: the join, the paper's printed result (corrected), and what ``hypercube`` computes."""
    two = {"A": Relation(4, ("x",)), "B": Relation(1, ("x",))}
    chain = "R(x,y), S(y,z), T(z,t) of H rows, 64 workers"

    def found(plan: HypercubePlan) -> str:
        return f"{_grid(plan)}; load {plan.load / H:.4f} H, {plan.total / H:.0f} H received"

    return [
        [f"{chain}, hash", "8 x 8; load 0.2656 H, 17 H received", found(hypercube(CHAIN, 64, "hash"))],
        [f"{chain}, random", "4 x 4 x 4; load 0.75 H, 48 H received", found(hypercube(CHAIN, 64, "random"))],
        [f"{chain}, z skewed, hash", "8 x 8; load 0.6875 H", found(hypercube(CHAIN, 64, "hash", {"z"}))],
        [f"{chain}, z skewed, hybrid", "9 x 7 (printed as 7 and 9); load 0.3651 H, 23 H received",
         found(hypercube(CHAIN, 64, "hybrid", {"z"}))],
        ["two inputs of 4 : 1, 64 workers, random", "16 x 4", _grid(hypercube(two, 64, "random"))],
        ["three equal inputs, 7 workers, random", "1 x 2 x 3", _grid(hypercube(CHAIN, 7, "random"))],
        ["three equal inputs, 36 workers, hash", "6 x 6", _grid(hypercube(CHAIN, 36, "hash"))],
    ]  # fmt: skip


def _grid(plan: HypercubePlan) -> str:
    return " x ".join(f"{name} {size}" for name, size in plan.dims.items())


CONDITIONS = {
    "3-reachability": "R.y = S.y AND S.z = T.z",
    "TPC-H Q3": "C.custkey = O.custkey AND O.orderkey = L.orderkey",
    "TPC-H Q9, partial": "P.partkey = PS.partkey AND PS.partkey = L.partkey AND PS.suppkey = L.suppkey",
}


def squall(scale: float, zipf: bool) -> dict[str, tuple[Columns, int, list[tuple[str, str]]]]:
    """Columns by relation, workers, and the occurrences that are skewed if keys are."""
    rng, skew = np.random.default_rng(5), _ZIPF if zipf else 0.0
    lines, part, supplier, orders, customer = (int(n * scale) for n in (600_000, 20_000, 1000, 150_000, 15_000))
    line = {
        "orderkey": np.sort(rng.integers(0, orders, lines)), "partkey": drawn_keys(rng, lines, part, skew),
        "suppkey": rng.integers(0, supplier, lines),
    }  # fmt: skip
    partsupp = {"partkey": np.repeat(np.arange(part), 4), "suppkey": rng.integers(0, supplier, 4 * part)}
    green = {"partkey": rng.choice(part, int(part * 0.054), replace=False)}
    edge = {"x": drawn_keys(rng, orders, orders, skew), "y": drawn_keys(rng, orders, orders, skew)}
    cases: dict[str, tuple[Columns, int, list[tuple[str, str]]]] = {
        "3-reachability": ({"R": {"x": edge["x"], "y": edge["y"]}, "S": {"y": edge["x"], "z": edge["y"]},
                            "T": {"z": edge["x"], "t": edge["y"]}}, 36, [("R", "y"), ("S", "z")]),
        "TPC-H Q3": ({"C": {"custkey": np.arange(customer)},
                      "O": {"custkey": drawn_keys(rng, orders, customer, skew), "orderkey": np.arange(orders)},
                      "L": {"orderkey": line["orderkey"]}}, 8, [("O", "custkey")]),
        "TPC-H Q9, partial": ({"P": green, "PS": partsupp, "L": {n: line[n] for n in ("partkey", "suppkey")}},
                              8, [("L", "partkey")]),
    }  # fmt: skip
    return cases


def loads(plan: HypercubePlan, columns: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
    """Rows that each worker of a grid receives : int64[workers]."""
    grid = np.zeros(tuple(plan.dims.values()) or (1,), dtype=np.int64)
    for name, own in columns.items():
        rows = len(next(iter(own.values())))
        mine = [d for d in plan.dims if d in plan.members[name]]
        places = []
        for d in mine:
            values = own.get(d)
            if values is None:  # a random dim, by all that a row holds
                values = np.arange(rows)
            mixed = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            places.append(((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(7)) % np.uint64(plan.dims[d]))
        sizes = [plan.dims[d] for d in mine]
        flat = np.ravel_multi_index([p.astype(np.int64) for p in places], sizes) if mine else np.zeros(rows, np.int64)
        counts = np.bincount(flat, minlength=int(np.prod(sizes)) if mine else 1).reshape(sizes or [1])
        shape = [n if d in mine else 1 for d, n in plan.dims.items()] or [1]
        grid += counts.reshape(shape)
    return grid.reshape(-1)


def pushed(tables: Tables, condition: str, views: str) -> tuple[float, int, int]:
    """Processor seconds, rows out and most rows stored, with inputs alternated so that all end together."""
    op = MultiJoin({a: t.schema for a, t in tables.items()}, condition, views=views)
    rounds = -(-max(t.num_rows for t in tables.values()) // _PUSHED)
    pieces = {
        a: [t.slice(t.num_rows * i // rounds, t.num_rows * (i + 1) // rounds - t.num_rows * i // rounds)
            .combine_chunks().to_batches() for i in range(rounds)] for a, t in tables.items()
    }  # fmt: skip
    start, got = time.process_time(), 0
    for i in range(rounds):
        for alias, own in pieces.items():
            for batch in own[i]:
                got += sum(b.num_rows for b in op.push(alias, batch))
    return time.process_time() - start, got, op.metrics.peak_state_rows


def grids(scale: float) -> list[Record]:
    """The load of each scheme, at TPC-H's scale 0.1 times ``scale``."""
    out = []
    for zipf in (False, True):
        for case, (columns, workers, hot) in squall(scale, zipf).items():
            relations = {n: Relation(len(next(iter(c.values()))), tuple(c)) for n, c in columns.items()}
            for scheme in _COLORS:
                plan = hypercube(relations, workers, scheme, hot if zipf and scheme == "hybrid" else ())
                load = loads(plan, columns)
                out.append({
                    "kind": "grid", "case": case, "keys": "Zipf" if zipf else "uniform", "scheme": scheme,
                    "workers": workers, "dims": _grid(plan) or "1",
                    "replication": round(float(load.sum()) / sum(r.rows for r in relations.values()), 3),
                    "skew": round(float(load.max() / load.mean()), 3), "fullest": int(load.max()),
                })  # fmt: skip
    return out


def local_views(scale: float, runs: int) -> list[Record]:
    """Local views against a cascade. Zipf keys on both ends of an edge give 3-reachability too many rows."""
    out = []
    for zipf in (False, True):
        for case, (columns, _, _) in squall(scale, zipf).items():
            if zipf and case == "3-reachability":
                continue
            rng = np.random.default_rng(1)
            tables = {}
            for alias, own in columns.items():
                mixed = rng.permutation(len(next(iter(own.values()))))
                tables[alias] = pa.table({n: values[mixed] for n, values in own.items()})
            want = rows_by_duckdb(tables, CONDITIONS[case])
            best: dict[str, tuple[float, int]] = {}
            for _ in range(runs):
                for views in ("all", "none"):
                    seconds, got, stored = pushed(tables, CONDITIONS[case], views)
                    assert got == want, f"{case}, views {views}: {got} rows, DuckDB has {want}"
                    best[views] = min(best.get(views, (np.inf, 0)), (seconds, stored))
            out.append({
                "kind": "local views", "case": case, "keys": "Zipf" if zipf else "uniform", "rows_out": want,
                "rows": sum(t.num_rows for t in tables.values()),
                "views": round(best["all"][0], 4), "stored": best["all"][1],
                "cascade": round(best["none"][0], 4), "stored_by_cascade": best["none"][1],
            })  # fmt: skip
    return out


def run(quick: bool) -> list[Record]:
    """All cells: grids of all rows, and views over a fifth of them."""
    return grids(0.1 if quick else 1.0) + local_views(0.02 if quick else 0.2, 1 if quick else 5)


def lines(records: Sequence[Record], folder: Path) -> list[str]:
    """Tables, and a chart in a folder."""
    cells = [r for r in records if r["kind"] == "grid"]
    local = [r for r in records if r["kind"] == "local views"]
    return [
        table(["join", "result of the paper", "`ivjoin.routing`"], examples()), "",
        "For each query: the rows of the fullest worker, the rows received per row produced, and the fullest worker's "
        "rows divided by the average.", "",
        f"![Replication and skew degree of three schemes]({_chart(cells, folder)})", "",
        table(["join, workers", "keys", "scheme", "dims", "fullest", "replication factor", "skew degree"],
              [[f"{r['case']}, {r['workers']}", r["keys"], r["scheme"], r["dims"], f"{r['fullest']:,}",
                f"{r['replication']:.2f}", f"{r['skew']:.2f}"] for r in cells]),
        "", "Local views store joined rows, and a cascade joins base relations again. The table shows processor "
        "seconds of one thread. The inputs are pushed in turn and end together:", "",
        table(["join", "keys", "rows in", "rows out", "views, s", "cascade, s", "cascade / views", "stored: views",
               "cascade"],
              [[r["case"], r["keys"], f"{r['rows']:,}", f"{r['rows_out']:,}", f"{r['views']:.3f}",
                f"{r['cascade']:.3f}", f"{r['cascade'] / r['views']:.2f}", f"{r['stored']:,}",
                f"{r['stored_by_cascade']:,}"] for r in local]),
    ]  # fmt: skip


def _chart(cells: Sequence[Record], folder: Path) -> str:
    figure, axes = pyplot().subplots(1, 2, figsize=(9, 3), layout="constrained")
    names = list(dict.fromkeys((r["case"], r["keys"]) for r in cells))
    for axis, what, title in zip(axes, ("replication", "skew"), ("replication factor", "skew degree"), strict=True):
        for i, (scheme, color) in enumerate(_COLORS.items()):
            own = [r[what] for r in cells if r["scheme"] == scheme]
            axis.bar(np.arange(len(own)) + 0.27 * (i - 1), own, 0.25, color=color, label=scheme)
        labels = [f"{case.replace(', partial', '')}\n{keys}" for case, keys in names]
        axis.set_xticks(range(len(names)), labels, fontsize=6)
        axis.set(ylabel=title)
    axes[0].legend()
    return save(figure, folder / "papers-squall.svg")
