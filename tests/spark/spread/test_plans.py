"""Plans that follow a stream, by the stages themselves: random rows, re-plans, replays and restarts, without Spark."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.errors import IvjoinError, SnapshotError
from ivjoin.files.atomic import FileError
from ivjoin.frontier.order import Order
from ivjoin.plan.question import join_spec
from ivjoin.routing import replanning as deciding
from ivjoin.routing.along import PlanList
from ivjoin.routing.endless import EndlessPlan
from ivjoin.routing.replanning import Counts, Note
from ivjoin.spark.rows import results
from ivjoin.spark.rows.pack import packer
from ivjoin.spark.spread import replanning
from ivjoin.spark.spread.replanning import PlanFile, PlanFiles, StreamPlans, checked_folder, live_plans
from ivjoin.spark.state.bucket import Keep, arrivals, new_operator, play
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread, stream_spread

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
Row = tuple[int | None, int | None, int]
Rows = tuple[list[Row], list[Row]]


def kept_rows(keep: Keep | None, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch if keep is None else keep(batch)


class Stream:
    """A query by its stages: map tasks, buckets, and the planner behind them."""

    def __init__(self, spec: Any, spread: StreamSpread, buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spec, self.spread, self.buckets = spec, spread, buckets
        self.run, self.keep = spread.run(spec), spread.owner(spec)
        self.ops = {label: new_operator(self.run) for label in range(buckets)}
        self.said, self.batch = "", 0
        self.out: Counter[Any] = Counter()
        self.rows_in: list[list[int]] = []
        self.patch = monkeypatch
        # what ticks say of the clock is for counts alone
        monkeypatch.setattr(results, "time", SimpleNamespace(time_ns=lambda: 0))

    def packed(self, rows: Rows) -> pa.Table:
        out = []
        for side in (0, 1):
            for part in (rows[side][::2], rows[side][1::2]):
                columns = list(zip(*part, strict=True)) if part else [[], [], []]
                batch = pa.record_batch([pa.array(c, pa.int64()) for c in columns], schema=SCHEMA)
                given = pa.record_batch([pa.array(np.zeros(len(part), np.int32)), *batch.columns],
                                        names=["bucket", *SCHEMA.names])  # fmt: skip
                out += packer(self.spec, side, range(self.buckets), route=self.spread.plans and self.spread.plans.way)(
                    iter([given])
                )
        return pa.Table.from_batches(out) if out else None

    def step(self, rows: Rows, fails: bool = False) -> None:
        """A micro-batch; one that fails leaves only the plan file behind, and is done again."""
        self.patch.setattr(replanning, "_query_and_batch", lambda: ("a query", self.batch))
        packed = self.packed(rows)
        if packed is None:
            self.batch += 1
            return
        frame = packed.to_pandas()
        came = {label: arrivals(self.run, iter([frame[frame["label"] == label]])) for label in self.ops}
        assert all(not c.heard for label, c in came.items() if label)
        said = self.said
        if self.spread.plans is not None:
            first = came[0]
            said = self.spread.plans.planned(self.said, first.heard, [s.edges for s in first.seen])
        if fails:
            again = self.packed(rows)
            assert again is not None and again.sort_by("label").equals(packed.sort_by("label"))
            self.step(rows)
            assert self.said == said, "a plan is a function of the rows"
            return
        self.rows_in.append([])
        for label, op in self.ops.items():
            before = op.metrics.left_rows_in + op.metrics.right_rows_in
            for batch in play(op, self.run, came[label], self.keep):
                self.take(batch)
            self.rows_in[-1].append(op.metrics.left_rows_in + op.metrics.right_rows_in - before)
        self.said = said
        self.batch += 1

    def take(self, batch: pa.RecordBatch) -> None:
        self.out.update(tuple(row.values()) for row in batch.to_pylist())

    def finish(self) -> Counter[Any]:
        for op in self.ops.values():
            for batch in op.finish():
                self.take(kept_rows(self.keep, batch))
        return self.out


def drawn(rng: random.Random, slack: int) -> list[Rows]:
    """Micro-batches whose heavy keys change over time."""
    out: list[Rows] = []
    at, hot, number = [rng.randint(-20, 20)] * 2, rng.randrange(4), 0
    for _ in range(rng.randint(4, 9)):
        if rng.random() < 0.3:
            hot = rng.randrange(4)
        both: list[list[Row]] = [[], []]
        for s in (0, 1):
            for _ in range(rng.choice([0, 3, 20, 40])):
                at[s] += rng.choice([0, 0, 1, 1, 2, 7])
                k = hot if rng.random() < 0.7 else rng.choice([None, 0, 1, 2, 3])
                t = None if rng.random() < 0.03 else at[s] - rng.randint(0, slack)
                both[s].append((k, t, number))
                number += 1
        out.append((both[0], both[1]))
    if rng.random() < 0.15:  # where no sum of the condition overflows
        for place, far in ((0, -(2**63) + 25), (-1, 2**63 - 40)):
            out.insert(place if place == 0 else len(out), (
                [(hot, far + rng.randint(0, 3), number + 1)], [(hot, far + rng.randint(0, 3), number + 2)]
            ))  # fmt: skip
            number += 2
    return out


def random_plans(rng: random.Random) -> Any:
    """A planner of moods, in the place of ``next_plans``."""

    def next_plans(plans: PlanList, note: Note, buckets: int, pinned: Any = ()) -> PlanList | None:
        newest = plans.plans[-1]
        assert isinstance(newest, EndlessPlan)
        # the same mood where a micro-batch is done again
        mood = random.Random(f"{note.text()} {rng.getstate()[1][0]}")
        if mood.random() < 0.4:
            return None
        known = sorted(note.keys) if newest.keyed else []
        hot = np.array(sorted(mood.sample(known, mood.randint(0, len(known)))), dtype=np.uint64)
        grids = deciding._grids(newest, 1.0 + mood.random() * 9, 1.0 + mood.random() * 9, buckets)
        grid = mood.choice([None, *grids])
        gone = deciding.passed(plans, note.seen)
        rest = plans if gone is None else plans.without_dead(gone)
        width = mood.choice([8, 11, 24, 64])
        start = rest.next_start(note.edge)
        if start is None:
            return None
        used = mood.choice([None, mood.randint(1, buckets)])
        plan = EndlessPlan(newest.reader, newest.axis, newest.both, hot, width, grid, used)
        return rest.add(plan, note.edge, start + mood.randint(0, 4))

    return next_plans


def spec_of(rng: random.Random, how: str, slack: int, late: str, keyed: bool, falling: bool) -> tuple[Any, int, int]:
    low = rng.randint(-6, 4)
    high = low + rng.randint(0, 8)
    sql = f"l.t >= r.t + ({low}) AND l.t <= r.t + ({high})"
    order = (Order("t", slack=slack, descending=falling),)
    spec = join_spec(
        SCHEMA, SCHEMA, on=["k"] if keyed else None, condition=sql, how=how, left_order=order, right_order=order,
        on_late=late,
    )
    return spec, low, high


def one_run(seed: int, how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A random run; how many plan files it left."""
    rng = random.Random(f"{how} {seed}")
    slack, keyed, buckets = rng.randint(0, 5), rng.random() < 0.7, rng.randint(2, 5)
    late = rng.choice(["drop", "join", "raise"])
    if rng.random() < 0.3:
        slack = 0
    falling = rng.random() < 0.3
    spec, low, high = spec_of(rng, how, slack, late, keyed, falling)
    batches = drawn(rng, slack + (3 if late != "raise" and rng.random() < 0.3 else 0))
    if falling:
        batches = [([(k, None if t is None else -t, v) for k, t, v in a], [(k, None if t is None else -t, v)
                    for k, t, v in b]) for a, b in batches]  # fmt: skip
    hot = [rng.randrange(4)] if keyed and rng.random() < 0.3 else None
    where = folder / f"{how} {seed}"
    spread = stream_spread(spec, buckets, "auto", hot, str(where))
    assert spread.plans is not None, spread.why
    monkeypatch.setattr(replanning, "next_plans", random_plans(rng) if rng.random() < 0.7 else deciding.next_plans)
    stream = Stream(spec, spread, buckets, monkeypatch)
    plain = Stream(spec, UNSPREAD, 1, monkeypatch)
    for rows in batches:
        stream.step(rows, fails=rng.random() < 0.2)
        plain.step(rows)
    got, want = stream.finish(), plain.finish()
    if late == "raise":

        def met(a: Row, b: Row) -> bool:
            return a[1] is not None and b[1] is not None and low <= a[1] - b[1] <= high

        keys: Any = [(lambda r: r[0], lambda r: r[0], False)] if keyed else []
        sides = [[r for b in batches for r in b[s]] for s in (0, 1)]
        want = oracle.join(sides[0], sides[1], how, keys, met, merged=[(0, 0)] if keyed else [], widths=(3, 3))
    assert got == want, (seed, how, late, got - want, want - got)
    return len(list(where.glob("plan-*.json")))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A planner that decides by a few rows."""
    monkeypatch.setattr(deciding, "_FEWEST_ROWS", 10)
    monkeypatch.setattr(deciding, "_FEWEST_OF_KEY", 3)
    return monkeypatch


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", oracle.HOWS)
def test_each_row_once_over_plans_that_change(how: str, tmp_path: Path, often: pytest.MonkeyPatch) -> None:
    assert sum(one_run(seed, how, tmp_path, often) for seed in range(6)) > 9


@pytest.mark.soak
@pytest.mark.parametrize("how", oracle.HOWS)
def test_each_row_once_at_length(how: str, tmp_path: Path, often: pytest.MonkeyPatch) -> None:
    assert sum(one_run(seed, how, tmp_path, often) for seed in range(1000, 1375)) > 600


# -- what the planner decides ------------------------------------------------------------------------------------------


def steady(rng: random.Random, n: int, begin: int, length: int, heavy: float) -> list[Row]:
    """Rows in order of t; some have key 7, the others one of 1,000 keys."""
    times = np.sort(begin + np.array([rng.random() for _ in range(n)]) * length).astype(int)
    return [(7 if rng.random() < heavy else rng.randrange(1000), int(t), i) for i, t in enumerate(times)]


def stream_of(
    buckets: int, folder: Path, patch: pytest.MonkeyPatch, keyed: bool = True, band: int = 5, how: str = "inner"
) -> Stream:
    spec = join_spec(
        SCHEMA, SCHEMA, on=["k"] if keyed else None, condition=f"l.t BETWEEN r.t - {band} AND r.t + {band}", how=how,
        left_order=(Order("t"),), right_order=(Order("t"),),
    )
    return Stream(spec, stream_spread(spec, buckets, "auto", None, str(folder)), buckets, patch)


def fullest(rows: list[int]) -> float:
    return max(rows) * len(rows) / sum(rows)


def test_a_folder_goes_on_where_the_default_of_buckets_is_spelled_out(tmp_path: Path) -> None:
    spec = spec_of(random.Random(0), "inner", 5, "drop", True, False)[0]
    assert StreamPlans(spec, str(tmp_path), None).join == StreamPlans(spec, str(tmp_path), 16).join


@pytest.mark.one_in(3)
@pytest.mark.parametrize("buckets", [2, 4, 8])
def test_a_key_that_becomes_heavy_half_way_is_spread(
    buckets: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(buckets)
    stream = stream_of(buckets, tmp_path, monkeypatch)
    for b in range(8):
        heavy = 0.8 if b >= 3 else 0.0
        stream.step((steady(rng, 1200, 4000 * b, 4000, heavy), steady(rng, 1200, 4000 * b, 4000, heavy)))
    assert all(fullest(rows) < 1.3 for rows in stream.rows_in[:3])
    assert fullest(stream.rows_in[3]) > 1.5
    assert all(fullest(rows) < 1.3 for rows in stream.rows_in[6:]), stream.rows_in
    assert stream.spread.plans is not None
    plans = live_plans(stream.spread.plans)
    newest = plans.plans[-1]
    assert isinstance(newest, EndlessPlan) and len(newest.hot) == 1 and newest.grid is None
    # rows are copied near the cuts of the heavy key alone
    assert sum(stream.rows_in[7]) < 1.2 * 2400


@pytest.mark.slow
def test_a_band_wider_than_what_arrives_gets_a_grid(tmp_path: Path, often: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    stream = stream_of(4, tmp_path, often, keyed=False, band=3000)
    for b in range(6):
        stream.step((steady(rng, 20, 200 * b, 200, 0), steady(rng, 20, 200 * b, 200, 0)))
    assert stream.spread.plans is not None
    newest = live_plans(stream.spread.plans).plans[-1]
    assert isinstance(newest, EndlessPlan) and newest.grid == (2, 2)
    # no plan begins before what was routed reaches: 3,000 on
    assert fullest(stream.rows_in[-1]) > 1.5
    stream.step((steady(rng, 400, 9000, 200, 0), steady(rng, 400, 9000, 200, 0)))
    assert fullest(stream.rows_in[-1]) < 1.3, stream.rows_in


@pytest.mark.slow
def test_plans_in_use_are_three_at_most_and_the_old_ones_end(tmp_path: Path, often: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    stream = stream_of(3, tmp_path, often)
    assert stream.spread.plans is not None
    seen = []
    for b in range(24):
        k = b // 2 % 5
        rows = [[(k, t, t) for t in sorted(rng.randrange(100 * b, 100 * b + 100) for _ in range(40))] for _ in "lr"]
        stream.step((rows[0], rows[1]))  # type: ignore[arg-type]
        plans = live_plans(stream.spread.plans)
        seen.append(plans.first + len(plans.plans))
        assert len(plans.plans) <= 3
    assert seen == sorted(seen)
    assert seen[-1] > 6


def test_few_rows_and_even_keys_keep_the_first_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    stream = stream_of(4, tmp_path, monkeypatch)
    for b in range(3):
        stream.step(([(7, 10 * b, 0)], [(7, 10 * b, 1)]))
    for b in range(3, 6):
        stream.step((steady(rng, 2000, 4000 * b, 4000, 0), steady(rng, 2000, 4000 * b, 4000, 0)))
    assert [p.name for p in tmp_path.iterdir()] == ["plan-0.json"]


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [True, False])
def test_buckets_in_use_follow_the_rows_that_come(keyed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "_BUSY", 400)
    monkeypatch.setattr(deciding, "_BETWEEN", 100)
    monkeypatch.setattr(deciding, "_IDLE", 20)
    rng, buckets = random.Random(keyed), 8
    stream = stream_of(buckets, tmp_path, monkeypatch, keyed)
    plain = Stream(stream.spec, UNSPREAD, 1, monkeypatch)
    busy = []
    for b, n in enumerate([300] * 2 + [10] * 14 + [2000] * 6 + [10] * 3):
        rows = steady(rng, n, 1000 * b, 1000, 0), steady(rng, n, 1000 * b, 1000, 0)
        stream.step(rows, fails=b % 5 == 4)
        plain.step(rows)
        busy.append(sum(n > 0 for n in stream.rows_in[-1]))
    assert busy[1] == 8
    assert busy[15] == 1, "after micro-batches with few rows"
    assert busy[21] == 8, "after micro-batches with many"
    assert fullest(stream.rows_in[21]) < 1.3
    assert busy[24] > 1, "a pause is not taken for the end"
    assert stream.finish() == plain.finish()


def test_notes_and_plans_of_before_use_all_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(4, tmp_path, monkeypatch)
    assert stream.spread.plans is not None
    plans = stream.spread.plans.plans(PlanFile(0, "a query", stream.spread.plans.join, file().plans))
    assert isinstance(plans.plans[0], EndlessPlan) and plans.plans[0].used is None
    said = Note(rows=3.0, idle=5).text()
    assert Note.of(said) == Note(rows=3.0, idle=5)
    assert Note.of(said.replace('"idle": 5, ', "")).idle == 0


def test_counts_of_tasks_add_up_in_any_order() -> None:
    rng = random.Random(8)
    keys = [np.array([rng.choice([1, 1, 1, 2, *range(100, 160)]) for _ in range(500)], np.uint64) for _ in range(4)]
    said = []
    for i, k in enumerate(keys):
        c = Counts()
        c.add(i % 2, k, None, len(k), deciding.Edge(i), 2)
        said.append(c.as_json)
    orders = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        whole = Counts()
        for i in order:
            whole.merge(said[i])
        orders.append(whole.as_json)
    assert orders[0] == orders[1]
    assert orders[0]["rows"] == 2000 and orders[0]["edge"] == 3
    counted = {k: sum(n) for k, *n in orders[0]["keys"]}
    assert counted[1] == sum(int((k == 1).sum()) for k in keys)


# -- files -------------------------------------------------------------------------------------------------------------


def file(number: int = 3, query: str = "a query", join: str = "a join") -> PlanFile:
    plans = {"first": 0, "starts": [], "plans": [{"hot": [1, 2**64 - 1], "width": 8, "grid": None}]}
    return PlanFile(number, query, join, plans)


def test_a_file_is_written_once_and_read_as_it_was(tmp_path: Path) -> None:
    files = PlanFiles(str(tmp_path), "a join")
    assert files.newest(9, "a query") is None
    files.create(file(3))
    files.create(file(7))
    before = (tmp_path / "plan-3.json").stat().st_ino
    files.create(PlanFile(3, "a query", "a join", {"first": 1, "starts": [], "plans": []}))
    assert (tmp_path / "plan-3.json").stat().st_ino == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan-3.json", "plan-7.json"], "nothing half-written"
    assert files.newest(8, "a query") == file(7)
    assert files.newest(7, "a query") == file(3), "a micro-batch follows earlier ones' plans alone"
    with pytest.raises(SnapshotError, match=r"plan-7.json' is of a later micro-batch than this one, 3"):
        files.newest(3, "a query")


@pytest.mark.parametrize("spoil, said", [
    (lambda t: t[: len(t) // 2], "is no routing plan of a stream, or is damaged. Put it back"),
    (lambda t: b"", "is no routing plan"),
    (lambda t: b"[1]", "is no routing plan"),
    (lambda t: b"\xff\xfe", "is no routing plan"),
    (lambda t: t.replace(b'"width": 8', b'"width": 9'), "its digest does not fit its contents"),
    (lambda t: t.replace(b'"version": 1', b'"version": 2'), "of version 2; this ivjoin reads .* of version 1"),
    (lambda t: t.replace(b'"number": 3', b'"number": 4'), "its digest does not fit"),
    (lambda t: file(4).text(), "its digest does not fit"),
    (lambda t: file(3, query="another").text(), "was written by another query"),
    (lambda t: file(3, join="another").text(), "was written by another query, or by this one with other arguments"),
])  # fmt: skip
def test_damaged_and_foreign_files_are_refused(tmp_path: Path, spoil: Any, said: str) -> None:
    path = tmp_path / "plan-3.json"
    path.write_bytes(spoil(file().text()))
    with pytest.raises(SnapshotError, match=said):
        PlanFiles(str(tmp_path), "a join").newest(4, "a query")
    with pytest.raises(IvjoinError):
        PlanFiles(str(tmp_path), "a join").create(file())


@pytest.mark.parametrize("plans", [
    {}, {"first": 0, "starts": [], "plans": []}, {"first": 0, "starts": [1], "plans": [{}]},
    {"first": 0, "starts": [], "plans": [{"hot": [-1], "width": 8, "grid": None}]},
    {"first": 0, "starts": [], "plans": [{"hot": [], "width": 0, "grid": None}]},
    {"first": 0, "starts": [], "plans": [{"hot": [], "width": 8, "grid": [0, 1]}]},
    {"first": 0, "starts": [], "plans": [{"hot": [], "width": 8, "grid": None, "used": 0}]},
    {"first": -1, "starts": [], "plans": [{"hot": [], "width": 8, "grid": None}]},
])  # fmt: skip
def test_files_without_plans_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: Any) -> None:
    stream = stream_of(2, tmp_path, monkeypatch)
    assert stream.spread.plans is not None
    made = PlanFile(0, "a query", stream.spread.plans.join, plans)
    with pytest.raises(SnapshotError, match=r"plan-0.json holds no plans of a stream"):
        stream.spread.plans.plans(made)


def test_a_deleted_file_and_a_folder_that_not_all_tasks_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(2, tmp_path, monkeypatch)
    rows: Rows = ([(1, 1, 1)], [(1, 1, 1)])
    stream.step(rows)
    assert (tmp_path / "plan-0.json").exists(), "the folder is claimed by the first micro-batch"
    held = (tmp_path / "plan-0.json").read_bytes()
    (tmp_path / "plan-0.json").unlink()
    with pytest.raises(SnapshotError, match="a file is missing, or not all workers see the same folder"):
        stream.step(rows)
    (tmp_path / "plan-0.json").write_bytes(held)
    stream.step(rows)
    other = stream_of(2, tmp_path / "other", monkeypatch, how="left")
    assert isinstance(other.spread.plans, StreamPlans)
    with pytest.raises(SnapshotError, match="was written by another query, or by this one with other arguments"):
        live_plans(StreamPlans(other.spec, str(tmp_path), 2))
    monkeypatch.setattr(replanning, "_query_and_batch", lambda: ("another query", 5))
    assert stream.spread.plans is not None
    with pytest.raises(SnapshotError, match="was written by another query"):
        stream.spread.plans.way(0)


@pytest.mark.parametrize("given, said", [
    (5, "routing_dir is 5; expected the path of a folder"), ("", "routing_dir is ''; expected"),
    (b"x", "expected the path"), ("a\0b", "expected the path"),
    ("nowhere://x/y", "nowhere"),
])  # fmt: skip
def test_what_is_no_folder_is_refused(given: Any, said: str) -> None:
    with pytest.raises(IvjoinError, match=said):
        checked_folder(given)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IvjoinError, match="which is a file; expected a folder"):
        checked_folder(tmp_path / "file")
    with pytest.raises(FileError, match="which cannot be written"):
        checked_folder(tmp_path / "file" / "below")
    assert checked_folder(tmp_path / "a" / "b") == str(tmp_path / "a" / "b")
    assert not list((tmp_path / "a" / "b").iterdir())
