"""Parallel windowed joins in a shared-nothing cluster (Chakraborty, Singh): delay and processor over rate and workers.

Two streams with Poisson arrivals, values by the b-model (each half of a range gets 0.7 or 0.3 of its rows) over 10^7
values, tuples of 64 bytes, a window of 10 minutes on each stream. A master sends the rows of each epoch to the workers
by a plan of ``ivjoin.routing``. Windows are filled first, at full speed; then some epochs are measured.

Saturation is measured in windows of 7.7 s over 39,062 values: a row matches as many rows as in the paper's setting, at
a 78th of the state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from bench.papers.cluster_page import highest, lines
from bench.papers.cluster_spark import check_spark, measured_on_spark
from bench.papers.common import Refused
from bench.papers.workers import GROUPS, Simulated, cores, quantile
from ivjoin.routing import Edge, PlanList, RoutingPlan, along, plan_join

__all__ = ["Setting", "check", "lines", "measured", "reorganised", "run", "saturated", "values"]

_BIAS, _VALUES, _BITS = 0.7, 10**7, 12
_SAME = sum(p * p for p in (_BIAS, 1 - _BIAS))  # of two rows, the chance that a split sends both to one half
SIDES = ("left", "right")
SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.binary(48)})
RATES, WORKERS, EPOCHS = (1000, 3000, 6000), (1, 2, 3, 4), (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_HALVINGS, _REORGANISED = 8, 20.0  # of the values for saturation; seconds between plans
_PIECES = 30  # in which windows are filled
_BUSY_RATE = 24_000  # at which idle time and bytes are compared
_MOST_RATE, _MOST_WORKERS = 1_000_000, 64
Record = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One cell: rows a second of each stream, seconds of window, of an epoch and of the run, halvings of the values."""

    rate: float
    window: float = 600.0
    epoch: float = 2.0
    seconds: float = 20.0
    halvings: int = 0

    def shrunk(self, halvings: int) -> Setting:
        """Fewer values and a shorter window, so that a row matches as many rows."""
        return replace(self, halvings=halvings, window=self.window * _SAME**halvings)


@lru_cache(maxsize=2)
def _weights(bits: int) -> np.ndarray:
    """Summed weights of the 2^bits parts that so many splits make : float64[2^bits]."""
    weights = np.ones(1)
    for _ in range(bits):
        weights = np.concatenate([_BIAS * weights, (1 - _BIAS) * weights])
    return np.cumsum(weights)


def values(rng: np.random.Generator, rows: int, halvings: int = 0) -> np.ndarray:
    """Values by the b-model over 10^7 / 2^halvings values : int64[rows]."""
    high, low = (np.searchsorted(_weights(_BITS), rng.random(rows)) for _ in range(2))
    return ((high << _BITS | low) * (_VALUES >> halvings)) >> (2 * _BITS)


class Stream:
    """The rows of one stream, piece by piece from the time 0 on."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._setting, self._rng, self._now = setting, np.random.default_rng(seed), 0.0

    def next(self, seconds: float) -> pa.RecordBatch:
        """The rows of the next seconds."""
        begin, self._now = self._now, self._now + seconds
        rows = self._rng.poisson(self._setting.rate * seconds)
        t = np.sort(self._rng.integers(round(begin * 1e6), round(self._now * 1e6), rows))
        filler = pa.FixedSizeBinaryArray.from_buffers(pa.binary(48), rows, [None, pa.py_buffer(bytes(48 * rows))])
        return pa.record_batch([pa.array(values(self._rng, rows, self._setting.halvings)), pa.array(t), filler], SCHEMA)


def planned(setting: Setting, workers: int) -> RoutingPlan:
    """Where keys go: by their hash, in cells that are placed by their load."""
    left, right = (Stream(setting, seed).next(50_000 / setting.rate) for seed in (3, 4))
    return plan_join(left, right, on="k", workers=workers)


def measured(setting: Setting, how: str, workers: int) -> Record:
    """One cell: what the workers did, and the delays of all pairs."""
    group = GROUPS[how](workers, SCHEMA, ("k",), setting.window)
    plan = planned(setting, workers)
    sources, epochs = [Stream(setting, seed) for seed in (1, 2)], math.ceil(setting.seconds / setting.epoch)
    master = first = 0.0
    for number in range(-_PIECES, epochs):
        timed = number >= 0
        batches = [source.next(setting.epoch if timed else setting.window / _PIECES) for source in sources]
        begun, started = time.thread_time(), time.perf_counter()
        first = started if number <= 0 else first
        parts = [batches] if workers == 1 else list(zip(*(_routed(plan, b) for b in batches), strict=True))
        master += timed * (time.thread_time() - begun)
        for worker, part in enumerate(parts):
            group.send(worker, setting.window + (number + 1) * setting.epoch if timed else None, part)
    found = group.done()
    elapsed = time.perf_counter() - first
    seconds = epochs * setting.epoch
    delays = np.sum([w["delays"] for w in found], axis=0)
    busy = np.array([w["busy"] for w in found]) / seconds
    return {
        "kind": "cluster", "how": how, "workers": workers, "rate": setting.rate, "window": round(setting.window, 2),
        "values": _VALUES >> setting.halvings, "epoch": setting.epoch, "seconds": seconds,
        "busy": round(float(busy.mean()), 5), "busiest": round(float(busy.max()), 5),
        "idle": round(float(np.maximum(1 - busy, 0).mean()), 4), "master": round(master / seconds, 5),
        "bytes": round(group.sent / seconds), "delay": round(_mean(delays), 3),
        "median": round(quantile(delays, 0.5), 3), "p99": round(quantile(delays, 0.99), 3),
        "pairs": sum(w["pairs"] for w in found), "state": sum(w["state"] for w in found),
        "elapsed": round(elapsed, 2),
    }  # fmt: skip


def _mean(delays: np.ndarray) -> float:
    return float((delays * (np.arange(len(delays)) + 0.5)).sum() / max(delays.sum(), 1)) / 1e3


def _routed(plan: RoutingPlan, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The copies of a batch's rows by worker. No value has so many rows that it is spread, so each row has one copy."""
    rows, cells, _ = plan.cells("left", batch)
    assert len(rows) == batch.num_rows, "a value has so many rows that the plan spreads it"
    to = plan.worker_of[cells]
    return [batch.take(pa.array(np.sort(rows[to == worker]))) for worker in range(plan.workers)]


def saturated(base: Setting, how: str, workers: int) -> list[Record]:
    """Cells at two rates, at the highest one that holds, and at half of it."""
    found = [measured(replace(base, rate=part * workers**0.5), how, workers) for part in (8000, 16_000)]
    rate = highest(found)
    while True:
        at = measured(replace(base, rate=rate), how, workers)
        if at["busiest"] <= 1:
            break
        found.append(at)
        rate = 1000 * int(0.9 * rate / 1000)
    half = measured(replace(base, rate=rate / 2), how, workers)
    return [r | {"kind": "saturation"} for r in (*found, at | {"part": 1.0}, half | {"part": 0.5})]


def reorganised(setting: Setting, workers: int, change: float, follows: bool, hot: float = 0.1) -> Record:
    """A run in whose middle one value gets a tenth of the rows: load and delay of each epoch.

    With ``follows``, a new plan is made every 20 s of the rows since the last one. It moves no row, and begins beyond
    all that the rows so far can match.
    """
    schema = pa.schema([*SCHEMA, ("c", pa.int64()), ("own", pa.bool_())])
    group, micros = Simulated(workers, schema, ("k", "c"), setting.window), round(setting.window * 1e6)
    question: dict[str, Any] = {"on": "k", "condition": f"l.t BETWEEN r.t - {micros} AND r.t + {micros}"}
    sources, draw, seen, edge = [Stream(setting, seed) for seed in (1, 2)], np.random.default_rng(3), [], Edge()
    left, right = (Stream(setting, seed).next(_REORGANISED) for seed in (1, 2))
    newest = plan_join(left, right, workers=workers, **question)
    plans = along(newest)
    series: dict[str, list[float]] = {"time": [], "busiest": [], "mean": [], "delay": []}
    for number in range(round(setting.seconds / setting.epoch)):
        end, batches = (number + 1) * setting.epoch, [source.next(setting.epoch) for source in sources]
        if end > change:
            batches = [
                b.set_column(0, "k", pa.array(np.where(draw.random(b.num_rows) < hot, -1, b["k"].to_numpy())))
                for b in batches
            ]
        seen.append(batches)
        before = np.array([w.busy for w in group.workers])
        parts = [_copies(plans, workers, side, b, schema) for side, b in zip(SIDES, batches, strict=True)]
        for worker, part in enumerate(zip(*parts, strict=True)):
            group.send(worker, end, part)
        for side, b in zip(SIDES, batches, strict=True):
            edge = edge.joined(plans.edge(side, b))
        if follows and end % _REORGANISED < setting.epoch / 2:
            plans, (lefts, rights) = plans.without_dead(round(end * 1e6) - micros), zip(*seen, strict=True)
            better = plan_join(list(lefts), list(rights), workers=workers, current=newest, **question)
            if (grown := plans.add(better, edge)) is not None:
                plans, newest = grown, better
            seen = []
        load = (np.array([w.busy for w in group.workers]) - before) / setting.epoch
        delay = max(w.last_delay for w in group.workers)
        for name, value in zip(series, (end, load.max(), load.mean(), delay), strict=True):
            series[name].append(round(float(value), 4))
    return {
        "kind": "skew", "follows": follows, "workers": workers, "rate": setting.rate, "change": change,
        "window": round(setting.window, 2),
        "pairs": sum(w.pairs for w in group.workers), "copies": sum(w.rows for w in group.workers), **series,
    }  # fmt: skip


def _copies(
    plans: PlanList, workers: int, side: str, batch: pa.RecordBatch, schema: pa.Schema
) -> list[pa.RecordBatch]:
    """The copies of a batch's rows by worker, each with its cell and whether it is owned."""
    rows, numbers, cells, owned = plans.cells(side, batch)
    to = np.empty(len(rows), dtype=np.int64)
    for number, plan in enumerate(plans.plans, plans.first):
        assert isinstance(plan, RoutingPlan)
        to[numbers == number] = plan.worker_of[cells[numbers == number]]
    out = []
    for worker in range(workers):
        mine = np.flatnonzero(to == worker)
        mine = mine[np.argsort(rows[mine], kind="stable")]
        part = batch.take(pa.array(rows[mine]))
        cell = pa.array(numbers[mine] << 32 | cells[mine])
        out.append(pa.record_batch([*part.columns, cell, pa.array(owned[mine])], schema=schema))
    return out


def on_spark(setting: Setting, workers: int) -> Record:
    """One cell on Spark, with ``routing_dir``."""
    found = measured_on_spark(setting, workers, [Stream(setting, seed) for seed in (1, 2)])
    own = {"kind": "spark", "how": "spark", "workers": workers, "rate": setting.rate, "epoch": setting.epoch}
    return own | {"window": round(setting.window, 2), "values": _VALUES >> setting.halvings} | found


def check(rates: Sequence[float], workers: Sequence[int], hows: Sequence[str]) -> None:
    """Refuse what cannot run.

    Raises
    ------
    Refused
    """
    for rate in rates:
        if not 1 <= rate <= _MOST_RATE:
            raise Refused(f"--rates has {rate:g}; expected rows a second of each stream, 1 to {_MOST_RATE:,}")
    for n in workers:
        if not 1 <= n <= _MOST_WORKERS:
            raise Refused(f"--workers has {n}; expected a number from 1 to {_MOST_WORKERS}")
        if n > cores() and (own := [h for h in hows if h != "simulated"]):
            raise Refused(
                f"--workers has {n}, but {own[0]} need a core each and this process may use {cores()}; use fewer "
                "workers, or --how simulated"
            )
    if "spark" in hows:
        if len(hows) > 1:
            raise Refused("--how has spark and others; expected spark alone, in a run of its own")
        check_spark()


def run(
    quick: bool, rates: Sequence[float] = (), workers: Sequence[int] = (), hows: Sequence[str] = ()
) -> Iterator[Record]:
    """All cells. Without ``hows``, workers are processes and threads up to the cores of the machine, else simulated."""
    rates, workers = rates or ((1000, 4000) if quick else RATES), workers or WORKERS
    if "spark" in hows:
        for n in workers:
            yield on_spark(Setting(rates[0], epoch=10.0, seconds=40).shrunk(_HALVINGS), n)
        return
    whole = Setting(rates[0], seconds=4 if quick else 10).shrunk(_HALVINGS if quick else 0)
    small = Setting(rates[0], seconds=4).shrunk(_HALVINGS)
    for n in workers:
        chosen = hows or (("processes", "threads") if n <= cores() else ("simulated",))
        for rate in rates:
            yield measured(replace(whole, rate=rate), chosen[0], n)
        for how in chosen:
            busy = replace(small, rate=rates[-1] if quick else _BUSY_RATE)
            yield measured(busy, how, n) | {"kind": "workers"}
            if not quick and n <= cores():
                yield from saturated(small, how, n)
    for epoch in EPOCHS:
        one = replace(small, rate=rates[-1], epoch=epoch, seconds=max(small.seconds, 3 * epoch))
        yield measured(one, "simulated", 1) | {"kind": "epoch"}
    skewed = Setting(500 if quick else 1000, seconds=80).shrunk(_HALVINGS)
    reorganised(replace(skewed, seconds=4), max(workers), 30.0, False)  # what the first run pays once
    for follows in (False, True):
        yield reorganised(skewed, max(workers), 30.0, follows)
