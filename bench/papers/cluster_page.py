"""The section on parallel windowed joins: tables and charts from the records of :mod:`bench.papers.cluster`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.charts import pyplot, save
from bench.tables import table

__all__ = ["highest", "lines"]

_COLORS = {1: "#0b5394", 2: "#c1272d", 3: "#6aa84f", 4: "#674ea7"}
Record = dict[str, Any]


def highest(cells: Sequence[Record]) -> float:
    """The rate at which the busiest worker is busy for 95 % of the time, in thousands.

    Rows and pairs make that share a x rate + b x rate^2, which is fitted to some cells.
    """
    x = np.array([r["rate"] for r in cells])
    shares = np.array([r["busiest"] for r in cells])
    a, b = np.linalg.lstsq(np.stack([x, x * x], axis=1), shares, rcond=None)[0]
    a = max(float(a), 0.0)
    return 1000 * int((math.sqrt(a * a + 4 * 0.95 * b) - a) / (2 * b) / 1000)


def lines(records: Sequence[Record], folder: Path) -> list[str]:
    """Tables, and charts in a folder."""
    if records[0]["kind"] == "spark":
        return _on_spark(records)
    cells = [r for r in records if r["kind"] == "cluster"]
    rates = sorted({r["rate"] for r in cells})
    first = {r["workers"]: r["how"] for r in cells}
    at = {(r["workers"], r["rate"]): r for r in cells}
    names = [f"{n} ({first[n]})" for n in first]
    many = [r for r in records if r["kind"] == "workers"]
    out = [
        f"Windows of {cells[0]['window']:g} s over {cells[0]['values']:,} values. Average production delay in seconds, "
        "and the processor's busy share of each worker:", "",
        table(["rows per second and stream", *names],
              [[f"{r:,.0f}", *(f"{at[n, r]['delay']:.3f}, {at[n, r]['busy']:.2%}" for n in first)] for r in rates]),
        "", f"![Delay and busy share over the rate, by workers]({_rate_chart(records, folder)})", "",
        f"At {many[0]['rate']:,.0f} rows per second and stream, in windows of {many[0]['window']:g} s over "
        f"{many[0]['values']:,} values. *Master* is the share of one core that routes the rows:", "",
        table(["workers", "idle share", "bytes shuffled per second", "master", "rows in state", "pairs per second"],
              [[f"{r['workers']} ({r['how']})", f"{r['idle']:.2%}", f"{r['bytes']:,}", f"{r['master']:.2%}",
                f"{r['state']:,}", f"{r['pairs'] / r['seconds']:,.0f}"] for r in many]),
        "",
    ]  # fmt: skip
    top = [r for r in records if r["kind"] == "saturation" and r.get("part") == 1.0]
    half = {(r["how"], r["workers"]): r for r in records if r["kind"] == "saturation" and r.get("part") == 0.5}
    if top:
        out += [
            f"The highest sustained rate, in windows of {top[0]['window']:g} s over {top[0]['values']:,} values, and "
            "the production delay at half of this rate:", "",
            table(["workers", "rows per second and stream", "rows per second and core", "pairs per second",
                   "busiest worker", "10-minute windows, extrapolated", "delay at half: median", "99 %"],
                  [[f"{r['workers']} ({r['how']})", f"{r['rate']:,.0f}", f"{2 * r['rate'] / r['workers']:,.0f}",
                    f"{r['pairs'] / r['seconds']:,.0f}", f"{r['busiest']:.2f}",
                    f"{highest([c for c in cells if c['workers'] == r['workers']]):,.0f}",
                    *(f"{half[r['how'], r['workers']][q]:.2f} s" for q in ("median", "p99"))] for r in top]
                  + [[names[n - 1], *4 * ["not measured"], f"{highest([c for c in cells if c['workers'] == n]):,.0f}",
                      "", ""] for n in first if n > max(r["workers"] for r in top)]),
            "",
        ]  # fmt: skip
    epochs = [r for r in records if r["kind"] == "epoch"]
    out += [
        f"One worker with epochs of different lengths, at {epochs[0]['rate']:,.0f} rows per second and stream:", "",
        table(["epoch, s", "average delay, s", "median", "99 %", "busy share"],
              [[f"{r['epoch']:g}", *(f"{r[n]:.3f}" for n in ("delay", "median", "p99")), f"{r['busy']:.2%}"]
               for r in epochs]),
        "", f"![Idle share, bytes shuffled, and delay over the epoch]({_worker_chart(many, epochs, folder)})", "",
    ]  # fmt: skip
    skew = [r for r in records if r["kind"] == "skew"]
    out += [
        f"One value gets a tenth of the rows after {skew[0]['change']:g} s: {skew[0]['workers']} simulated workers, "
        f"{skew[0]['rate']:,.0f} rows per second and stream, windows of {skew[0]['window']:g} s. Busy share of "
        "the busiest worker and of the average one:", "",
        table(["plan", "before the change", "last 10 s", "from an epoch's end to its last pair, last 10 s",
               "rows received", "pairs"],
              [[_plan(r), _share(r, r["time"].index(r["change"])), _share(r, len(r["time"]) - 1),
                f"{max(r['delay'][-5:]):.3f} s", f"{r['copies']:,}", f"{r['pairs']:,}"]
               for r in skew]),
        "", f"![Busy share of the workers over time, with one plan and with new plans]({_skew_chart(skew, folder)})",
    ]  # fmt: skip
    return out


def _on_spark(records: Sequence[Record]) -> list[str]:
    return [
        f"On Spark, windows of {records[0]['window']:g} s over {records[0]['values']:,} values. An epoch is one "
        "micro-batch, timed on the clock:", "",
        table(["executor cores", "rows per second and stream", "epoch, s", "micro-batches, s", "busy share",
               "average delay, s", "99 %"],
              [[str(r["workers"]), f"{r['rate']:,.0f}", f"{r['epoch']:g}",
                ", ".join(f"{s:.1f}" for s in r["batch_seconds"]), f"{r['busy']:.2f}", f"{r['delay']:.2f}",
                f"{r['p99']:.2f}"] for r in records]),
    ]  # fmt: skip


def _plan(r: Record) -> str:
    return "new plans every 20 s" if r["follows"] else "the first plan"


def _share(r: Record, at: int) -> str:
    return ", ".join(f"{np.mean(r[n][max(0, at - 4) : at + 1]):.2%}" for n in ("busiest", "mean"))


def _rate_chart(records: Sequence[Record], folder: Path) -> str:
    figure, axes = pyplot().subplots(1, 2, figsize=(9, 3.2))
    for kind, style in (("cluster", "o-"), ("saturation", "s--")):
        for n in sorted({r["workers"] for r in records if r["kind"] == kind}):
            own = [r for r in records if (r["kind"], r.get("workers")) == (kind, n) and r["how"] != "threads"]
            own.sort(key=lambda r: r["rate"])
            label = f"{n}, {own[0]['how']}" if kind == "cluster" else None
            for axis, name in zip(axes, ("delay", "busy"), strict=True):
                points = [r["rate"] for r in own], [r[name] for r in own]
                axis.plot(*points, style, ms=4, color=_COLORS.get(n), label=label)
    axes[0].set(ylabel="average production delay, s", xscale="log", xlabel="rows a second and stream", ylim=(0, None))
    axes[1].set(ylabel="busy share of a worker", xscale="log", yscale="log", xlabel="rows a second and stream")
    axes[1].legend(title="workers", fontsize=8)
    return save(figure, folder / "papers-cluster-rate.svg")


def _worker_chart(many: Sequence[Record], epochs: Sequence[Record], folder: Path) -> str:
    figure, axes = pyplot().subplots(1, 3, figsize=(9, 2.8), layout="constrained")
    for how, color in (("processes", "#0b5394"), ("threads", "#c1272d"), ("simulated", "gray")):
        own = [r for r in many if r["how"] == how]
        for axis, name, scale in zip(axes, ("idle", "bytes"), (100, 1e-6), strict=False):
            axis.plot([r["workers"] for r in own], [r[name] * scale for r in own], "o-", color=color, label=how)
    axes[0].set(xlabel="workers", ylabel="idle share, %", ylim=(0, 105))
    axes[1].set(xlabel="workers", ylabel="shuffled, MB/s", ylim=(0, None))
    axes[0].legend(fontsize=8)
    axes[2].plot([r["epoch"] for r in epochs], [r["delay"] for r in epochs], "o-", color="#0b5394", label="average")
    axes[2].plot([r["epoch"] for r in epochs], [r["p99"] for r in epochs], "^--", color="#0b5394", label="99 %")
    axes[2].set(xlabel="epoch, s", ylabel="production delay, s")
    axes[2].legend(fontsize=8)
    for axis in axes[:2]:
        axis.set_xticks(sorted({r["workers"] for r in many}))
    return save(figure, folder / "papers-cluster-workers.svg")


def _skew_chart(skew: Sequence[Record], folder: Path) -> str:
    figure, axis = pyplot().subplots(figsize=(6, 2.8))
    for r, color in zip(skew, ("#0b5394", "#c1272d"), strict=True):
        axis.plot(r["time"], r["busiest"], color=color, label=f"{_plan(r)}: busiest worker")
        axis.plot(r["time"], r["mean"], ":", color=color, label="average worker")
    axis.axvline(skew[0]["change"], color="gray", lw=0.8)
    axis.set(xlabel="event time, s; the vertical line is the change", ylabel="busy share of an epoch", ylim=(0, None))
    axis.legend(fontsize=8, loc="upper left")
    return save(figure, folder / "papers-cluster-skew.svg")
