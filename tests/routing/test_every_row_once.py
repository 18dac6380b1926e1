"""Whatever the layout, every pair and every unmatched row is emitted by one cell, once."""

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
from routing.routed import batch_of, copies, owned_output, random_plan
from weights import examples

from ivjoin.errors import IvjoinError
from ivjoin.routing import plan_join

SCHEMES = ("auto", "hash", "slices", "grid")


def expected(case: Case, pairs: set[tuple[int, int]]) -> Counter[tuple[int | None, int | None]]:
    n, m = range(case.left.num_rows), range(case.right.num_rows)
    return Counter(oracle.pairs(n, m, case.how, (), lambda a, b: (a, b) in pairs))


@pytest.mark.slow
@given(cases(max_rows=14), st.integers(0, 2**32))
@examples(2)
def test_any_layout(case: Case, seed: int) -> None:
    rng = random.Random(seed)
    left, right = batch_of(case.left), batch_of(case.right)
    plan, made = random_plan(left, right, call(case), rng)
    pairs = met(case)
    sent = [
        copies(plan.cells, side, b, [] if plan.layout.salted else rng.sample(range(b.num_rows), min(2, b.num_rows)))
        for side, b in (("left", left), ("right", right))
    ]
    assert all(0 <= c < plan.n_cells for side in sent for _, c, _ in side)
    assert owned_output(sent[0], sent[1], pairs, case.how) == expected(case, pairs), made


@pytest.mark.slow
@given(cases(max_rows=14), st.sampled_from(SCHEMES), st.integers(1, 9))
@examples()
def test_plans_of_the_planner(case: Case, scheme: str, workers: int) -> None:
    left, right = batch_of(case.left), batch_of(case.right)
    if not left.num_rows or not right.num_rows:
        with pytest.raises(IvjoinError, match="has no rows"):
            plan_join(left, right, **call(case), workers=workers, scheme=scheme)  # type: ignore[arg-type]
        return
    plan = plan_join(left, right, **call(case), workers=workers, scheme=scheme)  # type: ignore[arg-type]
    pairs = met(case)
    sent = [copies(plan.cells, side, b) for side, b in (("left", left), ("right", right))]
    assert owned_output(sent[0], sent[1], pairs, case.how) == expected(case, pairs), str(plan)
    assert len(plan.worker_of) == plan.n_cells and plan.worker_of.max() < workers
    assert str(plan.report).count("\n") >= min(workers, 16)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("part", [1.0, 0.8])
def test_bands_wider_than_a_share(how: str, part: float) -> None:
    """For these the planner looks for fewer copies, inner joins in slices that are grids."""
    sides = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        key, t = np.where(rng.random(300) < part, 7, rng.integers(0, 30, 300)), np.sort(rng.integers(0, 3000, 300))
        sides.append(pa.record_batch({"k": key, "t": pa.array(t, mask=rng.random(300) < 0.2), "v": np.arange(300)}))
    left, right = sides
    on = None if part == 1.0 else "k"
    plan = plan_join(left, right, on=on, condition="l.t BETWEEN r.t - 600 AND r.t + 600", how=how, workers=24)
    rows = [list(enumerate(side.to_pylist())) for side in sides]
    pairs = {
        (i, j) for i, a in rows[0] for j, b in rows[1]
        if None not in (a["t"], b["t"]) and abs(a["t"] - b["t"]) <= 600 and (on is None or a["k"] == b["k"])
    }  # fmt: skip
    sent = [copies(plan.cells, side, b) for side, b in (("left", left), ("right", right))]
    n = range(300)
    want = Counter(oracle.pairs(n, n, how, (), lambda a, b: (a, b) in pairs))
    assert owned_output(sent[0], sent[1], pairs, how) == want, str(plan)
    assert want
    grids = {grid for entry in plan.layout.entries for grid in entry.grids}
    assert how != "inner" or max(a * b for a, b in grids) > 1, grids


def test_the_check_finds_a_lost_and_an_invented_row() -> None:
    left, right = [(0, 0, True)], [(0, 0, True), (1, 1, True)]
    assert owned_output(left, right, {(0, 0), (0, 1)}, "inner") == Counter({(0, 0): 1})
    twice = owned_output([(0, 0, True), (0, 1, True)], [(0, 0, True), (0, 1, True)], {(0, 0)}, "inner")
    assert twice == Counter({(0, 0): 2})
