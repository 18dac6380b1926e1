"""Stop, crash and start again: every row exactly once, state as it was, and no restart with another join."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from spark.backends import BACKENDS, store_for
from spark.every_type import DDL, VALUES, select_list
from spark.killed import committed, kill_once, started
from spark.recovery import NUMBERED, band, expected, rows
from spark.script import Script, StreamFailed, rows_of
from spark.tiers import short

from ivjoin.frontier.order import Order

pytestmark = pytest.mark.spark


@short
def test_stop_and_start_goes_on_where_it_stopped(spark: Any, tmp_path: Path) -> None:
    script = Script(spark, tmp_path, band, NUMBERED, NUMBERED)
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    total: Counter[Any] = Counter()
    for batch in range(3):
        left += rows(batch)
        right += [r for r in rows(batch) if r[0] != 4]
        total += script.add(left=rows(batch), right=[r for r in rows(batch) if r[0] != 4]).run()
        assert total == expected(left, right, max(t for _, t in right))
        counts = script.counts()
        assert counts[-1]["state_rows"] < 15
        assert counts[-1]["bytes_written"] > 0
    states = spark.read.format("statestore").load(str(tmp_path / "checkpoint"))
    stored = [json.loads(r.meta) for r in states.selectExpr("value.groupState.meta").collect()]
    assert [meta["buckets"] for meta in stored] == ["3"] * 6  # a log and a base each


def test_another_join_on_the_same_checkpoint_is_refused(spark: Any, tmp_path: Path) -> None:
    script = Script(spark, tmp_path, band, NUMBERED, NUMBERED)
    script.add(left=rows(0), right=rows(0)).run()
    script.add(left=rows(1), right=rows(1))
    others: list[tuple[dict[str, Any], str]] = [
        ({"condition": "l.t BETWEEN r.t - 4 AND r.t"}, "condition was .*r.t - 3.* and is now .*r.t - 4"),
        ({"buckets": 5}, "buckets was '3' and is now '5'"),
        ({"buckets": 17}, "buckets was '3' and is now '17'"),  # of one group each
        ({"how": "inner"}, "how was 'left' and is now 'inner'"),
        ({"right_order": None, "allow_unbounded": True}, "right_order was 'r.t' and is now 'none'"),
    ]
    for changed, message in others:
        script.join = lambda a, b, changed=changed: band(a, b, **changed)
        with pytest.raises(StreamFailed, match=message):
            script.run()
    script.join = band
    assert len(script.run()) == 20  # the refused starts have spoilt nothing


def test_a_restart_keeps_the_number_of_buckets_and_takes_what_may_change(spark: Any, tmp_path: Path) -> None:
    script = Script(spark, tmp_path, lambda a, b: band(a, b, buckets=None), NUMBERED, NUMBERED)
    script.add(left=rows(0), right=rows(0)).run()
    script.join = lambda a, b: band(
        a, b, buckets=None, left_order=Order("t", slack=2), condition="r.t >= l.t AND l.t + 3 >= r.t"
    )
    script.add(left=rows(1), right=rows(1))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 8)
    try:
        script.run()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert script.seen == expected(rows(0) + rows(1), rows(0) + rows(1), 40)
    assert {of["bucket"] for counts in script.counts() for of in counts["buckets"]} == set(range(int(before)))


def wrapped(monkeypatch: pytest.MonkeyPatch, wrap: Any) -> None:
    """Puts ``wrap(function, key, frames, state)`` in the place of the function that Spark calls for a bucket."""
    from ivjoin.spark.state import stateful

    plain = stateful.BucketFunction

    def other(*given: Any) -> Any:
        inner = plain(*given)

        def join_bucket(key: Any, frames: Any, state: Any) -> Any:
            yield from wrap(inner, key, frames, state)

        return join_bucket

    monkeypatch.setattr(stateful, "BucketFunction", other)


def test_workers_that_exit_lose_and_double_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path)
    when = dict(zip(random.Random(3).sample(range(16), 4), ["first", "half way", "last", "last"], strict=True))

    def dying(inner: Any, key: Any, frames: Any, state: Any) -> Any:
        number = 0
        while True:  # the calls of all workers are numbered, each number is taken once
            try:
                os.close(os.open(f"{folder}/call-{number}", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                number += 1
        if when.get(number) == "first":
            os._exit(1)
        for frame in inner(key, frames, state):
            yield frame
            if when.get(number) == "half way":
                os._exit(1)
        if when.get(number) == "last":  # the operator has moved on and the state was set, but Spark does not have it
            os._exit(1)

    wrapped(monkeypatch, dying)
    script = Script(spark, tmp_path, band, NUMBERED, NUMBERED)
    left, right = [r for b in range(4) for r in rows(b)], [r for b in range(4) for r in rows(b) if r[0] != 4]
    for b in range(4):
        script.add(left=rows(b), right=[r for r in rows(b) if r[0] != 4])
    failures = 0
    for _ in range(6):
        try:
            script.run()
            break
        except StreamFailed:
            failures += 1
    assert failures >= 1
    assert all((tmp_path / f"call-{number}").exists() for number in when)
    assert script.output() == expected(left, right, max(t for _, t in right))


def test_state_of_a_newer_format_is_refused(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Newer:
        """A state to which a newer version writes."""

        def __init__(self, state: Any) -> None:
            self.state, self.exists, self.get = state, state.exists, None

        def update(self, value: Any) -> None:
            self.state.update((value[0] + 1, *value[1:]))

    script = Script(spark, tmp_path, band, NUMBERED, NUMBERED)
    with monkeypatch.context() as newer:
        wrapped(newer, lambda inner, key, frames, state: inner(key, frames, Newer(state)))
        script.add(left=rows(0), right=rows(0)).run()
    script.add(left=rows(1), right=rows(1))
    with pytest.raises(StreamFailed, match=r"holds band_join state of format \d+; this ivjoin reads format .*upgrade"):
        script.run()


QUERY = """
from spark.backends import store_for
from spark.recovery import NUMBERED, band
with store_for(s, {backend!r}):
    Script(s, folder, lambda a, b: band(a, b, backend={backend!r}), NUMBERED, NUMBERED).run()
"""


@pytest.mark.parametrize("backend", [BACKENDS[0], pytest.param(BACKENDS[1], marks=pytest.mark.soak)])
def test_kill_of_the_whole_driver_in_mid_batch(spark: Any, tmp_path: Path, backend: str) -> None:
    with store_for(spark, backend):
        script = Script(spark, tmp_path, lambda a, b: band(a, b, backend=backend), NUMBERED, NUMBERED)
        batches = 6
        left = [r for b in range(batches) for r in rows(b)]
        right = [(k, t) for k, t in left if k != 4]
        for b in range(batches):
            script.add(left=rows(b), right=[(k, t) for k, t in rows(b) if k != 4])
        kill_once(lambda: committed(tmp_path) >= 2, started(tmp_path, QUERY.format(backend=backend)))
        assert 2 <= committed(tmp_path) < batches, "the query was to be killed while it ran"
        everything = script.run()
        assert everything == expected(left, right, max(t for _, t in right))
        assert sum(everything.values()) > 16 * batches


def test_every_type_travels_through_the_state(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The left rows come in one query, their partners in the next, whose workers remember nothing."""
    from ivjoin.spark import metrics

    def forgetful(inner: Any, key: Any, frames: Any, state: Any) -> Any:
        from ivjoin.spark.state import bucket

        bucket._kept.clear()
        yield from inner(key, frames, state)

    wrapped(monkeypatch, forgetful)
    frame = spark.range(12).selectExpr(*select_list())
    empty = spark.range(0).selectExpr("id AS k", "id AS o", "id AS extra")
    frame.coalesce(1).write.parquet(str(tmp_path / "left"))
    empty.coalesce(1).write.parquet(str(tmp_path / "right"))
    left = spark.readStream.schema(DDL).parquet(str(tmp_path / "left"))
    right = spark.readStream.schema(empty.schema).parquet(str(tmp_path / "right"))
    out = left.band_join(right, on="k", condition="l.o BETWEEN r.o AND r.o", left_order="o", right_order="o", buckets=2)
    out = out.select(*VALUES)
    assert out.schema.simpleString() == frame.schema.simpleString()

    def run() -> tuple[Any, list[dict[str, Any]]]:
        writer = out.writeStream.format("parquet").option("path", str(tmp_path / "out")).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        got = spark.read.schema(out.schema).parquet(str(tmp_path / "out"))
        return rows_of(got.toArrow()), metrics(query)

    rows_out, counts = run()
    assert not rows_out
    assert counts[-1]["state_rows"] == 12
    spark.range(12).selectExpr("id % 3 AS k", "id AS o", "id AS extra").coalesce(1).write.mode("append").parquet(
        str(tmp_path / "right")
    )
    rows_out, counts = run()
    assert rows_out == rows_of(frame.toArrow())
    assert counts[-1]["restored"] == 2
