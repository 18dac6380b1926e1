"""Draw result records as SVG charts. Each function writes a file and returns its name, or None if nothing is drawn.

Runs that were stopped at the time limit are outlines: a bar that ends at the limit, or a triangle that points up.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from bench.tables import Cells, net

__all__ = ["bars", "curves", "exponent", "pyplot", "save", "scaling", "seed", "soak", "state", "work"]

_COLORS = {
    "ivjoin": "#c1272d", "ivjoin band_join": "#e68a8d", "DataFusion SHJ": "#0b5394", "DataFusion hash join": "#6fa8dc",
    "DuckDB, buckets by hand": "#6aa84f", "DuckDB": "#274e13", "Polars, join and filter": "#674ea7",
    "Polars join_where": "#b4a7d6", "Acero": "#7f6000", "pandas": "#f1c232",
}  # fmt: skip
_AXES = {"window": "rows in the window", "live-keys": "keys", "length": "rows a side"}


def pyplot() -> Any:
    """Return pyplot, with settings that make equal files of equal results."""
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


def _limit(r: dict[str, Any] | None) -> float | None:
    """Return the seconds after which a run was stopped; None for a run that ended, or for no run."""
    found = re.match(r"over ([\d.]+) s", r.get("detail", "")) if r is not None and r["status"] == "slow" else None
    return float(found[1]) if found else None


def _mark_stopped(axis: Any, points: list[tuple[float, float]], color: str | None) -> None:
    """Draw runs that were stopped at the time limit."""
    if points:
        axis.plot(*zip(*points, strict=True), "^", markerfacecolor="none", color=color, label="stopped at the limit")


def seed(cells: Cells, rows: int, folder: Path) -> str | None:
    """Draw the CPU time a row over the batch size, a panel for each number of keys."""
    panels = []
    for card in (8, 64, 1024):
        lines: dict[str, list[tuple[int, float]]] = {}
        stopped: list[tuple[float, float]] = []
        for peer in ("ivjoin", "DataFusion SHJ"):
            found = [(b, cells.get(f"seed/{card} keys/{rows} rows", peer, b)) for b in (128, 512, 2048, 4096)]
            points = [(b, net(r) / (2 * rows) * 1e9) for b, r in found if r is not None and r["status"] == "ok"]
            if points:
                lines[peer] = points
            stopped += [(b, s / (2 * rows) * 1e9) for b, r in found if (s := _limit(r)) is not None]
        panels.append((card, lines, stopped))
    if not any(lines for _, lines, _ in panels):
        return None
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True)
    for axis, (card, lines, stopped) in zip(axes, panels, strict=True):
        for peer, points in lines.items():
            axis.loglog(*zip(*points, strict=True), "o-", label=peer, color=_COLORS[peer])
        _mark_stopped(axis, stopped, _COLORS["DataFusion SHJ"])
        axis.set(title=f"{card} keys", xlabel="batch size, rows", xticks=[128, 512, 2048, 4096])
        axis.set_xticks([128, 512, 2048, 4096], ["128", "512", "2048", "4096"])
        axis.minorticks_off()
    axes[0].set_ylabel("ns of CPU a row, net of input")
    axes[0].legend()
    return save(figure, folder / f"papers-pruning-{rows}.svg")


def bars(cells: Cells, family: str, folder: Path) -> str | None:
    """Draw the seconds of every engine on a log scale, a group for each case."""
    records = [r for r in cells.family(family) if r["status"] == "ok" or _limit(r)]
    best: dict[tuple[str, str], float] = {}
    limits: dict[tuple[str, str], float] = {}
    for r in records:
        at = (r["case"], r["peer"])
        if r["status"] == "ok":
            best[at] = min(best.get(at, np.inf), r["seconds"])
        else:
            limits[at] = _limit(r) or 0.0
    cases, peers = list(dict.fromkeys(r["case"] for r in records)), list(dict.fromkeys(r["peer"] for r in records))
    if not cases or len(peers) < 2:
        return None
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9, 0.5 + 0.16 * len(cases) * (len(peers) + 1)))
    height = 1 / (len(peers) + 1)
    for i, peer in enumerate(peers):
        y = [n + i * height for n, c in enumerate(cases) if (c, peer) in best]
        color = _COLORS.get(peer, "gray")
        axis.barh(y, [best[c, peer] for c in cases if (c, peer) in best], height, color=color)
        over = [(n + i * height, limits[c, peer]) for n, c in enumerate(cases) if (c, peer) in limits.keys() - best]
        if over:
            bars = axis.barh(*zip(*over, strict=True), height, facecolor="none", edgecolor=color, linestyle="--")
            axis.bar_label(bars, [f"> {limit:g} s" for _, limit in over], fontsize=7, padding=2)
    axis.set_yticks([n + (len(peers) - 1) / 2 * height for n in range(len(cases))], cases)
    axis.invert_yaxis()
    axis.set(xscale="log", xlabel="seconds, the best batch size of each")
    named = [plt.Rectangle((0, 0), 1, 1, color=_COLORS.get(peer, "gray")) for peer in peers]
    axis.legend(named, peers, loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    return save(figure, folder / f"benchmarks-{family}.svg")


def exponent(points: list[tuple[float, float]]) -> float:
    """Return the slope of log(y) over log(x), by least squares."""
    x, y = np.log(np.array(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def _sized(cells: Cells, family: str) -> list[tuple[float, dict[str, Any]]]:
    """Return runs by the size that a family varies; those of the usual length, unless the family varies it."""
    return [
        (float(r["case"].split("/")[1].split()[0]), r) for r in cells.family(family)
        if family == "length" or r["case"].endswith("/1000000 rows")
    ]  # fmt: skip


def curves(cells: Cells, family: str) -> dict[str, list[tuple[float, float]]]:
    """Return the CPU time over the size that a family varies, for each engine with at least two points."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for x, r in _sized(cells, family):
        if r["status"] == "ok":
            lines.setdefault(r["peer"], []).append((x, net(r)))
    return {p: sorted(v) for p, v in lines.items() if len(v) > 1}


def work(cells: Cells, family: str) -> list[tuple[float, float]]:
    """Return the rows of input and output over the size that a family varies, for each point of ivjoin's curve."""
    runs = [(x, r) for x, r in _sized(cells, family) if r["peer"] == "ivjoin" and r["status"] == "ok"]
    rows = [(x, float(r["rows_in"] + r["rows_expected"])) for x, r in runs]
    return sorted(rows) if len(rows) > 1 else []


def scaling(cells: Cells, family: str, folder: Path) -> str | None:
    """Draw the curves of a family with their exponents, and a line in proportion to the rows."""
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
        # through the middle of ivjoin's points: an engine whose time depends on the rows of input and output alone
        ratio = np.exp(np.mean([np.log(t / w) for (_, t), (_, w) in zip(lines["ivjoin"], rows, strict=True)]))
        label = f"as the rows in and out: exponent {exponent(rows):z.2f}"
        axis.loglog([x for x, _ in rows], [w * ratio for _, w in rows], "--", color="gray", label=label)
    for peer in lines:
        limits = [(x, s) for x, r in _sized(cells, family) if r["peer"] == peer and (s := _limit(r)) is not None]
        _mark_stopped(axis, limits, _COLORS.get(peer))
    axis.set(xlabel=_AXES[family], ylabel="seconds of CPU")
    axis.legend()
    return save(figure, folder / f"benchmarks-{family}.svg")


def soak(records: list[dict[str, Any]], folder: Path) -> str | None:
    """Draw the memory and the state of a process over the rows of a long run."""
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
    """Draw the peak state over the window, and the rows that can still match."""
    runs = [(x, r) for x, r in _sized(cells, "window") if r["peer"] == "ivjoin" and r["status"] == "ok"]
    points = sorted((x, r["peak_state_rows"]) for x, r in runs)
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
