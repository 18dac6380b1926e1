"""Measure planning, and the computation of one side's bounds from the other side's frontier.

    python -m bench.planning            # plan joins; compute bounds for two conjuncts and for twenty
    python -m bench.planning --rounds 2000

Planning is timed after a first join, on new conditions of the same shape, so that no plan comes from the cache: from
SQL text to a plan, and to an operator with its stores and bounds. The join of the family ``seed`` is also planned from
the cache. Bounds are timed as a push requests them: the frontier moves, and the bounds of the other side follow.
Residual conjuncts are contracted after a number of rows. The results show the average of pushes of one row, and a
single contraction. Planning times are medians. The times of bounds are the least average of five passes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases import named
from bench.runner import RESULTS, save
from ivjoin import SymmetricHashJoin
from ivjoin.frontier.tracking import Frontier, OrderTracker
from ivjoin.operator.pruning.prune_bounds import Bounder
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.planner import make_plan
from ivjoin.plan.question import join_spec

__all__ = ["main"]

SCHEMA = pa.schema([(n, pa.int64()) for n in ("k", "a", "b", "c", "d", "x")])
ORDERS: dict[str, Any] = {"on": "k", "left_order": "a", "right_order": "a"}
_FRESH = count(100, 100)
# Milliseconds and microseconds that the numbers are held to.
LIMITS = {"planning": 50.0, "bounds of two": 3.0, "bounds of twenty": 100.0}


def linear(shift: int) -> str:
    """Twenty comparisons of sums, some of them with shared nodes."""
    parts = [f"l.a >= r.a - {shift + 10}", f"l.a <= r.a + {shift + 10}"]
    for i, n in enumerate("bcdx" * 5):
        parts.append(f"2 * l.{n} + l.a <= 2 * r.{n} + r.a + {shift + 50 + i}")
    return " AND ".join(parts[:20])


def mixed(shift: int) -> str:
    """Twenty conjuncts: two of a band, and eighteen that are decided pair by pair."""
    parts = [f"l.a >= r.a - {shift + 10}", f"l.a <= r.a + {shift + 10}"]
    for i, n in enumerate("bcd" * 6):
        parts.append(
            (f"abs(l.{n} - r.{n}) + abs(l.a - r.a) <= {shift + i + 40}", f"l.{n} <> r.{n} + {i}",
             f"(l.{n} = {i} OR l.a < r.a + {shift + i})")[i % 3]
        )  # fmt: skip
    return " AND ".join(parts)


def two(shift: int) -> str:
    return f"l.a >= r.a - {shift + 10} AND l.a <= r.a + {shift + 10}"


def _planned(what: Callable[..., Any], make: Callable[[int], str], i: int) -> Any:
    return what(SCHEMA, SCHEMA, condition=make(next(_FRESH) + i), **ORDERS)


def median(run: Callable[[int], Any], rounds: int) -> float:
    """Seconds."""
    taken = []
    for i in range(rounds):
        start = time.perf_counter()
        run(i)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _bounder(plan: JoinPlan) -> tuple[Bounder, tuple[Frontier, ...]]:
    made = [
        Frontier([OrderTracker(n, name, o.descending, o.slack, o.nulls) for n, name, o in side.orders], side.bounds,
                 side.never_null)
        for side in plan.sides
    ]  # fmt: skip
    return Bounder(plan, (made[0], made[1])), tuple(made)


def bounds_cost(condition: str, rounds: int, force: bool) -> float:
    """Microseconds a frontier's move; ``force``: the residual is contracted every time."""
    bounder, frontiers = _bounder(make_plan(join_spec(SCHEMA, SCHEMA, condition=condition, **ORDERS)))
    tracker = frontiers[1].trackers[0]
    averages = []
    for turn in range(5):
        spent = 0.0
        for i in range(rounds):
            tracker.late(np.array([1000 + turn * rounds + i]), None, True)
            start = time.perf_counter()
            bounder.move(1, force, 1)
            spent += time.perf_counter() - start
        averages.append(spent / rounds)
    bounds = bounder.bounds(0)
    assert bounds is not None, "everything was dropped"
    assert bounds[0][0] >= 1000 + 4 * rounds - 100, "the bound did not follow"
    return min(averages) * 1e6


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser("python -m bench.planning", description=__doc__.splitlines()[0])
    p.add_argument("--rounds", type=int, default=3000, help="moves of the frontier (default: %(default)s)")
    p.add_argument("--out", default=str(RESULTS / "planning.jsonl"))
    args = p.parse_args(argv)
    records: list[dict[str, Any]] = []

    def record(name: str, value: float, unit: str, limit: float | None = None) -> None:
        records.append({"kind": "planning", "name": name, "value": round(value, 3), "unit": unit, "limit": limit})
        print(f"{name:58} {value:9.2f} {unit}" + (f"   (limit {limit:g})" if limit else ""), flush=True)

    for text, make in (("linear", linear), ("eighteen residual", mixed)):
        SymmetricHashJoin(SCHEMA, SCHEMA, condition=make(10_000), **ORDERS)
        plan = median(partial(_planned, lambda *schemas, **a: make_plan(join_spec(*schemas, **a)), make), 15)
        whole = median(partial(_planned, SymmetricHashJoin, make), 15)
        record(f"twenty conjuncts, {text}: text to plan", plan * 1e3, "ms", LIMITS["planning"])
        record(f"twenty conjuncts, {text}: text to operator", whole * 1e3, "ms", LIMITS["planning"])
    left, right = (t.schema for t in named("seed/8 keys/8192 rows").make())
    options: dict[str, Any] = {"on": "k", "left_order": "s", "right_order": "s"}

    def seed(i: int) -> SymmetricHashJoin:
        condition = f"l.s + 1 > r.s + {i + 5} AND l.s + 3 < r.s + {i + 10}"
        return SymmetricHashJoin(left, right, condition=condition, **options)

    seed(0)
    record("a short condition: text to operator", median(lambda i: seed(i + 1), 200) * 1e3, "ms", LIMITS["planning"])
    record("a short condition that is in the cache: text to operator", median(lambda i: seed(0), 200) * 1e6, "us")
    for name, condition, limit in (
        ("two conjuncts", two(0), LIMITS["bounds of two"]), ("twenty linear", linear(0), LIMITS["bounds of twenty"]),
        ("twenty, eighteen residual", mixed(0), LIMITS["bounds of twenty"]),
    ):  # fmt: skip
        record(f"{name}: frontier to bounds", bounds_cost(condition, args.rounds, False), "us", limit)
    record("twenty, eighteen residual: one contraction", bounds_cost(mixed(0), args.rounds // 20, True), "us")
    save(Path(args.out), records)
    beyond = [r["name"] for r in records if r["limit"] and r["value"] > r["limit"]]
    print(f"over the limit: {', '.join(beyond) or 'none'}")
    return 1 if beyond else 0


if __name__ == "__main__":
    raise SystemExit(main())
