"""Result records as charts (SVG): each function writes a file and returns its name, None if nothing is to be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.tables import Cells, net

__all__ = ["bars", "curves", "exponent", "pyplot", "save", "scaling", "seed", "soak", "state", "work"]

_COLORS = {"ivjoin": "#c1272d", "DataFusion SHJ": "#0b5394", "DuckDB, buckets by hand": "#6aa84f"}
_AXES = {"window": "rows in the window", "live-keys": "keys", "length": "rows a side"}


def pyplot() -> Any:
    """matplotlib's, so set that the same results give the same files."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "ivjoin", "font.size": 9}
    matplotlib.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, path: Path) -> str:
    """Write a figure, close it, and give the file's name."""
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot().close(figure)
    return path.name


def seed(cells: Cells, rows: int, folder: Path) -> str | None:
    """CPU time a row over batch size, a panel for each cardinality."""
    panels = []
    for card in (8, 64, 1024):
        lines = {}
        for peer in ("ivjoin", "DataFusion SHJ"):
            found = [(b, cells.get(f"seed/{card} keys/{rows} rows", peer, b)) for b in (128, 512, 2048, 4096)]
            points = [(b, net(r) / (2 * rows) * 1e9) for b, r in found if r is not None and r["status"] == "ok"]
            if points:
                lines[peer] = points
        panels.append((card, lines))
    if not any(lines for _, lines in panels):
        return None
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True)
    for axis, (card, lines) in zip(axes, panels, strict=True):
        for peer, points in lines.items():
            axis.loglog(*zip(*points, strict=True), "o-", label=peer, color=_COLORS[peer])
        axis.set(title=f"{card} keys", xlabel="batch size, rows", xticks=[128, 512, 2048, 4096])
        axis.set_xticks([128, 512, 2048, 4096], ["128", "512", "2048", "4096"])
        axis.minorticks_off()
    axes[0].set_ylabel("ns of CPU a row, net of input")
    axes[0].legend()
    return save(figure, folder / f"benchmarks-seed-{rows}.svg")


def bars(cells: Cells, family: str, folder: Path) -> str | None:
    """Seconds of every system that answered, on a log scale, a group for each case."""
    records = [r for r in cells.family(family) if r["status"] == "ok"]
    best: dict[tuple[str, str], float] = {}
    for r in records:
        at = (r["case"], r["peer"])
        best[at] = min(best.get(at, np.inf), r["seconds"])
    cases, peers = list(dict.fromkeys(r["case"] for r in records)), list(dict.fromkeys(r["peer"] for r in records))
    if not cases or len(peers) < 2:
        return None
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9, 0.5 + 0.16 * len(cases) * (len(peers) + 1)))
    height = 1 / (len(peers) + 1)
    for i, peer in enumerate(peers):
        y = [n + i * height for n, c in enumerate(cases) if (c, peer) in best]
        axis.barh(y, [best[c, peer] for c in cases if (c, peer) in best], height, label=peer, color=_COLORS.get(peer))
    axis.set_yticks([n + (len(peers) - 1) / 2 * height for n in range(len(cases))], cases)
    axis.invert_yaxis()
    axis.set(xscale="log", xlabel="seconds, the best batch size of each")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    return save(figure, folder / f"benchmarks-{family}.svg")


def exponent(points: list[tuple[float, float]]) -> float:
    """The slope of log(y) over log(x), by least squares."""
    x, y = np.log(np.array(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def _sized(cells: Cells, family: str) -> list[tuple[float, dict[str, Any]]]:
    """Runs that ended, by the size that a family varies; of the usual length, where it is not the length."""
    return [
        (float(r["case"].split("/")[1].split()[0]), r) for r in cells.family(family)
        if r["status"] == "ok" and (family == "length" or r["case"].endswith("/1000000 rows"))
    ]  # fmt: skip


def curves(cells: Cells, family: str) -> dict[str, list[tuple[float, float]]]:
    """CPU time over the size that a family varies, for each system with two points at least."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for x, r in _sized(cells, family):
        lines.setdefault(r["peer"], []).append((x, net(r)))
    return {p: sorted(v) for p, v in lines.items() if len(v) > 1}


def work(cells: Cells, family: str) -> list[tuple[float, float]]:
    """Rows that go in and come out, over the size that a family varies, for each point of ivjoin's curve."""
    rows = [(x, float(r["rows_in"] + r["rows_expected"])) for x, r in _sized(cells, family) if r["peer"] == "ivjoin"]
    return sorted(rows) if len(rows) > 1 else []


def scaling(cells: Cells, family: str, folder: Path) -> str | None:
    """The curves of a family with their fitted exponents, and the course of a time in proportion to the rows."""
    lines = curves(cells, family)
    if not lines:
        return None
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 3))
    for peer, points in lines.items():
        axis.loglog(
            *zip(*points, strict=True), "o-", label=f"{peer}: exponent {exponent(points):z.2f}", color=_COLORS.get(peer)
        )
    rows = work(cells, family)
    if rows:
        # through the middle of ivjoin's points: the curve of a system whose time is that of the rows and nothing else
        ratio = np.exp(np.mean([np.log(t / w) for (_, t), (_, w) in zip(lines["ivjoin"], rows, strict=True)]))
        label = f"as the rows in and out: exponent {exponent(rows):z.2f}"
        axis.loglog([x for x, _ in rows], [w * ratio for _, w in rows], "--", color="gray", label=label)
    axis.set(xlabel=_AXES[family], ylabel="seconds of CPU")
    axis.legend()
    return save(figure, folder / f"benchmarks-{family}.svg")


def soak(records: list[dict[str, Any]], folder: Path) -> str | None:
    """Process memory and state over the rows of a long run."""
    if not records:
        return None
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 2.5))
    for field, label, color in (("memory", "process", "gray"), ("state_bytes", "state", _COLORS["ivjoin"])):
        axis.semilogy([r["rows"] for r in records], [r[field] / 1e6 for r in records], label=label, color=color)
    axis.set(xlabel="rows pushed", ylabel="MB")
    axis.legend()
    return save(figure, folder / "benchmarks-soak.svg")


def state(cells: Cells, folder: Path) -> str | None:
    """Peak state rows over the window, against the rows that the window holds."""
    points = sorted((x, r["peak_state_rows"]) for x, r in _sized(cells, "window") if r["peer"] == "ivjoin")
    if len(points) < 2:
        return None
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 3))
    x = [p[0] for p in points]
    axis.loglog(x, [p[1] for p in points], "o-", color=_COLORS["ivjoin"], label="peak state rows, both sides")
    axis.loglog(x, [min(2 * v, 2e6) for v in x], "--", color="gray", label="rows that can still match")
    axis.set(xlabel=_AXES["window"])
    axis.legend()
    return save(figure, folder / "benchmarks-state.svg")
