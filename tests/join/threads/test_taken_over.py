"""Threads that take over what others have left of a share: when that is worth it, and that they end in any case."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drivers.sliced import BAND, all_ended, both, rows_of

from ivjoin import SymmetricHashJoin, band_join
from ivjoin.plan.cache import planned
from ivjoin.plan.cutting import Cut, cut_of
from ivjoin.stream import jobs, shares
from ivjoin.stream.pieces import Run

pytestmark = pytest.mark.usefixtures("small_slices")


def test_a_share_whose_rest_takes_less_time_than_an_operator_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(shares, "perf_counter", lambda: now[0])
    monkeypatch.setattr(shares, "_PIECE", 100)
    monkeypatch.setattr(shares, "_LEAST", 100)
    x = np.arange(10_000)
    batch = pa.record_batch({"x": x})
    run = Run(batch, x, x, 0, 0, 0, 0, len(x))
    plan = planned(
        batch.schema, batch.schema, condition="l.x BETWEEN r.x AND r.x + 5", left_order="x", right_order="x"
    )
    cut = cut_of(plan)
    assert isinstance(cut, Cut)
    for worth, divided in ((0.0, True), (4.0, True), (4.2, False)):
        now[0] = 100.0
        work = shares.Work(shares.Share(cut, ([run], [run]), 0))
        for _ in range(40):
            assert work.next() is not None
        now[0] = 102.0  # for 3,900 of 20,000 rows, and 100 under way: 8.2 seconds are left
        assert (work.half(worth) is not None) == divided


def test_a_share_that_cannot_be_cut_is_looked_at_again_when_half_of_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "_PIECE", 10)
    monkeypatch.setattr(shares, "_LEAST", 10)
    x = np.arange(1000)
    batch = pa.record_batch({"x": x})
    plan = planned(
        batch.schema, batch.schema, condition="l.x BETWEEN r.x - 900 AND r.x", left_order="x", right_order="x"
    )
    cut = cut_of(plan)
    assert isinstance(cut, Cut)
    run = [Run(batch, x, x, 0, 0, 0, 0, 1000), Run(batch, x, x, -900, 0, 900, 0, 1000)]
    work = shares.Work(shares.Share(cut, ([run[0]], [run[1]]), -(2**62)))
    looks: list[int] = []
    split = shares.Share.split
    monkeypatch.setattr(shares.Share, "split", lambda self, end: (looks.append(work.left), split(self, end))[1])
    while work.next() is not None:
        assert work.half() is None  # so many rows would be copied
    assert 1 <= len(looks) <= 7
    assert all(later <= left // 2 for left, later in pairwise(looks))


def test_threads_that_get_no_share_end() -> None:
    """They begin before it is known that a band is too wide to be cut, or that nothing meets anything."""
    x = np.arange(3000)
    left = pa.table({"k": x % 5, "x": x})
    wide = "l.x BETWEEN r.x - 10000 AND r.x AND l.x + r.x = 7"
    for right, condition in ((left, wide), (left.slice(0, 0), BAND), (left.slice(0, 1), BAND)):
        stream = band_join(left, right, on="k", condition=condition, left_order="x", right_order="x", threads=3)
        alone = band_join(left, right, on="k", condition=condition, left_order="x", right_order="x")
        assert rows_of(stream.read_all()) == rows_of(alone.read_all())
        assert all_ended()


@pytest.mark.parametrize("at", ["main", "other"])
def test_an_operator_that_cannot_be_made_is_told_of(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = jobs._Threads._operator

    def made(self: Any) -> SymmetricHashJoin:
        if (threading.current_thread() is threading.main_thread()) == (at == "main"):
            raise MemoryError("no room for an operator")
        return make(self)

    monkeypatch.setattr(jobs._Threads, "_operator", made)
    monkeypatch.setattr(jobs, "_WORTH", 0)
    x = np.arange(6000)
    left = pa.table({"k": x % 5, "x": x})
    stream = band_join(left, left, on="k", condition=BAND, left_order="x", right_order="x", threads=2)
    with pytest.raises(MemoryError, match="no room for an operator"):
        stream.read_all()
    assert all_ended()


@pytest.mark.slow
def test_what_others_have_left_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left may seem to take no time, as the first rows meet nothing, and take all of it."""
    monkeypatch.setattr(shares, "_PIECE", 32)
    monkeypatch.setattr(shares, "_LEAST", 64)
    asked: list[float] = []
    half = shares.Work.half

    def refused(self: shares.Work, worth: float) -> shares.Work | None:
        asked.append(worth)
        return half(self, worth) if len(asked) > 4 else None

    class Slow(SymmetricHashJoin):
        def push(self, side: str, batch: pa.RecordBatch) -> Any:
            if batch.column("x")[0].as_py() >= 3000:
                time.sleep(0.004)
            return super().push(side, batch)

    monkeypatch.setattr(shares.Work, "half", refused)
    monkeypatch.setattr(jobs, "SymmetricHashJoin", Slow)
    x = np.arange(6000)
    left = pa.table({"k": x % 5, "x": x})
    both(left, left, 2, on="k", condition=BAND, left_order="x", right_order="x")
    assert len(asked) > 4
