"""Threads that join slices: one order, errors in the right place, and a clean end whenever the reader stops."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import EvaluationError, ProtocolError, band_join
from ivjoin.stream import workers
from ivjoin.stream.tables import table_join
from ivjoin.stream.threads import sliced_stream
from ivjoin.stream.workers import joined

THREADS = [1, 2, 3, 16]


def batch(number: int, part: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [number], "part": [part]})


def joins(bad: int | None = None, error: type[BaseException] = ValueError, parts: int = 3) -> Callable[[], Callable]:
    def make() -> Callable[[int], Iterator[pa.RecordBatch]]:
        rng = random.Random(threading.get_ident())

        def join(number: int) -> Iterator[pa.RecordBatch]:
            for part in range(parts if number % 3 else 0):
                time.sleep(rng.random() * 0.002)
                yield batch(number, part)
            if number == bad:
                raise error(str(number))

        return join

    return make


def numbers(out: Iterator[tuple[int, pa.RecordBatch]]) -> list[tuple[int, int]]:
    got = []
    for number, one in out:
        assert one["n"][0].as_py() == number
        got.append((number, one["part"][0].as_py()))
    return got


def no_threads() -> bool:
    """Whether all threads that join end soon."""
    until = time.monotonic() + 5
    while any(t.name == "ivjoin slice" for t in threading.enumerate()):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("threads", THREADS)
def test_output_comes_in_the_order_of_the_tasks(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    want = [(n, part) for n in range(20) for part in range(3 if n % 3 else 0)]
    assert numbers(joined(range(20), joins(), threads)) == want
    monkeypatch.setattr(workers, "_MOST_BYTES", 0)  # each batch waits for the reader
    assert numbers(joined(range(20), joins(), threads)) == want
    assert numbers(joined([], joins(), threads)) == []
    assert no_threads()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("threads", THREADS)
def test_an_error_comes_after_the_output_of_the_tasks_before(threads: int, error: type[BaseException]) -> None:
    got = []
    with pytest.raises(error):  # noqa: PT012
        for number, _ in joined(range(12), joins(5, error), threads):
            got.append(number)
    assert got == sorted(got)
    if error is ValueError:
        assert got == [n for n in range(6) if n % 3 for _ in range(3)]
    assert no_threads()


@pytest.mark.one_in(11)
@pytest.mark.parametrize("threads", THREADS)
def test_threads_end_when_the_reader_stops(threads: int) -> None:
    for take in (0, 1, 4):
        out = joined(range(50), joins(), threads)
        for _ in range(take):
            next(out)
        out.close()
        assert no_threads()
    out = joined(range(50), joins(), threads)
    next(out)
    del out
    gc.collect()
    assert no_threads()


def test_a_condition_that_errs_is_raised_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_join, "_OWN_ROWS", 2000)
    x = np.arange(40_000)
    left = pa.table({"k": x % 10, "x": x, "v": np.where(x == 20_000, 0, 1)})
    counts = set()
    for threads in (1, 2, 3):
        stream = band_join(
            left, left, on="k", condition="l.x BETWEEN r.x - 20 AND r.x + 20 AND r.v / l.v >= 0", left_order="x",
            right_order="x",
        threads=threads,
        )
        rows = 0
        with pytest.raises(EvaluationError):  # noqa: PT012
            for out in stream:
                rows += out.num_rows
        counts.add(rows)
        assert no_threads()
    assert len(counts) == 1
    assert counts.pop() > 10_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("given", ["tables", "streams"])
@pytest.mark.parametrize("threads", [2, 3, 16])
def test_a_forked_process_has_no_threads_and_is_refused(
    threads: int, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_join, "_OWN_ROWS", 2000)
    monkeypatch.setattr(sliced_stream, "_SLICE_ROWS", 4000)
    x = np.arange(40_000)
    table = pa.table({"k": x % 10, "x": x})
    inputs = [table if given == "tables" else table.to_reader(max_chunksize=1000) for _ in range(2)]
    stream = band_join(
        *inputs, on="k", condition="l.x BETWEEN r.x - 20 AND r.x + 20", left_order="x", right_order="x",
        threads=threads,
    )
    rows = next(stream).num_rows
    child = os.fork()
    if not child:
        try:
            list(stream)
        except ProtocolError as e:
            os._exit(0 if "forked" in str(e) else 3)
        except BaseException:
            os._exit(2)
        os._exit(1)
    until = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
        time.sleep(0.01)
    if not done[0]:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done == (child, 0)
    assert rows + sum(b.num_rows for b in stream) == sum(40_000 - abs(d) for d in (-20, -10, 0, 10, 20))
    assert no_threads()
