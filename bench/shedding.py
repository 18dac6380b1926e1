"""What shedding keeps, beside the best that could have been kept: the charts of Das, Gehrke and Riedewald (2003).

    python -m bench.shedding                 # tables on standard output, charts for docs/benchmarks-memory.md
    python -m bench.shedding --steps 1400    # a quarter of the paper's steps

One row a side and step, a window of 400 steps, one stream skewed (Zipf) and one uniform. The policies run as
``ivjoin.shedding.replay``, with the sketches and the code of the operator; the optimum knows the future.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import charts
from bench.tables import table
from ivjoin.shedding import exact_matches, optimal_offline, replay
from ivjoin.shedding.policies import POLICIES

__all__ = ["drawn", "figures", "main", "measured"]

WINDOW = 400
DOCS = Path(__file__).parent.parent / "docs"
# Of the paper, as fractions of the optimum: domain, memory, and what each policy reaches.
PAPER = [
    (50, 100, {"random": 0.30, "prob": 0.79, "life": 0.73}),
    (10, 400, {"random": 0.73, "prob": 0.93, "life": 0.87}),
]


def drawn(steps: int, domain: int, skew: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Keys of a skewed stream and of a uniform one."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, domain + 1) ** -float(skew)
    return rng.choice(domain, steps, p=weights / weights.sum()), rng.integers(0, domain, steps)


def measured(steps: int, domain: int, skew: float, memory: int, shared: bool = False) -> dict[str, float]:
    """Matches of each policy and of the best choice, as shares of the whole join's."""
    left, right = drawn(steps, domain, skew)
    window = min(WINDOW, steps)
    whole = exact_matches(left, right, window=window)
    found: dict[str, float] = {
        policy: replay(left, right, window=window, memory=memory, policy=policy, shared=shared) for policy in POLICIES
    }
    found["optimum"] = optimal_offline(left, right, window=window, memory=memory, shared=shared).matches
    return {name: n / whole for name, n in found.items()}


def figures(steps: int) -> str:
    """The paper's figures beside ours."""
    rows = []
    for domain, memory, paper in PAPER:
        got = measured(steps, domain, 1.0, memory)
        for policy, said in paper.items():
            rows.append([str(domain), str(memory), policy, f"{said:.2f}", f"{got[policy] / got['optimum']:.2f}"])
    return table(["domain", "memory, rows", "policy", "paper, of the optimum", "ivjoin, of the optimum"], rows)


def _curve(
    name: str, what: str, points: Sequence[float], results: Iterable[dict[str, float]], folder: Path, log: bool = False
) -> str:
    plt = charts.pyplot()
    figure, axes = plt.subplots(figsize=(6, 3.6))
    cells: list[dict[str, Any]] = list(results)
    for series in ("optimum", *POLICIES):
        axes.plot(points, [c[series] for c in cells], marker="o", label=series)
    axes.axhline(1.0, linestyle=":", color="grey", label="exact")
    axes.set(xlabel=what, ylabel="share of the pairs kept", ylim=(0, 1.05))
    if log:
        axes.set_xscale("log")
    axes.legend()
    charts.save(figure, folder / f"memory-{name}.svg")
    head = [what, *("optimum", *POLICIES)]
    return table(head, [[f"{p:g}", *(f"{c[s]:.2f}" for s in head[1:])] for p, c in zip(points, cells, strict=True)])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5600)
    parser.add_argument("--output", type=Path, default=DOCS)
    options = parser.parse_args(arguments)
    steps, folder = options.steps, options.output
    print(figures(steps), end="\n\n")
    memories = [50, 100, 200, 400, 600, 800]
    cells = (measured(steps, 50, 1.0, m) for m in memories)
    print(_curve("recall", "memory, rows", memories, cells, folder), end="\n\n")
    skews = [0.0, 0.5, 1.0, 1.5, 2.0]
    print(_curve("skew", "skew", skews, (measured(steps, 50, s, 100) for s in skews), folder), end="\n\n")
    domains = [10, 20, 50, 100, 200]
    cells = (measured(steps, d, 1.0, 100) for d in domains)
    print(_curve("domain", "keys", domains, cells, folder, log=True))


if __name__ == "__main__":
    main()
