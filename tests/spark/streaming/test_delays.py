"""Production delay: by a clock that is turned by hand, through the stages of a join of streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.frontier.order import Order
from ivjoin.plan.question import join_spec
from ivjoin.spark.rows import results
from ivjoin.spark.rows.pack import packer
from ivjoin.spark.rows.results import COUNTS, Arrived, Delay
from ivjoin.spark.state.bucket import Turn, arrivals, new_operator, play

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
BUCKETS = 2


class Clock:
    """In place of ``time``, in milliseconds."""

    def __init__(self) -> None:
        self.ms = 0

    def time_ns(self) -> int:
        return self.ms * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(results, "time", made)
    return made


def spec(how: str = "inner") -> Any:
    return join_spec(
        SCHEMA, SCHEMA, on=["k"], condition="l.t BETWEEN r.t - 5 AND r.t + 5", how=how,
        left_order=(Order("t"),), right_order=(Order("t"),),
    )  # fmt: skip


def packed(side: int, came: list[tuple[int, list[int]]], clock: Clock) -> pa.Table:
    """What a map task hands on of rows of key 1 with these values of t, each batch at its time."""

    def batches() -> Iterator[pa.RecordBatch]:
        for ms, times in came:
            clock.ms = ms
            ones = np.ones(len(times), np.int64)
            given = [ones.astype(np.int32), ones, np.array(times, np.int64)]
            yield pa.record_batch([pa.array(c) for c in given], names=["bucket", *SCHEMA.names])

    return pa.Table.from_batches(list(packer(spec(), side, range(BUCKETS))(batches())))


def turn(op: Any, parts: list[pa.Table], label: int, clock: Clock, ms: int, how: str = "inner") -> dict[str, int]:
    """A bucket's turn at some time, its output handed on a millisecond later; what it counts."""
    frame = pa.concat_tables(parts).to_pandas()
    counted = Turn(op.metrics.as_dict())
    came = arrivals(spec(how), iter([frame[frame["label"] == label]]))
    clock.ms = ms
    for _ in counted.delay.counted(play(op, spec(how), came), came.arrived):
        clock.ms += 1
    return dict(zip((*COUNTS, "bucket"), map(int, counted.counts(op, 0, label).split(",")), strict=True))


def test_pairs_wait_from_the_later_row_to_the_output(clock: Clock) -> None:
    op = new_operator(spec())
    first = turn(op, [packed(0, [(1000, [10, 20]), (1400, [30, 40])], clock)], 1, clock, 2000)
    assert (first["rows_out"], first["delay_us"], first["peak_delay_us"]) == (0, 0, 0)
    # rows of the first micro-batch have waited 9 s, which is nobody's delay
    right = packed(1, [(10_000, [12, 22, 32]), (10_800, [42])], clock)
    second = turn(op, [right], 1, clock, 11_000)
    assert second["rows_out"] == 4
    assert second["peak_delay_us"] == 1_001_000
    assert second["delay_us"] == 4 * (11_001_000 - (3 * 10_000_000 + 10_800_000) // 4)


def test_buckets_hear_of_all_tasks_by_their_ticks(clock: Clock) -> None:
    """A row that nothing of its own bucket decides, but the frontier that another task has moved."""
    op = new_operator(spec("left"))
    left = packed(0, [(1000, [10])], clock)
    assert turn(op, [left], 1, clock, 1500, "left")["rows_out"] == 0
    ticks = [packed(s, [(3000 + s, [900])], clock).slice(1) for s in (0, 1)]
    out = turn(op, ticks, 1, clock, 4000, "left")
    assert (out["rows_out"], out["peak_delay_us"]) == (1, 1_001_000)


def test_clocks_that_differ_give_no_negative_delay(clock: Clock) -> None:
    came = Arrived()
    clock.ms = 5000
    came.show(3)
    clock.ms = 4000
    counted = Delay()
    batch = pa.record_batch({"a": [1, 2]})
    assert list(counted.counted(iter([batch]), came)) == [batch]
    assert (counted.rows_out, counted.counts) == (2, (0, 0))


def test_arrivals_of_tasks_add_up_in_any_order(clock: Clock) -> None:
    said = []
    for ms, rows in ((7, 2), (3, 1), (9, 4)):
        clock.ms = ms
        came = Arrived()
        came.show(rows)
        said.append(came.as_json)
    for order in (said, said[::-1]):
        whole = Arrived()
        for one in [*order, Arrived().as_json]:
            whole.merge(one)
        assert whole.as_json == [7, 3000, 1000 * (2 * 7 + 3 + 4 * 9)]
