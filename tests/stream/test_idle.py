"""``idle_timeout=``: an input that is silent for a while does not hold the other one back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from queue import Queue
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pyarrow as pa
import pytest

import ivjoin

SCHEMA = pa.schema({"t": pa.int64()})
BAND: dict[str, Any] = {
    "condition": "l.t BETWEEN r.t - 5 AND r.t + 5", "left_order": "t", "right_order": "t", "batch_size": 1,
}


class Pipe:
    """An input that gives what is put into it, until None."""

    def __init__(self, *first: int) -> None:
        self.queue: Queue[pa.RecordBatch | Exception | None] = Queue()
        for t in first:
            self.put(t)

    def put(self, *values: int) -> None:
        self.queue.put(pa.record_batch({"t": pa.array(values, pa.int64())}))

    def reader(self) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            while (found := self.queue.get()) is not None:
                if isinstance(found, Exception):
                    raise found
                yield found

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())


class Taken(Thread):
    """Takes the output of a stream in a thread."""

    def __init__(self, stream: ivjoin.JoinStream) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.rows: list[tuple[Any, ...]] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for batch in self.stream:
                self.rows += [tuple(r.values()) for r in batch.to_pylist()]
        except BaseException as e:
            self.error = e

    def wait(self, rows: int) -> list[tuple[Any, ...]]:
        end = time.monotonic() + 20
        while len(self.rows) < rows and self.is_alive() and time.monotonic() < end:
            time.sleep(0.005)
        return sorted(self.rows, key=str)


def test_a_silent_input_does_not_hold_matches_back() -> None:
    left, right = Pipe(10), Pipe(10)
    taken = Taken(ivjoin.band_join(left.reader(), right.reader(), idle_timeout="20ms", **BAND))
    assert taken.wait(1) == [(10, 10)]
    for t in range(11, 14):  # the right input is silent
        left.put(t)
    assert taken.wait(4) == [(t, 10) for t in range(10, 14)]
    right.put(14)
    assert taken.wait(8)[1::2] == [(t, 14) for t in range(10, 14)]
    left.queue.put(None)
    right.queue.put(None)
    taken.join(20)
    assert taken.error is None
    assert not taken.is_alive()
    assert len(taken.rows) == 8


def test_without_a_timeout_the_join_waits() -> None:
    left, right = Pipe(10), Pipe(10)
    taken = Taken(ivjoin.band_join(left.reader(), right.reader(), **BAND))
    assert taken.wait(1) == [(10, 10)]
    for t in range(11, 20):
        left.put(t)
    time.sleep(0.15)
    assert len(taken.rows) < 6
    for pipe in (left, right):
        pipe.queue.put(None)
    taken.join(20)
    assert len(taken.rows) == 6


@pytest.mark.parametrize("advance", [False, True])
def test_a_silent_input_may_follow_the_other_one(advance: bool) -> None:
    left, right = Pipe(10), Pipe(10)
    late: list[tuple[str, list[int]]] = []
    stream = ivjoin.band_join(
        left.reader(), right.reader(), how="left", idle_timeout=timedelta(milliseconds=20),
        idle="advance" if advance else "wait", on_late=lambda side, rows: late.append((side, rows["t"].to_pylist())),
        **BAND,
    )
    taken = Taken(stream)
    for t in (30, 50, 70):
        left.put(t)
    if advance:
        assert taken.wait(3) == [(10, 10), (30, None), (50, None)]
    else:
        time.sleep(0.3)
        assert taken.rows == [(10, 10)]
    right.put(31)
    right.put(71)
    assert taken.wait(4)
    for pipe in (left, right):
        pipe.queue.put(None)
    taken.join(20)
    matched = [] if advance else [(30, 31)]
    assert sorted(taken.rows, key=str) == sorted([(10, 10), (50, None), (70, 71), *(matched or [(30, None)])], key=str)
    assert late == ([("right", [31])] if advance else [])
    assert stream.metrics.right_late_rows == int(advance)


@pytest.mark.parametrize("advance", [False, True])
@pytest.mark.parametrize("which", ["asof", "window"])
def test_lookups_of_a_silent_right_input(which: str, advance: bool) -> None:
    left, right = Pipe(10), Pipe(5)
    late: list[tuple[str, list[int]]] = []
    options: dict[str, Any] = {
        "idle_timeout": "20ms", "idle": "advance" if advance else "wait", "batch_size": 1,
        "on_late": lambda side, rows: late.append((side, rows["t"].to_pylist())),
    }
    inputs = left.reader(), right.reader()
    stream = ivjoin.asof_join(*inputs, on="t", **options) if which == "asof" else ivjoin.window_join(
        *inputs, condition="r.t BETWEEN l.t - 20 AND l.t", aggregate={"m": "max(r.t)"}, left_order="t", right_order="t",
        **options,
    )
    taken = Taken(stream)
    for t in (20, 30):
        left.put(t)
    if advance:
        assert taken.wait(2)[:2] == [(10, 5), (20, 5)]
    else:
        time.sleep(0.3)
        assert taken.rows == []
    right.put(15)
    right.put(40)
    for pipe in (left, right):
        pipe.queue.put(None)
    taken.join(20)
    assert taken.error is None
    seen = 5 if advance else 15
    assert sorted(taken.rows) == [(10, 5), (20, seen), (30, seen if which == "asof" or not advance else None)]
    assert late == ([("right", [15])] if advance else [])


def test_errors_of_an_input_are_raised_and_threads_end() -> None:
    left, right = Pipe(1), Pipe(1)
    right.queue.put(OSError("the pipe is broken"))
    taken = Taken(ivjoin.band_join(left.reader(), right.reader(), idle_timeout=0.02, **BAND))
    taken.join(20)
    assert "the pipe is broken" in str(taken.error)
    left.queue.put(None)  # the thread that waits for it ends
    end = time.monotonic() + 20
    while (found := _reading()) and time.monotonic() < end:
        time.sleep(0.005)
    assert not found


def _reading() -> list[str]:
    return [t.name for t in enumerate_threads() if t.name.startswith("ivjoin reading")]


def test_tables_and_random_pieces_give_the_same_rows() -> None:
    table = pa.table({"t": pa.array(range(200), pa.int64())})
    expected = ivjoin.band_join(table, table, **BAND | {"batch_size": 999}).read_all().num_rows
    pieces = [iter(table.to_batches(max_chunksize=n)) for n in (7, 13)]
    assert ivjoin.band_join(*pieces, idle_timeout="1s", **BAND | {"batch_size": 999}).read_all().num_rows == expected
    assert ivjoin.band_join(table, table, idle_timeout="1s", **BAND).read_all().num_rows == expected


@pytest.mark.parametrize("options, said", [
    ({"idle_timeout": "soon"}, "idle_timeout is 'soon'; expected a time above zero"),
    ({"idle_timeout": 0}, "idle_timeout is 0"), ({"idle_timeout": "5s", "idle": "skip"}, "idle is 'skip'"),
    ({"idle": "advance"}, "without idle_timeout="),
])  # fmt: skip
def test_bad_options(options: dict[str, Any], said: str) -> None:
    table = pa.table({"t": [1]})
    with pytest.raises(ivjoin.OptionError, match=said):
        ivjoin.band_join(table, table, condition="l.t = r.t", **options)
