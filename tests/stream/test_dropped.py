"""A stream that is dropped is freed at once: threads, files and rows do not wait for the cyclic collector."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin

ROWS = pa.table({"k": np.arange(300_000)})
FEW = ROWS.slice(0, 5_000)
BAND: Any = {"condition": "l.k BETWEEN r.k AND r.k + 5", "left_order": "k", "right_order": "k", "batch_size": 64}
SPILL: Any = {"memory_limit": "32MB", "when_full": "spill"}


def joined(**options: Any) -> ivjoin.JoinStream:
    table = ROWS if options.get("threads") else FEW
    return ivjoin.band_join(table, table, **{**BAND, **options})


def begun(stream: ivjoin.JoinStream) -> ivjoin.JoinStream:
    next(stream)
    return stream


def read(stream: ivjoin.JoinStream) -> ivjoin.JoinStream:
    stream.read_all()
    return stream


def failed(threads: int) -> ivjoin.JoinStream:
    stream = ivjoin.band_join(iter(pa.table({"k": [5, 1]}).to_batches()), FEW, **BAND, threads=threads)
    with pytest.raises(ivjoin.LateRowError):
        list(stream)
    return stream


def handed_on() -> ivjoin.JoinStream:
    stream = joined()
    stream.to_reader().read_next_batch()
    return stream


def pushed() -> ivjoin.SymmetricHashJoin:
    op = ivjoin.SymmetricHashJoin(FEW.schema, FEW.schema, **BAND)
    list(op.push("left", FEW.to_batches()[0]))
    next(iter(op.push("right", FEW.to_batches()[0])))
    return op


MADE = {
    "not begun": joined, "begun": lambda: begun(joined()), "begun, threads": lambda: begun(joined(threads=3)),
    "begun, files": lambda: begun(joined(**SPILL)),
    "begun, threads and files": lambda: begun(joined(threads=3, **SPILL)),
    "aggregates": lambda: begun(ivjoin.window_join(FEW, FEW, **BAND, aggregate={"n": "count(*)"})),
    "as-of": lambda: begun(ivjoin.asof_join(FEW, FEW, on="k", batch_size=64)),
    "many": lambda: begun(ivjoin.multi_join({"a": FEW, "b": FEW}, "a.k = b.k", batch_size=64)),
    "read": lambda: read(joined()), "an error": lambda: failed(1), "an error, threads": lambda: failed(3),
    "a reader": handed_on, "an operator": pushed,
}


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("ivjoin ")]


def wait_for_threads() -> None:
    end = time.monotonic() + 20
    while ours() and time.monotonic() < end:
        time.sleep(0.005)
    assert not ours()


@pytest.mark.one_in(23)
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_it_is_freed_at_once(make: Callable[[], Any]) -> None:
    make()
    wait_for_threads()
    open_files = len(os.listdir("/proc/self/fd"))
    stream = make()
    dropped = weakref.ref(stream)
    del stream
    assert dropped() is None
    wait_for_threads()
    assert len(os.listdir("/proc/self/fd")) == open_files


def generated(stream: ivjoin.JoinStream) -> Iterator[pa.RecordBatch]:
    with stream:
        yield from stream


@pytest.mark.one_in(5)
@pytest.mark.parametrize("closed", [False, True], ids=["dropped", "closed"])
def test_a_collector_that_runs_in_one_of_its_threads(closed: bool) -> None:
    """As when an allocation in that thread starts it, whichever lock the thread has there."""
    places: set[tuple[str, int]] = set()
    late = threading.Event()

    def collect(frame: Any, event: str, _: object) -> None:
        place = frame.f_code.co_filename, frame.f_code.co_firstlineno
        if event == "call" and late.is_set() and place not in places and "/ivjoin/stream/" in place[0]:
            places.add(place)
            late.clear()
            gc.collect()

    threading.setprofile(collect)
    try:
        for _ in range(30):
            before = len(places)
            stream = joined(threads=3)
            output: Any = generated(stream) if closed else stream
            next(output)
            circle = [output]
            circle.append(circle)  # type: ignore[arg-type]
            dropped = weakref.ref(stream)
            while not ours() and next(output, None) is not None:
                pass
            del stream, output, circle
            if dropped() is None:  # it was read to its end before a thread was seen
                continue
            late.set()
            end = time.monotonic() + 2
            while late.is_set() and ours() and time.monotonic() < end:
                time.sleep(0.001)
            found = not late.is_set()
            late.clear()
            gc.collect()
            assert dropped() is None
            wait_for_threads()
            if len(places) > 3 and (not found or len(places) == before):
                break
    finally:
        threading.setprofile(None)
    assert len(places) > 3, "the thread's own functions"


@pytest.mark.slow
def test_closing_ends_the_threads() -> None:
    stream = begun(joined(threads=3))
    stream.close()
    wait_for_threads()
    with pytest.raises(ivjoin.ProtocolError, match="was closed"):
        iter(stream)


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
@pytest.mark.parametrize("options", [{}, {"threads": 3}, SPILL, {"threads": 3, **SPILL}], ids=str)
def test_many_dropped_streams(options: dict[str, Any]) -> None:
    """Threads, files and memory stay flat. STREAMS sets how many: 100,000 take hours with threads."""
    streams = int(os.environ.get("STREAMS", "2000"))
    table = ROWS if options.get("threads") else FEW
    memory, files = [], []
    for i in range(streams):
        begun(ivjoin.band_join(table, table, **{**BAND, **options}))
        assert len(ours()) < 50
        if (i + 1) % max(1, streams // 10) == 0:
            wait_for_threads()
            memory.append(resident())
            files.append(len(os.listdir("/proc/self/fd")))
    print(f"{options}: {[m >> 20 for m in memory]} MB, {files} files", file=sys.stderr)
    assert len(set(files)) == 1
    assert max(memory[5:]) < max(memory[:5]) + (48 << 20)
