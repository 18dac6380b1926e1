"""Random joins of tables in slices of a few rows, compared with the same rows pushed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import HOWS

from ivjoin import Order, band_join
from ivjoin.stream import run_of_two
from ivjoin.stream.sort import sorting
from ivjoin.stream.tables import table_join
from ivjoin.stream.tables.table_join import TableJoin

BANDS = {
    "x": [
        "l.x BETWEEN r.x - 4 AND r.x + 3", "abs(l.x - r.x) <= 2", "l.x = r.x", "l.x > r.x - 5 AND l.x < r.x",
        "l.x BETWEEN r.x AND r.hi", "l.x BETWEEN r.x - 9 AND r.x - 3", "l.x + 3 BETWEEN r.x - 2 AND r.x + 6",
        "l.x BETWEEN r.x - 4 AND r.x + 4 AND l.v BETWEEN r.v - 60 AND r.v + 60",
    ],
    "f": ["l.f BETWEEN r.f - 2.5 AND r.f + 1.25", "abs(l.f - r.f) < 3", "l.f = r.f"],
    "ts": ["l.ts BETWEEN r.ts - INTERVAL 3 SECONDS AND r.ts + INTERVAL 2 SECONDS"],
    "i": ["l.i BETWEEN r.i - 3 AND r.i + 2"],
    "far": ["l.far = r.far", "l.far <= r.far AND l.far >= r.far"],
}
RESTS = [
    "", "", "", " AND l.v <> r.v", " AND l.v + r.v > 90", " AND (l.v + r.v) % 3 = 1", " AND l.v > 20",
    " AND r.s <> 'a'", " AND (l.s <> r.s OR l.v < 50)", " AND l.s || r.s <> 'aa'",
]
KEYS = [None, "k", "k", "s", ["k", "s"], "g", "d", ("k <=> k",)]


def table(rng: np.random.Generator, rows: int, span: int, falls: bool, ordered: bool) -> pa.Table:
    x = rng.integers(-span, span, rows)
    if ordered:
        x = -np.sort(-x) if falls else np.sort(x)
    holes = rng.random(rows) < rng.choice([0, 0, 0.1])
    f = x.astype(float)
    f[rng.random(rows) < 0.2] = -0.0 if rng.random() < 0.1 else 0.0
    if rng.random() < 0.3:
        f[rng.random(rows) < 0.05] = np.nan
    if ordered and not falls:
        f = np.sort(f)
    k = rng.integers(0, rng.choice([1, 3, 12]), rows)
    none = rng.random(rows) < 0.1
    ends = np.array([-(2**63), -(2**63) + 1, -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1])
    far = ends[np.sort(rng.integers(0, 8, rows))]
    made = {
        "k": pa.array(k, mask=none), "g": pa.array(k * 2.0**60 * rng.choice([0, 1]) - 0.0),
        "s": pa.array(np.array(["a", "b", "cc", ""])[k % 4], mask=none),
        "d": pa.array(np.array(["a", "b", "cc", ""])[k % 4]).dictionary_encode(),
        "x": pa.array(x, mask=holes), "f": pa.array(f, mask=holes), "i": pa.array(x.astype(np.int16)),
        "ts": pa.array(x * 1_000_000, pa.timestamp("us"), mask=holes), "far": far,
        "hi": pa.array(x + rng.integers(-1, 4, rows)), "v": rng.integers(0, 100, rows), "n": np.arange(rows),
        "l": pa.array([[i, i + 1] for i in range(rows)], pa.list_(pa.int64())), "b": pa.array(k % 2 == 0, mask=none),
    }  # fmt: skip
    return pa.table(made)


def split(draw: random.Random, rows: pa.Table, sizes: Sequence[int] = (0, 1, 7, 50)) -> pa.Table:
    """The same rows in batches of other lengths, some of them empty."""
    batches: list[pa.RecordBatch] = []
    at = 0
    while at < rows.num_rows:
        n = draw.choice(sizes)
        batches += rows.slice(at, n).to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
        at += n
    return pa.Table.from_batches(batches, rows.schema)


@contextmanager
def slices_of(rows: int, bands: int, least: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "SMALL", -1)
        patch.setattr(run_of_two, "_LEAST_IN_SLICES", least)
        patch.setattr(table_join, "_OWN_ROWS", rows)
        patch.setattr(table_join, "_BANDS", bands)
        patch.setattr(table_join, "_MOST_OWN_ROWS", max(rows, 64))
        patch.setattr(table_join, "_MOST_COPIED", 1 << 20)
        yield


def rows_of(batches: Any) -> list[str]:
    return [repr(tuple(row.values())) for b in batches for row in b.to_pylist()]


def question(draw: random.Random, bands: Sequence[str]) -> dict[str, Any]:
    """A condition with one of some bands, keys, a join type and a batch size."""
    options: dict[str, Any] = {
        "condition": draw.choice(bands) + draw.choice(RESTS), "how": draw.choice(HOWS),
        "batch_size": draw.choice([1, 7, 65536]),
    }  # fmt: skip
    key = draw.choice(KEYS)
    if isinstance(key, tuple):
        options["condition"] += " AND l.k <=> r.k"
    else:
        options["on"] = key
    return options


def valid(stream: Any, size: int) -> list[pa.RecordBatch]:
    """The output, after a check of each batch."""
    out = list(stream)
    for batch in out:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= size
    return out


def check(seed: int, went: Counter[str]) -> None:
    """One random join by one to four threads against the same rows pushed by one."""
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    axis = draw.choice(list(BANDS))
    falls = axis in ("x", "i", "ts") and draw.random() < 0.4
    ordered = draw.random() < 0.6 or axis == "far"
    sizes = [draw.choice([0, 1, 5, 60, 250]), draw.choice([0, 1, 5, 60, 250])]
    span = draw.choice([1, 10, 300])
    left, right = (split(draw, table(rng, n, span, falls, ordered), (0, 1, 7, 50, 1000)) for n in sizes)
    options = question(draw, BANDS[axis])
    if ordered and left.column(axis).null_count == right.column(axis).null_count == 0:
        for side in draw.choice([(), ("left",), ("right",), ("left", "right")]):
            options[f"{side}_order"] = Order(axis, descending=falls)
    if draw.random() < 0.3:
        keep = ["v", "n", "x"] if "semi" in options["how"] or "anti" in options["how"] else ["n", "v", "n_right"]
        options["columns"] = keep
    with slices_of(1 << 16, 8, 1 << 60):
        want = Counter(rows_of(band_join(left, right, **options)))
    first: list[str] | None = None
    with slices_of(draw.choice([1, 2, 5, 17, 100, 1 << 16]), draw.choice([0, 1, 3]), 0):
        for threads in (1, draw.choice([2, 3, 4])):
            stream = band_join(left, right, threads=threads, **options)
            got = rows_of(valid(stream, options["batch_size"]))
            have = Counter(got)
            assert have == want, f"{seed} {options}: lost {want - have}, invented {have - want}"
            if not isinstance(stream._run.operator, TableJoin):
                went["pushed"] += 1
                return
            assert first is None or got == first, f"{seed}: another order with {threads} threads"
            first = got
            m = stream.metrics
            assert (m.left_rows_in, m.right_rows_in, m.rows_out) == (*sizes, len(got)), (seed, m)
            assert (m.left_rows_retired, m.right_rows_retired, m.state_rows) == (*sizes, 0), (seed, m)
            went["several" if len(stream._run.operator.slices) > 2 else "few"] += 1
