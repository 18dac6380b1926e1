"""Simulations count what cells that are joined one by one give."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import oracle
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from join.cases import Case
from join.strategies import cases
from routing.called import call, met
from routing.routed import batch_of, copies, random_plan
from weights import examples

from bench.routing import least_replication
from ivjoin import SymmetricHashJoin
from ivjoin.routing import counting, plan_join, planner, simulate
from ivjoin.routing.counting import count


@pytest.mark.slow
@given(cases(max_rows=14), st.integers(0, 2**32))
@examples()
def test_counts_are_those_of_cells_joined_one_by_one(case: Case, seed: int) -> None:
    left, right = batch_of(case.left), batch_of(case.right)
    plan, made = random_plan(left, right, call(case), random.Random(seed))
    pairs = met(case)
    got = count(plan, left, right)
    sent = [copies(plan.cells, side, b) for side, b in (("left", left), ("right", right))]
    rows_in = [Counter(c for _, c, _ in side) for side in sent]
    want: Counter[int] = Counter()
    for cell in set(rows_in[0]) | set(rows_in[1]):
        mine, theirs = ({r: o for r, c, o in side if c == cell} for side in sent)
        a, b = list(mine), list(theirs)
        for i, j in oracle.pairs(a, b, case.how, (), lambda x, y: (x, y) in pairs):
            want[cell] += mine[a[i]] if i is not None else theirs[b[j]]  # type: ignore[index]
    for s in (0, 1):
        assert got.rows_in[s].tolist() == [rows_in[s][c] for c in range(plan.n_cells)]
    assert got.rows_out.tolist() == [want[c] for c in range(plan.n_cells)], made


def table(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({
        "k": np.minimum(rng.zipf(1.5, n), 200), "t": np.sort(rng.integers(0, 5 * n, n)), "x": rng.normal(size=n),
        "y": pa.array(rng.integers(0, 9, n), pa.int64(), mask=rng.random(n) < 0.1),
    })  # fmt: skip


@pytest.mark.one_in(5)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize(
    ("on", "condition"),
    [("k", None), ("k", "l.t BETWEEN r.t - 9 AND r.t + 4"), (None, "l.t BETWEEN r.t - 9 AND r.t AND l.x <> r.x"),
     (None, "l.t BETWEEN r.t AND r.t + 20 AND l.y > 2"), ("k", "l.t <= r.t AND l.x > r.x"),
     (None, "l.x BETWEEN r.x - 0.01D AND r.x + 0.01D")],
)  # fmt: skip
def test_rows_out_are_those_of_the_operator(how: str, on: str | None, condition: str | None) -> None:
    left, right = table(600, 1), table(500, 2)
    op = SymmetricHashJoin(left.schema, right.schema, on=on, condition=condition, how=how)
    rows = 0
    for call_ in (lambda: op.push("left", batch_of(left)), lambda: op.push("right", batch_of(right)), op.finish):
        rows += sum(b.num_rows for b in call_())
    for workers, scheme in ((1, "auto"), (8, "auto"), (8, "hash"), (5, "grid")):
        report = simulate(left, right, on=on, condition=condition, how=how, workers=workers, scheme=scheme)
        assert report.rows_out.sum() == rows, (workers, scheme)
        assert report.rows_in.sum() >= 1100 and len(report.rows_in) == workers
        loads = report.rows_in + 0.3 * report.rows_out
        assert report.load == loads.max() and report.replication == report.rows_in.sum() / 1100
        assert np.isclose(report.skew_degree, loads.max() / loads.mean())
        if how == "inner":
            assert np.isclose(report.lower_bound, (1100 + 0.3 * rows) / workers)


@pytest.mark.slow
def test_the_planner_sees_a_sample_and_all_rows_are_counted() -> None:
    left, right = table(20_000, 1), table(20_000, 2)
    options = {"on": "k", "condition": "l.t BETWEEN r.t - 9 AND r.t + 4", "workers": 8}
    few = simulate(left, right, **options, sample_rows=2000)
    all_ = simulate(left, right, **options)
    assert few.rows_out.sum() == all_.rows_out.sum()
    assert few.load < 1.3 * all_.load
    again = simulate(left, right, **options, sample_rows=2000)
    assert again.rows_in.tolist() == few.rows_in.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [8, 48, 200])
def test_hashing_grows_with_skew_and_the_planner_stays_flat(workers: int) -> None:
    over = {}
    for exponent in (0.0, 1.0, 1.5):
        weight = np.arange(1, 5001) ** -exponent
        sides = [
            pa.table({"k": rng.choice(5000, 30_000, p=weight / weight.sum()), "v": np.arange(30_000)})
            for rng in map(np.random.default_rng, (0, 1))
        ]
        for scheme in ("hash", "auto"):
            over[exponent, scheme] = simulate(*sides, on="k", workers=workers, scheme=scheme).over_bound
    assert over[0.0, "hash"] < over[1.0, "hash"] < over[1.5, "hash"]
    assert over[1.5, "hash"] > 0.7 * workers
    assert max(over[e, "auto"] for e in (0.0, 1.0, 1.5)) < 1.15 + workers / 500


@pytest.mark.one_in(5)
@pytest.mark.parametrize("workers", [8, 48, 64, 200])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0])
def test_few_copies_are_made_for_the_load(workers: int, exponent: float) -> None:
    """Of those that any plan of this load makes: m pairs of one key take 2 sqrt(m) rows of it."""
    weight = np.arange(1, 20_001) ** -exponent
    sides = [
        pa.table({"k": rng.choice(20_000, 20_000, p=weight / weight.sum()), "v": np.arange(20_000)})
        for rng in map(np.random.default_rng, (1, 2))
    ]
    report = simulate(*sides, on="k", workers=workers)
    left, right = (np.bincount(side["k"].to_numpy(), minlength=20_000).astype(float) for side in sides)
    least = least_replication(report, left + right, left * right)
    # eight workers divide a key in few ways: 2 x 4 cells, or seven of which each has all rows of one side
    assert report.replication <= (1.25 if workers > 8 else 1.4) * least
    assert report.over_bound < 1.08


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("part", [1.0, 0.8])
@pytest.mark.parametrize("workers", [48, 64, 200])
def test_bands_wider_than_a_share_need_few_copies(workers: int, part: float) -> None:
    """A slice that is a grid copies less than narrower slices, or one grid of everything."""
    n = 20_000
    sides = [
        pa.table({"k": np.where(rng.random(n) < part, 7, rng.integers(0, 1000, n)),
                  "t": np.sort(rng.integers(0, 10 * n, n)), "v": np.arange(n)})
        for rng in map(np.random.default_rng, (1, 2))
    ]  # fmt: skip
    band = f"l.t BETWEEN r.t - {n // 2} AND r.t + {n // 2}"
    report = simulate(*sides, on=None if part == 1.0 else "k", condition=band, workers=workers)
    # m pairs take 2 sqrt(m) rows, those of a rectangle; along the edges of a band there are none
    least = least_replication(report, np.array([2.0 * n]), np.array([float(report.rows_out.sum())]))
    assert report.replication <= 1.4 * least
    assert report.over_bound < 1.1


@pytest.mark.slow
@pytest.mark.parametrize(("n", "nulls", "width", "beta"), [(800, 1400, 25, 0.3), (2000, 3000, 2000, 0.0)])
@pytest.mark.parametrize("workers", [24, 80])
def test_rows_that_match_nothing_are_part_of_the_load(
    n: int, nulls: int, width: int, beta: float, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer copies do not help where workers with spare capacity are full of such rows."""
    sides = [
        pa.table({"t": pa.array([*np.sort(rng.integers(0, 10 * n, n)).tolist(), *[None] * nulls], pa.int64()),
                  "v": np.arange(n + nulls)})
        for rng in map(np.random.default_rng, (1, 2))
    ]  # fmt: skip
    band = f"l.t BETWEEN r.t - {width} AND r.t + {width}"
    report = simulate(*sides, condition=band, workers=workers, beta=beta)
    monkeypatch.setattr(planner._Planner, "_of_fewer_copies", lambda self, best, *_: best)
    before = simulate(*sides, condition=band, workers=workers, beta=beta)
    assert report.load <= 1.1 * before.load
    assert report.replication <= before.replication


def test_on_primary_keys_plain_hashing_is_chosen() -> None:
    sides = [pa.table({"k": np.random.default_rng(s).permutation(20_000)}) for s in (0, 1)]
    plan = plan_join(*sides, on="k", workers=64)
    assert not plan.layout.entries
    report = simulate(*sides, on="k", workers=64)
    assert report.replication == 1.0 and report.over_bound < 1.1
    grid = simulate(*sides, on="k", workers=64, scheme="grid")
    assert report.load <= grid.load


def test_many_copies_are_counted_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = table(3000, 1), table(3000, 2)
    for how in ("inner", "full", "left"):
        whole = simulate(left, right, condition="l.t <= r.t", how=how, workers=9)
        with monkeypatch.context() as patch:
            patch.setattr(counting, "_COPIES", 4000)
            patch.setattr(counting, "_ROWS", 500)
            parts = simulate(left, right, condition="l.t <= r.t", how=how, workers=9)
        assert parts.rows_in.tolist() == whole.rows_in.tolist()
        assert parts.rows_out.tolist() == whole.rows_out.tolist()


@pytest.mark.soak
def test_fullest_worker_is_near_the_optimum() -> None:
    """No key, one key, most rows in one key; bands narrower and wider than a worker's share; full joins too."""
    n, over = 20_000, []
    for part in (1.0, 0.8):
        sides = []
        for seed in (1, 2):
            rng = np.random.default_rng(seed)
            k = np.where(rng.random(n) < part, 7, rng.integers(0, 1000, n))
            sides.append(pa.table({"k": k, "t": np.sort(rng.integers(0, 10 * n, n)), "v": np.arange(n)}))
        for width, workers in ((50, 8), (50, 48), (10_000, 48), (10_000, 200)):
            band = f"l.t BETWEEN r.t - {width} AND r.t + {width}"
            for on, how in (("k", "inner"), (None, "full")):
                over.append(simulate(*sides, on=on, condition=band, how=how, workers=workers).over_bound)
    assert len(over) == 16
    assert np.exp(np.mean(np.log(over))) < 1.15
    assert max(over) < 1.4
