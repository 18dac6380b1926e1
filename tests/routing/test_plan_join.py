"""What the planner chooses, what it reports, and the mistakes it names."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin import OptionError
from ivjoin.routing import LoadReport, RoutingPlan, plan_from_json, plan_join, plan_to_json, simulate

BAND = "l.t BETWEEN r.t - 5 AND r.t + 5"


def zipf(exponent: float, n: int, keys: int, seed: int) -> np.ndarray:
    weight = np.arange(1, keys + 1) ** -exponent
    return np.random.default_rng(seed).choice(keys, size=n, p=weight / weight.sum())


def table(n: int = 4000, exponent: float = 0.0, keys: int = 500, seed: int = 0, span: int | None = None) -> pa.Table:
    rng = np.random.default_rng(seed + 100)
    t = np.sort(rng.integers(0, span or 10 * n, n))
    return pa.table({"k": zipf(exponent, n, keys, seed), "t": t, "v": np.arange(n)})


def schemes(plan: RoutingPlan) -> Counter[str]:
    return Counter(e.scheme for e in plan.layout.entries)


def test_light_keys_are_hashed() -> None:
    left, right = (pa.table({"k": np.random.default_rng(s).permutation(4000)}) for s in (0, 1))
    plan = plan_join(left, right, on="k", workers=8)
    assert not plan.layout.entries and plan.report.replication == 1.0
    assert plan.report.skew_degree < 1.05
    by_hash = plan_join(left, right, on="k", workers=8, scheme="hash")
    assert plan.report.rows_in.tolist() == by_hash.report.rows_in.tolist()


def test_a_hot_key_without_a_band_is_a_grid() -> None:
    left, right = table(exponent=1.5, seed=1), table(exponent=1.5, seed=2)
    plan = plan_join(left, right, on="k", workers=16)
    assert schemes(plan)["grid"] > 0 and schemes(plan)["slices"] == 0
    by_hash = plan_join(left, right, on="k", workers=16, scheme="hash")
    assert by_hash.report.skew_degree > 8 and plan.report.skew_degree < 1.5


def test_a_hot_key_with_a_narrow_band_is_sliced() -> None:
    left, right = table(exponent=1.5, seed=1), table(exponent=1.5, seed=2)
    plan = plan_join(left, right, on="k", condition=BAND, workers=16)
    assert schemes(plan)["slices"] > 0 and schemes(plan)["grid"] == 0
    assert plan.report.replication < 1.1 and plan.report.over_bound < 1.2


def test_no_key_is_one_heavy_key() -> None:
    left, right = table(seed=1), table(seed=2)
    plan = plan_join(left, right, condition=BAND, workers=8)
    assert [e.scheme for e in plan.layout.entries] == ["slices"]
    assert plan.report.replication < 1.05 and plan.report.over_bound < 1.1
    wide = plan_join(left, right, condition="l.t <= r.t", workers=8)
    assert [e.grids for e in wide.layout.entries] in ([((2, 4),)], [((4, 2),)])
    assert any("has only one end" in note for note in wide.notes)


def test_the_smaller_side_is_copied() -> None:
    small, large = table(n=500, seed=1, span=40_000), table(n=20_000, seed=2, span=40_000)
    condition = "l.t BETWEEN r.t - 400 AND r.t + 400"
    plan = plan_join(small, large, condition=condition, workers=16)
    assert plan.axis is not None and plan.axis.divided == 1
    assert plan_join(large, small, condition=condition, workers=16).axis.divided == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("how", "grids"),
    [("left", (8, 1)), ("left_semi", (8, 1)), ("left_anti", (8, 1)), ("right", (1, 8)), ("right_semi", (1, 8)),
     ("right_anti", (1, 8)), ("inner", None)],
)  # fmt: skip
def test_grids_leave_preserved_rows_in_one_cell(how: str, grids: tuple[int, int] | None) -> None:
    many, few = table(n=4000, seed=1), table(n=100, seed=2)
    left, right = (few, many) if how.startswith("right") else (many, few)
    plan = plan_join(left, right, condition="l.t <= r.t", how=how, workers=8, scheme="grid")
    (entry,) = plan.layout.entries
    if grids is None:
        assert entry.cells == 8
    else:
        assert (entry.grids[0][1 if grids[1] == 1 else 0]) == 1 and entry.cells >= 4


def test_a_full_join_in_grids_has_one_for_each_side() -> None:
    left, right = table(seed=1), table(seed=2)
    plan = plan_join(left, right, condition="l.t <= r.t", how="full", workers=8)
    (entry,) = plan.layout.entries
    assert entry.twofold and plan.layout.both
    sliced = plan_join(left, right, condition=BAND, how="full", workers=8)
    assert sliced.layout.both and sliced.layout.entries[0].scheme == "slices"


def test_joins_that_cannot_be_spread_explain_why() -> None:
    left, right = table(seed=1), table(seed=2)
    plan = plan_join(left, right, condition="l.t <= r.t", workers=8, scheme="slices")
    assert plan.n_cells == 1
    assert "no axis of the condition can be cut for a inner join" in plan.notes[-1] or "cut for" in plan.notes[-1]
    assert "scheme='hash' spreads only by keys" in plan_join(left, right, condition=BAND, scheme="hash").notes[-1]
    assert "never TRUE" in plan_join(left, right, condition="1 = 2", workers=8).notes[-1]
    assert plan_join(left, right, condition=BAND, workers=1).notes == ()
    assert "note: " in str(plan)


def test_forced_schemes() -> None:
    left, right = table(exponent=1.5, seed=1), table(exponent=1.5, seed=2)
    plan = plan_join(left, right, on="k", condition=BAND, workers=16, scheme="grid")
    assert schemes(plan)["grid"] > 0 and plan.axis is None
    plan = plan_join(left, right, on="k", condition=BAND, workers=16, scheme="slices")
    assert schemes(plan)["slices"] > 0 and schemes(plan)["grid"] == 0


@pytest.mark.slow
def test_bands_wider_than_a_slice() -> None:
    left, right = table(n=20_000, seed=1), table(n=20_000, seed=2)
    wide = "l.t BETWEEN r.t - 30000 AND r.t + 30000"
    plan = plan_join(left, right, condition=wide, workers=64, beta=0.0)
    plain = plan_join(left, right, condition=wide, workers=64, beta=0, scheme="slices")
    assert plan.report.load <= plain.report.load * 1.02


@pytest.mark.one_in(13)
@pytest.mark.parametrize("workers", [1, 2, 7, 8, 64, 1000])
@pytest.mark.parametrize("condition", [None, BAND])
def test_loads_are_near_the_bound_whatever_the_skew(workers: int, condition: str | None) -> None:
    for exponent in (0.0, 1.0, 1.5):
        left, right = (table(20_000, exponent, 5000, seed) for seed in (1, 2))
        report = plan_join(left, right, on="k", condition=condition, workers=workers).report
        assert len(report.rows_in) == len(report.rows_out) == workers
        # with forty rows a worker, the copies of a grid weigh as much as the rows
        assert report.over_bound < (1.1 if workers <= 64 else 1.3), (exponent, str(report))


@pytest.mark.slow
def test_the_report_of_a_whole_sample_is_what_is_counted() -> None:
    left, right = table(exponent=1.0, seed=1), table(exponent=1.0, seed=2)
    for how in ("inner", "left", "full", "right_anti", "left_semi"):
        for on, condition in (("k", None), ("k", BAND), (None, BAND)):
            plan = plan_join(left, right, on=on, condition=condition, how=how, workers=8)
            counted = simulate(left, right, on=on, condition=condition, how=how, workers=8)
            assert plan.report.rows_in.tolist() == counted.rows_in.tolist()
            assert np.allclose(plan.report.rows_out, counted.rows_out, atol=1.0)


def test_a_sample_stands_for_all_rows() -> None:
    left, right = table(20_000, 1.0, seed=1), table(40_000, 1.0, seed=2)
    draw = np.random.default_rng(0)
    samples = [t.take(np.sort(draw.choice(t.num_rows, 4000, replace=False))) for t in (left, right)]
    plan = plan_join(*samples, on="k", condition=BAND, workers=8, left_rows=20_000, right_rows=40_000)
    assert abs(plan.report.rows_in.sum() / 60_000 - plan.report.replication) < 1e-3
    whole = plan_join(left, right, on="k", condition=BAND, workers=8).report
    assert 0.7 < plan.report.rows_out.sum() / whole.rows_out.sum() < 1.4


def test_keys_keep_their_cells_down_to_half_the_share_of_a_new_heavy_key() -> None:
    def plan(hot: int, current: RoutingPlan | None = None) -> RoutingPlan:
        k = np.concatenate([np.zeros(hot, dtype=np.int64), np.arange(1, 20_001 - hot)])
        t = pa.table({"k": k, "v": np.arange(20_000)})
        return plan_join(t, t, on="k", workers=8, beta=0.0, current=current)

    assert len(plan(400).layout.entries) == 1
    assert len(plan(250).layout.entries) == 0
    assert len(plan(250, plan(400)).layout.entries) == 1
    assert len(plan(100, plan(400)).layout.entries) == 0


# -- keys of every kind --------------------------------------------------------------------------------------------

NAN = float("nan")
EQUAL = [
    ([1, -1, 2**31 - 1, None], pa.int32(), [1, -1, 2**31 - 1, None], pa.int64()),
    ([0, 255, None], pa.uint8(), [0, 255, None], pa.int16()),
    ([2**63, 2**64 - 1, 0], pa.uint64(), [Decimal(2**63), Decimal(2**64 - 1), Decimal(0)], pa.decimal128(20, 0)),
    ([0.0, -0.0, NAN, 1.5], pa.float64(), [-0.0, 0.0, NAN, 1.5], pa.float64()),
    ([0.5, -0.0, NAN], pa.float32(), [0.5, 0.0, NAN], pa.float64()),
    ([3, 2**53 + 1], pa.int64(), [Decimal("3.00"), Decimal(2**53 + 1)], pa.decimal128(38, 2)),
    ([Decimal("1.50"), None], pa.decimal128(5, 2), [Decimal("1.500"), None], pa.decimal128(10, 3)),
    (["a", "", None, "日本" * 9], pa.string(), ["a", "", None, "日本" * 9], pa.large_string()),
    (["a", "b"], pa.string_view(), ["a", "b"], pa.dictionary(pa.int8(), pa.string())),
    ([b"ab", b""], pa.binary(), [b"ab", b""], pa.large_binary()),
    ([b"abc", b"abd"], pa.binary(3), [b"abc", b"abd"], pa.binary()),
    ([dt.date(2024, 1, 31), None], pa.date32(), [dt.date(2024, 1, 31), None], pa.date64()),
    ([1_700_000_000], pa.timestamp("s"), [1_700_000_000_000_000_000], pa.timestamp("ns")),
    ([True, False, None], pa.bool_(), [True, False, None], pa.bool_()),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("a", "ta", "b", "tb"), EQUAL, ids=lambda x: str(x) if isinstance(x, pa.DataType) else "")
@pytest.mark.parametrize("null_safe", [False, True])
def test_equal_keys_meet(a: list[Any], ta: pa.DataType, b: list[Any], tb: pa.DataType, null_safe: bool) -> None:
    def side(values: list[Any], t: pa.DataType) -> pa.RecordBatch:
        array = pa.array(values, t) if not pa.types.is_dictionary(t) else pa.array(values).dictionary_encode().cast(t)
        return pa.record_batch({"k": array, "n": pa.array(range(len(values)), pa.int64())})

    left, right = side(a, ta), side(b, tb)
    options: dict[str, Any] = {"condition": "l.k <=> r.k"} if null_safe else {"on": "k"}
    plan = plan_join(left, right, **options, workers=1000, scheme="hash")
    sent = [dict(zip(*(x.tolist() for x in plan.cells(s, t)[:2]))) for s, t in (("left", left), ("right", right))]
    alike = [i for i, x in enumerate(a) if null_safe or x is not None]
    assert [sent[0][i] for i in alike] == [sent[1][i] for i in alike]
    assert len(set(sent[0].values())) == len({str(x).replace("-0.0", "0.0") for x in a})


def test_several_keys_are_one() -> None:
    left = pa.record_batch({"a": pa.array([1, 2, 1, 2], pa.int32()), "b": ["x", "x", "y", "y"]})
    text = pa.array(["x", "x", "y", "y"], pa.large_string())
    right = pa.record_batch({"a": pa.array([1, 2, 1, 2], pa.int64()), "b": text})
    plan = plan_join(left, right, on=["a", "b"], workers=1000, scheme="hash")
    cells = [plan.cells(side, t)[1].tolist() for side, t in (("left", left), ("right", right))]
    assert cells[0] == cells[1] and len(set(cells[0])) == 4


def test_a_computed_key() -> None:
    left = pa.record_batch({"a": [1, 2, 3]})
    right = pa.record_batch({"b": [2, 3, 4]})
    plan = plan_join(left, right, condition="l.a + 1 = r.b", workers=100, scheme="hash")
    assert plan.cells("left", left)[1].tolist() == plan.cells("right", right)[1].tolist()


def test_rearranged_key_that_may_err_is_not_a_key() -> None:
    side = pa.record_batch({"a": [1, 2], "b": [3, 4]})
    plan = plan_join(side, side, condition="l.a - r.a + l.b - r.b = 0", workers=4)
    assert any("may raise an error where the condition does not" in note for note in plan.notes)
    assert not plan.layout.n_light


@pytest.mark.slow
def test_cells_are_the_same_in_every_process() -> None:
    code = """
import hashlib, numpy as np, pyarrow as pa
from ivjoin.routing import plan_join
n = 3000
k = np.arange(n) ** 2 % 7
t = pa.table({"k": k, "t": np.arange(n), "s": [f"w{i % 50}" for i in range(n)], "x": np.arange(n) / 7})
digest = hashlib.sha256()
for options in ({"on": "k"}, {"on": "s"}, {"on": ["k", "s"]}, {"condition": "l.t <= r.t"},
                {"on": "k", "condition": "l.t BETWEEN r.t - 5 AND r.t"}):
    p = plan_join(t, t, workers=8, **options)
    for side in ("left", "right"):
        for column in p.cells(side, t.to_batches()[0]):
            digest.update(np.ascontiguousarray(column).tobytes())
print(digest.hexdigest())
"""
    runs = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        runs.add(done.stdout.strip())
    assert [len(digest) for digest in runs] == [64]


@pytest.mark.parametrize(
    "options",
    [{"on": "k"}, {"on": "k", "condition": BAND, "how": "full"}, {"condition": "l.t <= r.t"}, {"condition": BAND},
     {"condition": "l.t <= r.t", "how": "full"}],
)  # fmt: skip
def test_a_plan_goes_to_other_tasks_as_text(options: dict[str, Any]) -> None:
    left, right = table(exponent=1.5, seed=1), table(exponent=1.5, seed=2)
    plan = plan_join(left, right, **options, workers=8)
    again = plan_from_json(plan_to_json(plan), left.schema, right.schema, **options)
    for side, t in (("left", left), ("right", right)):
        for a, b in zip(plan.cells(side, t.to_batches()[0]), again.cells(side, t.to_batches()[0]), strict=True):
            assert a.tolist() == b.tolist()
    assert again.worker_of.tolist() == plan.worker_of.tolist() and str(again) == str(plan)
    assert plan_to_json(again) == plan_to_json(plan)
    with pytest.raises(OptionError, match="for another join"):
        plan_from_json(plan_to_json(plan), left.schema, right.schema, on="v")
    with pytest.raises(ivjoin.SnapshotError, match="not a routing plan"):
        plan_from_json("[]", left.schema, right.schema, **options)
    with pytest.raises(ivjoin.SnapshotError, match="version 99"):
        plan_from_json('{"version": 99}', left.schema, right.schema, **options)


def test_copies_depend_only_on_rows() -> None:
    left, right = table(seed=1), table(seed=2)
    plan = plan_join(left, right, condition="l.t <= r.t", workers=8)
    batch = left.to_batches()[0]
    whole = sorted(zip(*(x.tolist() for x in plan.cells("left", batch))))
    parts = []
    for start in (0, 1, 1000):
        stop = {0: 1, 1: 1000, 1000: batch.num_rows}[start]
        rows, cells, owned = plan.cells("left", batch.slice(start, stop - start))
        parts += list(zip((rows + start).tolist(), cells.tolist(), owned.tolist()))
    assert sorted(parts) == whole


def test_equal_rows_are_dealt_out_too() -> None:
    hot = pa.table({"k": pa.array(np.zeros(4000, dtype=np.int64))})
    plan = plan_join(hot, hot, on="k", workers=16)
    assert plan.layout.salted and plan.report.skew_degree < 1.2


# -- mistakes ------------------------------------------------------------------------------------------------------

SMALL = pa.table({"k": [1, 2], "t": [1, 2]})


@pytest.mark.parametrize(("options", "error", "words"), [
    ({"workers": 0}, OptionError, "workers is 0; expected a whole number from 1"),
    ({"workers": "8"}, OptionError, "workers is '8'"),
    ({"workers": 10**9}, OptionError, "to 100000"),
    ({"scheme": "slice"}, OptionError, "scheme is 'slice'.*did you mean 'slices'"),
    ({"scheme": None}, OptionError, "scheme is None"),
    ({"beta": -1}, OptionError, "beta is -1"),
    ({"beta": float("nan")}, OptionError, "beta is nan"),
    ({"left_rows": 1}, OptionError, "left_rows is 1, but the sample has 2 rows"),
    ({"right_rows": "x"}, OptionError, "right_rows is 'x'"),
    ({"left_sample": SMALL.slice(0, 0)}, OptionError, "the left sample has no rows"),
    ({"right_sample": SMALL.slice(0, 0)}, OptionError, "the right sample has no rows"),
    ({"right_sample": 5}, ivjoin.SchemaError, "the right sample is 5"),
    ({"on": "q"}, ivjoin.ColumnError, "column 'q' is not in left"),
    ({"how": "iner"}, ivjoin.ConditionError, "did you mean 'inner'"),
    ({"condition": "l.q < 1"}, ivjoin.ColumnError, "q"),
    ({"current": 5}, OptionError, "current is 5"),
    ({"worker": 5}, OptionError, "no option 'worker'; did you mean 'workers'"),
])  # fmt: skip
def test_mistakes_are_named(options: dict[str, Any], error: type[Exception], words: str) -> None:
    given = {"left_sample": SMALL, "right_sample": SMALL, "on": "k", **options}
    with pytest.raises(error, match=words):
        plan_join(**given)


@pytest.mark.parametrize("given", [5, None, "plan"])
def test_only_a_plan_becomes_text(given: Any) -> None:
    with pytest.raises(OptionError, match="expected a RoutingPlan"):
        plan_to_json(given)


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("on", "scheme"), [("k", "auto"), (None, "auto"), (None, "grid")])
def test_more_workers_than_rows_spread_as_far_as_rows_go(on: str | None, scheme: str) -> None:
    rows = pa.table({"k": [i % 7 for i in range(300)], "t": list(range(300))})
    plan = plan_join(rows, rows, on=on, condition="l.t BETWEEN r.t - 5 AND r.t + 5", workers=5_000, scheme=scheme)
    assert plan.report.load <= 0.25 * plan_join(
        rows, rows, on=on, condition="l.t BETWEEN r.t - 5 AND r.t + 5", workers=1
    ).report.load
    left, right = (dict[int, list[int]](), dict[int, list[int]]())
    for side, at in (("left", left), ("right", right)):
        for row, cell in zip(*(x.tolist() for x in plan.cells(side, rows.to_batches()[0])[:2])):
            at.setdefault(cell, []).append(row)
    met = Counter((a, b) for c in left for a in left[c] for b in right.get(c, []) if abs(a - b) <= 5)
    keys = rows["k"].to_pylist()
    near = ((a, b) for a in range(300) for b in range(max(0, a - 5), min(300, a + 6)))
    assert set(met) >= {(a, b) for a, b in near if on is None or keys[a] == keys[b]}
    assert max(met.values()) == 1


def test_mistakes_of_cells_and_simulations() -> None:
    plan = plan_join(SMALL, SMALL, on="k", workers=2)
    batch = SMALL.to_batches()[0]
    with pytest.raises(ivjoin.ProtocolError, match="side is 'middle'"):
        plan.cells("middle", batch)
    with pytest.raises(ivjoin.SchemaError, match="batch is a Table"):
        plan.cells("left", SMALL)
    with pytest.raises(ivjoin.SchemaError, match="has columns"):
        plan.cells("left", batch.select(["k"]))
    with pytest.raises(ivjoin.SchemaError, match="column 'k' of a left batch is"):
        plan.cells("left", pa.record_batch({"k": ["a"], "t": [1]}))
    with pytest.raises(OptionError, match="left side has no rows"):
        simulate(SMALL.slice(0, 0), SMALL, on="k", workers=2)
    with pytest.raises(OptionError, match="sample_rows is 0"):
        simulate(SMALL, SMALL, on="k", workers=2, sample_rows=0)
    with pytest.raises(OptionError, match="workers is -1"):
        simulate(SMALL, SMALL, on="k", workers=-1)


def test_batches_and_lists_are_samples_too() -> None:
    batches = table(100).to_batches(max_chunksize=30)
    a = plan_join(batches, pa.RecordBatchReader.from_batches(batches[0].schema, batches), on="k", workers=2)
    b = plan_join(table(100), table(100).combine_chunks().to_batches()[0], on="k", workers=2)
    assert a.report.rows_in.tolist() == b.report.rows_in.tolist()
    empty = a.cells("left", batches[0].slice(0, 0))
    assert [len(x) for x in empty] == [0, 0, 0]


def test_a_report_is_a_table() -> None:
    report = LoadReport.of(np.array([10, 30]), np.array([0, 100]), 40.0, 0.0, 0.3)
    assert (report.load, report.lower_bound, report.skew_degree, report.replication) == (60.0, 35.0, 60 / 35, 1.0)
    assert str(report).splitlines()[1].split() == ["1", "30", "100", "60"]
    assert LoadReport.of(np.array([40, 40]), np.zeros(2), 40.0, 39.0, 0.3).lower_bound == 39.0
    many = LoadReport.of(np.arange(1, 101), np.zeros(100, dtype=np.int64), 5050.0, 0.0, 0.3)
    assert "+84 more" in str(many)


@pytest.mark.parametrize("nulls", [0, 1])
def test_samples_of_several_dictionaries(nulls: int) -> None:
    parts = []
    for first in (0, 100):
        values = pa.array([None] * nulls + [f"v{i}" for i in range(first, first + 100)])
        numbers = pa.array([i % len(values) for i in range(300)], pa.int8())
        parts.append(pa.DictionaryArray.from_arrays(numbers, values))
    coded = pa.table({"k": pa.chunked_array(parts), "t": range(600)})
    plain = pa.table({"k": [x for part in parts for x in part.to_pylist()], "t": range(600)})
    ask = {"on": "k", "condition": BAND, "workers": 4}
    cells = []
    for t in (coded, plain):
        plan = plan_join(t, t, **ask)
        cells.append([x for b in t.to_batches(max_chunksize=300) for x in plan.cells("left", b)[1].tolist()])
    assert cells[0] == cells[1]
    one, other = (simulate(t, t, **ask).rows_in for t in (coded, plain))
    assert np.array_equal(one, other)


@pytest.mark.parametrize(("how", "dealt"), [("left", 0), ("right", 1)])
def test_the_preserved_side_of_a_grid_is_dealt_by_a_hash_of_its_rows(how: Any, dealt: int) -> None:
    rows = pa.table({"k": np.zeros(4000, dtype=np.int64), "t": np.arange(4000)})
    plan = plan_join(rows, rows, on="k", how=how, workers=8, scheme="grid")
    assert [plan.layout.needs_row_hash(s) for s in (0, 1)] == [s == dealt for s in (0, 1)]
    for s, side in enumerate(("left", "right")):
        _, cells, owned = plan.cells(side, rows.to_batches()[0])
        assert len(set(cells.tolist())) == 8
        assert len(cells) == (4000 if s == dealt else 32_000)
        assert owned.all() or s != dealt
