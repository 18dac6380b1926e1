"""Random aggregates of two tables, slice by slice, compared with every pair of rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from drivers.picked_tables import Given, answered, keys, split, times

from ivjoin import window_join

CONDITIONS: dict[str | None, Callable[[Any, Any], bool]] = {
    "r.t BETWEEN l.t - 10 AND l.t + 5": lambda a, b: a["t"] - 10 <= b["t"] <= a["t"] + 5,
    "l.t = r.t": lambda a, b: a["t"] == b["t"],
    "l.t >= r.t": lambda a, b: a["t"] >= b["t"],
    "r.t > l.t AND r.t <= l.t + 100": lambda a, b: a["t"] < b["t"] <= a["t"] + 100,
    "r.t >= l.t AND r.t <= l.u": lambda a, b: a["t"] <= b["t"] <= a["u"],
    "l.t = r.t AND r.u > 7": lambda a, b: a["t"] == b["t"] and b["u"] > 7,
    "r.t <= l.t AND l.u < r.u": lambda a, b: b["t"] <= a["t"] and a["u"] < b["u"],
    "r.u <= l.u AND l.u < r.w": lambda a, b: b["w"] is not None and b["u"] <= a["u"] < b["w"],
    "l.u < r.w AND r.u <= l.u + 3 AND r.t >= l.t": lambda a, b: (
        b["w"] is not None and b["t"] >= a["t"] and a["u"] < b["w"] and b["u"] <= a["u"] + 3
    ),
    "r.t >= l.t AND l.u <> r.u": lambda a, b: a["t"] <= b["t"] and a["u"] != b["u"],
    "l.id % 3 <> r.x % 3": lambda a, b: a["id"] % 3 != b["x"] % 3,
    None: lambda a, b: True,
}
FIRST_BY = dict.fromkeys(CONDITIONS, "t") | {  # what the right side of the first band is
    "r.u <= l.u AND l.u < r.w": "u", "l.u < r.w AND r.u <= l.u + 3 AND r.t >= l.t": "w", "l.id % 3 <> r.x % 3": "x",
    None: "x",
}  # fmt: skip
AGGREGATES = {
    "n": ("*", "count"), "nv": ("v", "count"), "sv": ("v", "sum"), "mv": ("v", "mean"), "lo": ("x", "min"),
    "hi": ("v", "max"), "first": ("x", "first"), "last": ("s", "last"), "top": ("s", "max"), "mx": ("x", "mean"),
}  # fmt: skip


def expected(matches: list[dict[str, Any]], by: str) -> dict[str, Any]:
    """The aggregates of rows; quarters are exact as doubles."""
    v = [b["v"] for b in matches if b["v"] is not None]
    x, s = [b["x"] for b in matches], [b["s"] for b in matches]
    order = sorted(matches, key=lambda b: (b[by] is None, b[by] or 0, b["x"]))
    return {
        "n": len(matches), "nv": len(v), "sv": math.fsum(v) if v else None,
        "mv": math.fsum(v) / len(v) if v else None, "lo": min(x, default=None), "hi": max(v, default=None),
        "first": order[0]["x"] if order else None, "last": order[-1]["s"] if order else None,
        "top": max(s, default=None), "mx": sum(x) / len(x) if x else None,
    }  # fmt: skip


def check(seed: int, given: Given | None = None) -> str:
    """One random join by one to sixteen threads; the name of the code path. ``given``: as for the picks."""
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    names = draw.choice(["near", "far", "text", "none"])
    condition = draw.choice([c for c in CONDITIONS if c or names != "none"])
    # Bounds of sums that leave int64 are errors of the condition, so only conditions without sums get the ends.
    kind = draw.choice(["near", "ends"]) if condition in ("l.t = r.t", "l.t >= r.t") else "near"
    sizes = [draw.choice([0, 1, 5, 60, 150]), draw.choice([0, 1, 5, 60, 150])]
    tables = []
    for n, number in zip(sizes, ("id", "x"), strict=True):
        t = times(rng, draw, n, kind)
        made = {"k": keys(rng, draw, n, names), "t": t, number: np.arange(n), "u": rng.integers(-20, 20, n)}
        if number == "x":
            made["v"] = pa.array(rng.integers(-9, 9, n) / 4 * draw.choice([1, 2.0**40]), mask=rng.random(n) < 0.1)
            made["w"] = pa.array(made["u"] + rng.integers(-2, 30, n), mask=rng.random(n) < 0.1)
            made["s"] = pa.array([f"s{i % 7}" for i in range(n)])
        tables.append(split(draw, pa.table(made)))
    if given is not None:
        tables = list(given.tables(*tables))
    left, right = tables
    keyed = names != "none"
    options: dict[str, Any] = {
        "condition": condition, "on": "k" if keyed else None, "how": draw.choice(["left", "inner"]),
        "batch_size": draw.choice([1, 7, 65536]), "aggregate": AGGREGATES,
    }  # fmt: skip
    holds, want = CONDITIONS[condition], {}
    tied: dict[int, dict[str, set[Any]]] = {}
    rows = right.to_pylist()
    for a in left.to_pylist():
        found = [
            b for b in rows
            if (not keyed or (a["k"] is not None and a["k"] == b["k"]))
            and (condition is None or ((".t" not in condition or None not in (a["t"], b["t"])) and holds(a, b)))
        ]
        if found or options["how"] == "left":
            by = "t" if given is not None and given.declares else FIRST_BY[condition]
            want[a["id"]] = expected(found, by)
            values = [b[by] for b in found if b[by] is not None]
            ends = min(values, default=None), max(values, default=None)
            tied[a["id"]] = {
                "first": {b["x"] for b in found if b[by] == ends[0]},
                "last": {b["s"] for b in found if b[by] == ends[1]},
            }

    def compare(got: list[dict[str, Any]]) -> None:
        assert [row["id"] for row in got] == list(want), f"{seed} {options}: rows lost, invented or moved"
        for row in got:
            have = {name: row[name] for name in AGGREGATES}
            if given is not None and not given.declares:  # rows that tie come in any order
                have |= {n: want[row["id"]][n] for n in ("first", "last") if have[n] in tied[row["id"]][n]}
            assert have == want[row["id"]], f"{seed} {condition}: {row['id']}: {have}, not {want[row['id']]}"

    return answered(seed, draw, window_join, tables, given, options, compare)
