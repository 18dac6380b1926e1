"""A memory limit that threads share: the rows of one thread, within the limit, and an error where it is too small."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drivers.sliced import all_ended
from oracle import HOWS, rows_of
from places import PATHS
from resident import needs_resident

from ivjoin import MemoryLimitError, Order, UnsupportedError, band_join, window_join
from ivjoin.stream import run_of_two
from ivjoin.stream.threads import memory, sliced_stream
from ivjoin.stream.threads.sliced_stream import SlicedStream

BAND = "l.x BETWEEN r.x - 30 AND r.x + 20"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_stream, "_SLICE_ROWS", 2000)
    monkeypatch.setattr(sliced_stream, "_COPIED", 2)
    monkeypatch.setattr(run_of_two, "_PARALLEL_ROWS", 400)
    monkeypatch.setattr(run_of_two, "_PUSH_ROWS", 400)
    monkeypatch.setattr(memory, "_LEAST", 50_000)
    monkeypatch.setattr(memory, "_LEAST_ROWS", 100)


def side(seed: int, rows: int, floats: bool = False, rough: int = 0, keys: int = 40) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = 1000 + np.cumsum(rng.integers(0, 2, rows)) - rng.integers(0, rough + 1, rows)
    k = rng.integers(0, keys, rows)
    return pa.table({
        "k": pa.array(k, pa.int32(), mask=rng.random(rows) < 0.05), "x": x.astype(float) if floats else x,
        "s": [None if i % 11 == 0 else "y" * int(i % 40) for i in k], "v": np.arange(rows) * 1.5,
    })  # fmt: skip


def streamed(table: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=130))


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(table.num_rows).permutation(table.num_rows)))


def limited(
    left: Any, right: Any, want: Counter[str], limit: int, way: str, call: Any = band_join, **options: Any
) -> Any:
    stream = call(left, right, threads=2, memory_limit=limit, when_full=way, **options)
    most, out = 0, []
    for batch in stream:
        out.append(batch)
        most = max(most, stream.metrics.state_bytes)
    assert rows_of(pa.Table.from_batches(out, stream.schema)) == want
    m = stream.metrics
    assert max(most, m.peak_state_bytes) <= limit
    assert m.state_rows == 0
    return stream


@pytest.mark.one_in(37)
@pytest.mark.parametrize(("how", "shape", "way"), [
    (how, shape, ["raise", "spill"][(i + j) % 2])
    for i, how in enumerate(HOWS) for j, shape in enumerate(["table", "stream", "sorted"])
])  # fmt: skip
def test_the_rows_of_one_thread(how: str, shape: str, way: str) -> None:
    left, right = side(1, 6000), side(2, 6000)
    options: dict[str, Any] = {"on": "k", "condition": BAND + " AND l.v <> r.v", "how": how}
    if shape != "sorted":
        options |= {"left_order": "x", "right_order": "x"}
    want = rows_of(band_join(left, right, **options).read_all())
    put = {"table": lambda t: t, "stream": streamed, "sorted": shuffled}[shape]
    stream = limited(put(left), put(right), want, 700_000, way, **options)
    assert isinstance(stream._run.operator, SlicedStream)
    # A full join whose slices do not fit the limit goes on in one operator.
    assert stream._run.operator._alone is None or how == "full"
    assert (stream.metrics.left_rows_in, stream.metrics.left_rows_retired) == (6000, 6000)
    # One operator keeps memory for a small batch, which another takes over.
    kept = 0 if stream._run.operator._alone is None else stream._run.operator._alone.metrics.state_bytes
    assert stream.metrics.state_bytes == kept < 100_000


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", HOWS)
def test_what_does_not_fit_into_a_slice_is_spilled_by_one_operator(how: str) -> None:
    left, right = side(3, 6000, keys=400), side(4, 6000, keys=400)
    options: dict[str, Any] = {
        "on": "k", "condition": "abs(l.x - r.x) <= 700", "how": how, "left_order": "x", "right_order": "x",
    }  # fmt: skip
    want = rows_of(band_join(left, right, **options).read_all())
    stream = limited(left, right, want, 240_000, "spill", **options)
    assert isinstance(stream._run.operator, SlicedStream)
    assert stream._run.operator._alone is not None
    if how in ("inner", "left", "right", "full"):
        assert stream.metrics.reads > 0


@pytest.mark.one_in(11)
@pytest.mark.parametrize(("how", "way"), [(how, ["raise", "spill"][i % 2]) for i, how in enumerate(HOWS)])
def test_rows_that_cannot_wait_are_joined_by_one_operator(how: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that do not fit in memory: it goes on with the whole limit, which grows as what was gathered is pushed."""
    monkeypatch.setattr(sliced_stream, "_MORE_COPIED", 1000)
    left, right = side(7, 8000, rough=5), side(8, 8000, rough=5)
    order = Order("x", slack=5)
    options: dict[str, Any] = {"on": "k", "condition": BAND, "how": how, "left_order": order, "right_order": order}
    want = rows_of(band_join(left, right, **options).read_all())
    stream = limited(streamed(left), streamed(right), want, 250_000, way, **options)
    assert stream._run.operator._alone is not None


@pytest.mark.slow
def test_computed_ranges_count() -> None:
    """Of floats, what says where a row lies is no view of the caller's table."""
    left, right = side(9, 6000, floats=True), side(10, 6000, floats=True)
    options: dict[str, Any] = {"on": "k", "condition": BAND, "left_order": "x", "right_order": "x"}
    want = rows_of(band_join(left, right, **options).read_all())
    stream = limited(left, right, want, 900_000, "raise", **options)
    assert stream._run.operator._alone is None


def test_aggregates_with_a_limit_run_on_one_thread() -> None:
    left, right = side(11, 2000), side(12, 2000)
    options: dict[str, Any] = {
        "on": "k", "condition": "abs(l.x - r.x) <= 600", "left_order": "x", "right_order": "x",
        "aggregate": {"n": ("*", "count"), "m": ("v", "max")},
    }  # fmt: skip
    want = rows_of(window_join(left, right, **options).read_all())
    stream = limited(left, right, want, 3_000_000, "raise", window_join, **options)
    assert not isinstance(stream._run.operator, SlicedStream)


def test_too_small_a_limit_is_reported_once() -> None:
    left, right = side(3, 8000), side(4, 8000)
    options: dict[str, Any] = {"on": "k", "condition": "abs(l.x - r.x) <= 2500", "left_order": "x", "right_order": "x"}
    with pytest.raises(MemoryLimitError, match="memory_limit of .* bytes: .* are in use and .* more are needed"):
        band_join(left, right, threads=2, memory_limit=240_000, **options).read_all()
    assert all_ended()
    with pytest.raises(UnsupportedError, match="when_full='shed' with threads=2: .* leave threads out"):
        band_join(left, right, threads=2, memory_limit=240_000, when_full="shed", **options)


def test_a_limit_too_small_to_be_shared_is_that_of_one_operator() -> None:
    left, right = side(1, 3000), side(2, 3000)
    options: dict[str, Any] = {"on": "k", "condition": BAND, "left_order": "x", "right_order": "x"}
    stream = band_join(left, right, threads=2, memory_limit=99_000, **options)
    assert rows_of(stream.read_all()) == rows_of(band_join(left, right, **options).read_all())
    assert not isinstance(stream._run.operator, SlicedStream)


_CHILD = """
import sys, threading, time
sys.path[:0] = {paths!r}
import pyarrow as pa
from ivjoin import band_join
from resident import SCHEMA as schema, batch, resident

def given(rows, seed, size=8192):
    batches = (batch(i, size, seed) for i in range(rows // 2 // size))
    if {shape!r} == "table":
        return pa.Table.from_batches(batches)
    return pa.RecordBatchReader.from_batches(schema, batches)

def run(rows, window, **limit):
    global peak
    left, right = given(rows, 0), given(rows, 1)
    start = peak = resident()
    stream = band_join(left, right, on="k", condition=f"abs(l.t - r.t) <= {{window}}", left_order="t", right_order="t",
                       **limit)
    found = sum(b.num_rows for b in stream)
    return peak - start, found, type(stream._run.operator).__name__, stream.metrics.spilled_bytes + stream.metrics.reads

def watch():
    global peak
    while True:
        peak = max(peak, resident())
        time.sleep(0.002)

peak = 0
threading.Thread(target=watch, daemon=True).start()
run(600_000, 100, threads=2, memory_limit={limit}, when_full="spill")
one = run({rows}, {window}) if {rows} < 3_000_000 else (0, -1)
two = run({rows}, {window}, threads=2, memory_limit={limit}, when_full="spill")
print(two[0], one[1], *two[1:])
"""


def child(shape: str, limit: int, rows: int, window: int) -> tuple[int, int, int, str, int]:
    code = _CHILD.format(paths=PATHS, shape=shape, limit=limit, rows=rows, window=window)
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stderr
    peak, one, two, kind, spilled = done.stdout.split()
    return int(peak), int(one), int(two), kind, int(spilled)


@pytest.mark.slow
@needs_resident
@pytest.mark.parametrize("shape", ["table", "stream"])
def test_the_process_stays_within(shape: str) -> None:
    peak, one, two, kind, spilled = child(shape, 16_000_000, 2_000_000, 100_000 if shape == "table" else 30_000)
    assert peak <= 16_000_000 + 64_000_000
    assert two == one
    assert kind == "SlicedStream"
    assert shape == "stream" or spilled > 0


@needs_resident
@pytest.mark.soak
def test_the_process_stays_within_through_ten_million_rows() -> None:
    peak, _, two, kind, _ = child("stream", 40_000_000, 10_000_000, 200_000)
    assert peak <= 40_000_000 + 64_000_000
    assert two > 0
    assert kind == "SlicedStream"
