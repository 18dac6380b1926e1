"""Approximate joins over streams (Das, Gehrke, Riedewald, SIGMOD 2003): what shedding keeps, and the best choice.

One row a side and step, a window of 400 steps, one stream skewed (Zipf) and one uniform. The policies run as
``ivjoin.shedding.replay``, with the sketches and the code of the operator; the optimum knows the future. The static
case keeps k rows of two tables. Real data: a year of flights and weather at New York's airports, as in ``ivjoin demo``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.charts import pyplot, save
from bench.static_spark import drawn_keys
from bench.tables import table
from ivjoin.shedding import exact_matches, k_truncated, optimal_offline, replay
from ivjoin.shedding.policies import POLICIES

__all__ = ["drawn", "lines", "real", "run", "shares", "static"]

Record = dict[str, Any]
WINDOW, DOMAIN, MEMORY = 400, 50, 100
STEPS = {True: 700, False: 5600}  # quick or not
# Of the paper, as fractions of the optimum: domain, memory, and what each policy reaches.
PAPER = [
    (50, 100, {"random": 0.30, "prob": 0.79, "life": 0.73}),
    (10, 400, {"random": 0.73, "prob": 0.93, "life": 0.87}),
]
# The varied quantity: its values, and the domain, skew and memory of each.
CURVES: dict[str, dict[float, tuple[int, float, int]]] = {
    "memory, rows": {m: (DOMAIN, 1.0, m) for m in (50, 100, 200, 400, 600, 800)},
    "skew": {s: (DOMAIN, s, MEMORY) for s in (0.0, 0.5, 1.0, 1.5, 2.0)},
    "keys": {d: (d, 1.0, MEMORY) for d in (10, 20, 50, 100, 200)},
}
_SERIES = ("optimum", *POLICIES)


def drawn(steps: int, domain: int, skew: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Keys of a skewed stream and of a uniform one."""
    rng = np.random.default_rng(seed)
    return drawn_keys(rng, steps, domain, skew), rng.integers(0, domain, steps)


def shares(left: Any, right: Any, memory: int, window: int = WINDOW) -> dict[str, float]:
    """Matches of each policy and of the best choice, as shares of the whole join's, for the keys of each step."""
    window = min(window, len(left))
    whole = exact_matches(left, right, window=window)
    found: dict[str, float] = {p: replay(left, right, window=window, memory=memory, policy=p) for p in POLICIES}
    found["optimum"] = optimal_offline(left, right, window=window, memory=memory).matches
    return {name: round(n / whole, 4) for name, n in found.items()}


def static(rows: int, seed: int = 1) -> list[Record]:
    """Pairs of k rows of two tables: by the dynamic program, by PROB (rows with the most partners), by RAND."""
    left, right = drawn(rows, DOMAIN, 1.0, seed)
    m, n = (np.bincount(keys, minlength=DOMAIN) for keys in (left, right))
    ids, counts = np.concatenate([left, right + DOMAIN]), np.concatenate([m, n])
    likely = np.concatenate([n, m])[ids]  # the partners of each row

    def pairs(chosen: np.ndarray) -> float:
        own = np.bincount(ids[chosen], minlength=len(counts))
        return float((own[:DOMAIN] * own[DOMAIN:]).sum() / (m * n).sum())

    out, mixed = [], np.random.default_rng(seed).permutation(2 * rows)
    for part in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        k = round(part * 2 * rows)
        best = k_truncated([(int(a), int(b)) for a, b in zip(m, n, strict=True)], k) / (m * n).sum()
        prob = pairs(mixed[np.argsort(-likely[mixed], kind="stable")[:k]])
        out.append({
            "kind": "static", "x": part, "optimum": round(float(best), 4), "prob": round(prob, 4),
            "random": round(pairs(mixed[:k]), 4),
        })  # fmt: skip
    return out


def real(steps: int) -> list[Record]:
    """Joins on real keys: airports of departing and arriving flights, and hourly wind directions of two airports."""
    from ivjoin.cli.demo.flights import arrivals, departures, read_flights, read_weather, weather_by_time

    flights = read_flights()
    weather = weather_by_time(read_weather()).select(["origin", "wind_dir"]).drop_null()
    winds = {o: weather["wind_dir"].to_numpy()[weather["origin"].to_numpy() == o] for o in ("JFK", "EWR")}
    cases = {
        "airports of departing and arriving flights": [
            t["dest"].to_pylist() for t in (departures(flights), arrivals(flights))
        ],
        "wind directions of two airports": [w.tolist() for w in winds.values()],
    }
    out = []
    for case, (left, right) in cases.items():
        n = min(steps, len(left), len(right))
        for memory in (50, 100, 200, 400):
            found = shares(left[:n], right[:n], memory)
            out.append({"kind": "real", "case": case, "steps": n, "x": memory, **found})
    return out


def run(quick: bool) -> list[Record]:
    """All cells."""
    steps = STEPS[quick]
    out: list[Record] = []
    for domain, memory, _ in PAPER:
        out.append({"kind": "printed", "domain": domain, "x": memory, **shares(*drawn(steps, domain, 1.0), memory)})
    for what, points in CURVES.items():
        for x, (domain, skew, memory) in points.items():
            out.append({"kind": what, "x": x, "steps": steps, **shares(*drawn(steps, domain, skew), memory)})
    return out + static(100 if quick else 500) + real(steps)


def lines(records: Sequence[Record], folder: Path) -> list[str]:
    """Tables, and charts in a folder."""
    printed = {(r["domain"], r["x"]): r for r in records if r["kind"] == "printed"}
    out = [
        "Shares of the optimum:", "",
        table(["domain", "memory, rows", "policy", "paper", "ivjoin"],
              [[str(d), str(m), p, f"{v:.2f}", f"{printed[d, m][p] / printed[d, m]['optimum']:.2f}"]
               for d, m, paper in PAPER for p, v in paper.items()]),
        "", f"![Share of the pairs by memory, by skew and by number of keys]({_chart(records, folder)})", "",
    ]  # fmt: skip
    for what, said in (("memory, rows", "50 keys, Zipf 1"), ("skew", "50 keys, 100 rows of memory"),
                       ("keys", "Zipf 1, 100 rows of memory")):  # fmt: skip
        own = [r for r in records if r["kind"] == what]
        out += [f"Share of all pairs by {what} ({said}):", "", _rows(what, own), ""]
    own = [r for r in records if r["kind"] == "static"]
    out += ["The static case: the share of all pairs by the share of rows that are stored (50 keys, Zipf 1 and "
            "uniform). The optimum is computed by the dynamic program:", "",
            _rows("rows stored", own, ("optimum", "prob", "random")), ""]
    for case in dict.fromkeys(r["case"] for r in records if r["kind"] == "real"):
        own = [r for r in records if r.get("case") == case]
        out += [f"Real data, {case}, {own[0]['steps']:,} steps:", "", _rows("memory, rows", own), ""]
    return out[:-1]


def _rows(what: str, cells: Sequence[Record], series: Sequence[str] = _SERIES) -> str:
    return table([what, *series], [[f"{r['x']:g}", *(f"{r[s]:.2f}" for s in series)] for r in cells])


def _chart(records: Sequence[Record], folder: Path) -> str:
    figure, axes = pyplot().subplots(2, 3, figsize=(10, 5.4), sharey=True, layout="constrained")
    panels = [(what, what, [r for r in records if r["kind"] == what]) for what in CURVES]
    panels.append(("static case", "share of the rows stored", [r for r in records if r["kind"] == "static"]))
    for case in dict.fromkeys(r["case"] for r in records if r["kind"] == "real"):
        panels.append((case, "memory, rows", [r for r in records if r.get("case") == case]))
    for axis, (title, what, cells) in zip(axes.flat, panels, strict=True):
        for series in _SERIES:
            points = [(r["x"], r[series]) for r in cells if series in r]
            if points:
                axis.plot(*zip(*points, strict=True), "o-", ms=3, label=series)
        axis.set(xlabel=what, ylim=(0, 1.05), xscale="log" if what == "keys" else "linear")
        if title != what:
            axis.set_title(title, fontsize=8)
    axes[0][0].legend()
    for row in axes:
        row[0].set_ylabel("share of the pairs")
    return save(figure, folder / "papers-approximate.svg")
