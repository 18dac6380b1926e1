"""Micro-batches that fail and run again, without Spark: workers whose memory is old, states that were never committed.

Each turn of a bucket is played by one of three workers drawn at random. A worker remembers what its own turns left,
also those of micro-batches that failed later, and replays the turns of the others from the log; the states go back to
where they were. Whatever happens, each micro-batch that ends gives exactly the rows of the model, and
counts each late row once.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pandas as pd
from oracle import HOWS
from spark.decisions import (
    BAND,
    CLOSING,
    ROWS,
    SLACK,
    as_table,
    drawn,
    first_decided,
    kept_and_late,
    on_time,
    spec_for,
)
from spark.script import rows_of
from spark.states import Handle, Property

from ivjoin.frontier.order import Order
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.pack import packer, unpacked
from ivjoin.spark.rows.results import Results
from ivjoin.spark.spread.buckets import bucket_labels, second_key
from ivjoin.spark.state import bucket, segments
from ivjoin.spark.state import stateful as stateful_module
from ivjoin.spark.state.bucket import COUNTS
from ivjoin.spark.state.stateful import BucketFunction

BUCKETS = 3
LABELS = bucket_labels(BUCKETS)
States = dict[int, dict[str, list[Any]]]
Function = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def stateful(spec: JoinSpec) -> Function:
    """Both groups of a bucket, one call after the other, as in Spark."""
    function = BucketFunction(spec, BUCKETS, Results(most_rows=0))

    def play(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], held: Any) -> Iterator[pd.DataFrame]:
        yield from function((*key, None), frames, Property(held, "log"))
        yield from function((*key, second_key(key[0])), iter(()), Property(held, "base"))

    return play


def segmented(spec: JoinSpec) -> Function:
    def play(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], held: Any) -> Iterator[pd.DataFrame]:
        processor = segments.SegmentedBucket(spec, BUCKETS, Results(most_rows=0))
        processor.init(Handle(held))  # type: ignore[arg-type]
        return processor.handleInputRows(key, frames, None)

    return play


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_SHORT_LOG", 1500)


@pytest.mark.one_in(29)
@pytest.mark.usefixtures("short_log")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("backend", [stateful, segmented])
def test_failed_micro_batches_lose_and_double_nothing(
    how: str, backend: Callable[[JoinSpec], Function], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_for(how, 16)
    failed = 0
    opened: Counter[str] = Counter()
    rebased: Counter[bool] = Counter()
    for seed in range(4):
        rng = random.Random(seed)
        left, right = [*drawn(seed + 50), CLOSING[0]], [*drawn(seed + 1050), CLOSING[1]]
        states: States = {label: {} for label in LABELS}
        workers: list[OrderedDict[Any, Any]] = [OrderedDict() for _ in range(3)]
        got, late = [], 0
        for new in zip(left, right, strict=True):
            while True:
                if rng.random() < 0.1:
                    workers = [OrderedDict() for _ in range(3)]  # all processes are new
                # what a worker remembers of the size of a base may be old, or of another query
                metas = {of["log"][0][1] for of in states.values() if "log" in of and backend is stateful}
                bases = {label: of["base"][0] for label, of in states.items() if "base" in of and backend is stateful}
                sizes = {
                    (meta, label): (rng.choice((base[2], "another")), rng.choice((0, 700, 10**6)))
                    for meta in metas for label, base in bases.items()
                }
                monkeypatch.setattr(stateful_module, "_sizes", OrderedDict(sizes))
                tried = {label: dict(held) for label, held in states.items()}
                out, behind = micro_batch(spec, backend(spec), new, tried, workers, rng, monkeypatch, opened)
                if out is not None:
                    rebased.update(tried[label].get("base") != states[label].get("base") for label in LABELS)
                    states = tried
                    got.append(out)
                    late += behind
                    break
                failed += 1
        kept, missed = kept_and_late(left, right)
        assert got == first_decided(*kept, how), seed
        assert late == missed
    assert failed > 4
    assert opened["restored"] > 0 and opened["caught_up"] > 0
    assert min(rebased[True], rebased[False]) > 4


def micro_batch(
    spec: JoinSpec, function: Function, new: tuple[list[Any], list[Any]], states: States,
    workers: list[OrderedDict[Any, Any]], rng: random.Random, monkeypatch: pytest.MonkeyPatch, opened: Counter[str],
) -> tuple[Counter[Any] | None, int]:
    """Rows and late rows of a micro-batch, or None if one of its turns failed; earlier turns have left their traces."""
    groups = packed(spec, new, rng)
    failing = rng.choice(LABELS) if rng.random() < 0.4 else None
    out: Counter[Any] = Counter()
    late = 0
    for label in rng.sample(LABELS, len(LABELS)):
        if label not in groups:
            continue
        monkeypatch.setattr(bucket, "_kept", rng.choice(workers))
        steps = function((label,), frames_of(groups[label], rng), states[label])
        last = rng.randrange(4) if label == failing else None
        for i, frame in enumerate(steps):
            if i == last:
                steps.close()  # type: ignore[attr-defined]
                break
            for rows, counts in zip(frame["rows"], frame["counts"], strict=True):
                if rows is not None:
                    out += rows_of(pa.Table.from_batches([unpacked(rows, plan_of(spec).schema)]))
                if counts is not None:
                    said = dict(zip(COUNTS, map(int, counts.split(",")), strict=False))  # the bucket follows
                    late += said["late_rows"]
                    opened.update({name: said[name] for name in ("restored", "caught_up")})
        if label == failing:
            return None, 0
    return out, late


def packed(spec: JoinSpec, new: tuple[list[Any], list[Any]], rng: random.Random) -> dict[int, list[tuple[Any, ...]]]:
    """What the map stage sends to each bucket: each side in one or two tasks."""
    out: dict[int, list[tuple[Any, ...]]] = {}
    for side, rows in enumerate(new):
        middle = rng.randrange(len(rows) + 1)
        for task in (rows[:middle], rows[middle:]):
            if task:
                numbers = pa.array([(r[0] or 0) % BUCKETS for r in task], pa.int32())
                columns = as_table([task]).select(spec.schemas[side].names)
                whole = columns.add_column(0, "bucket", numbers).to_batches()
                for batch in packer(spec, side, LABELS)(iter(whole)):
                    for row in batch.to_pylist():
                        out.setdefault(row["label"], []).append((row["side"], row["rows"], row["seen"]))
    return out


def frames_of(group: list[tuple[Any, ...]], rng: random.Random) -> Iterator[pd.DataFrame]:
    """A group's rows in any order, in one frame or two."""
    mixed = rng.sample(group, len(group))
    middle = rng.randrange(len(mixed) + 1)
    for part in (mixed[:middle], mixed[middle:]):
        if part:
            yield pd.DataFrame(part, columns=["side", "rows", "seen"])


NAMES = ["k", "t", "v", "t_right", "v_right"]
CHANGES: dict[str, dict[str, Any]] = {
    "slack": {"left_order": Order("t", slack=9)},
    "spelling": {"condition": "r.t >= l.t AND l.t + 3 >= r.t"},
    "columns": {"left": pa.schema(list(ROWS)[::-1]), "right": pa.schema([ROWS.field(i) for i in (1, 0, 2)])},
    "suffix": {"suffix": "_of_r"}, "on_late": {"on_late": "raise"}, "on_late, to join": {"on_late": "join"},
    "batch_size": {"batch_size": 1},
}


@pytest.mark.usefixtures("short_log")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("backend", [stateful, segmented])
def test_a_changed_join_goes_on_from_the_state(
    change: str, backend: Callable[[JoinSpec], Function], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fourth micro-batch is the first one of the changed join, whose workers may remember the old operators."""
    how, seed = "full", 23  # rows that only the old slack promised not to come, and rows that the new one lets in
    before = {"left": ROWS, "right": ROWS, "condition": BAND, "left_order": Order("t", slack=SLACK), "on_late": "drop"}
    specs = [
        join_spec(a.pop("left"), a.pop("right"), on="k", how=how, right_order="t", **a)
        for a in (dict(before), before | CHANGES[change])
    ]
    left, right = [*drawn(seed), CLOSING[0]], [*drawn(seed + 1000), CLOSING[1]]
    kept, missed = kept_and_late(left, right)
    if "on_late" in CHANGES[change]:
        left, right, missed = kept[0], kept[1], 0
    if change == "slack":
        promised = max(t for rows in left[:3] for _, t, _ in rows if t is not None) - SLACK
        later = on_time(left, 9)[3:]
        late = [[r for r in rows if r[1] is not None and r[1] < promised] for rows in later]
        assert sum(map(len, late)) > 0
        later = [[r for r in rows if r not in out] for rows, out in zip(later, late, strict=True)]
        assert later != kept[0][3:]
        kept = [*kept[0][:3], *later], kept[1]
        missed = sum(map(len, (*left, *right))) - sum(map(len, (*kept[0], *kept[1])))
    rng, opened = random.Random(seed), Counter[str]()
    states: States = {label: {} for label in LABELS}
    workers: list[OrderedDict[Any, Any]] = [OrderedDict() for _ in range(2)]
    got, late_rows = [], 0
    for b, new in enumerate(zip(left, right, strict=True)):
        spec = specs[b >= 3]
        out, late_now = None, 0
        while out is None:  # a micro-batch that failed runs again
            tried = {label: dict(held) for label, held in states.items()}
            out, late_now = micro_batch(spec, backend(spec), new, tried, workers, rng, monkeypatch, opened)
        states, late_rows = tried, late_rows + late_now
        names = [name.replace("_of_r", "_right") for name in plan_of(spec).schema.names]
        at = [names.index(name) for name in NAMES]
        got.append(Counter({tuple(row[i] for i in at): n for row, n in out.items()}))
    want = first_decided(*kept, how)
    assert sum(got, Counter()) == sum(want, Counter())
    assert late_rows == missed
    assert change == "slack" or got == want
