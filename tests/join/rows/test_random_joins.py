"""Random joins against the nested loop: any types, condition, join type, orders, batches and interleaving.

Each runs in compiled blocks where its rows are plain enough, and then without; joins of plain columns are for those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from join.cases import IN_BLOCKS, Case, check, run_pull, whole
from join.conditions import swapped
from join.plain_cases import plain_cases
from join.strategies import cases
from join.variants import mirrored, snapshots_everywhere
from weights import examples

pytestmark = pytest.mark.usefixtures("contract_every_row")

def one_side_first(case: Case, side: str) -> Case:
    """All of a side, its end, then all of the other."""
    mine = [e for e in case.script if e[0] == "push" and e[1] == side]
    others = [e for e in case.script if e[0] == "push" and e[1] != side]
    return replace(case, script=(*mine, ("finish", side), *others))


@pytest.mark.nojit
@given(cases(max_rows=6))
@examples(0.25)
def test_tiny_joins(case: Case) -> None:
    check(case)


@given(plain_cases(max_rows=8))
@examples(0.25)
def tiny_plain_joins(case: Case) -> None:
    check(case)


@given(plain_cases())
@examples()
def plain_joins(case: Case) -> None:
    check(case)


@given(plain_cases())
@examples(0.25)
def plain_joins_pulled(case: Case) -> None:
    check(case, run_pull)


TINY = pytest.param(tiny_plain_joins, marks=pytest.mark.nojit)
LARGER = (plain_joins, plain_joins_pulled)


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize("play", [TINY, *(pytest.param(p, marks=pytest.mark.slow) for p in LARGER)])
def test_joins_of_plain_columns(play: Callable[[], None]) -> None:
    IN_BLOCKS.clear()
    play()
    assert IN_BLOCKS[True] > IN_BLOCKS[False]


@pytest.mark.slow
@given(cases())
@examples(1)
def test_pushed_batches(case: Case) -> None:
    check(case)


@pytest.mark.slow
@given(cases())
@examples(0.5)
def test_pulled_streams(case: Case) -> None:
    check(case, run_pull)


@pytest.mark.slow
@given(cases())
@examples(0.5)
def test_inputs_exchanged(case: Case) -> None:
    check(mirrored(case))


@pytest.mark.slow
@given(cases() | plain_cases())
@examples(0.25)
def test_snapshot_and_restore_at_every_step(case: Case) -> None:
    check(snapshots_everywhere(case))


@pytest.mark.slow
@given(cases() | plain_cases())
@examples(0.25, suppress_health_check=list(HealthCheck))
def test_any_batch_sizes(case: Case) -> None:
    for size in (1, 2, 7, None):
        check(whole(case, size))
    check(one_side_first(case, "left"))
    check(one_side_first(case, "right"))
    check(replace(case, sliced=not case.sliced, batch_size=1))


@pytest.mark.slow
@given(cases() | plain_cases())
@examples(0.25)
def test_pruning_switched_off(case: Case) -> None:
    """Without orders, bounds and watermarks nothing is pruned before an end, and the answer is the same."""
    script = tuple(e for e in case.script if e[0] != "advance")
    bare = replace(case, left_order=(), right_order=(), left_bounds=None, right_bounds=None, script=script)
    check(bare)


def test_the_mirror_mirrors() -> None:
    """A test of the tests: exchanging the sides of a text touches qualifiers alone."""
    assert swapped("l.a >= r.b - 1 AND lower(r.s) = upper(l.s)") == "r.a >= l.b - 1 AND lower(l.s) = upper(r.s)"
    assert swapped("coalesce(1.5, x) > girl.a") == "coalesce(1.5, x) > girl.a"
