"""Random joins against the nested loop: any types, condition, join type, orders, batches and interleaving.

Each runs in compiled blocks if its rows allow that, and then without them. Joins of plain columns are for the blocks.
``IVJOIN_JOINS`` and ``IVJOIN_SEED`` set the number of joins of the long run and its first seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
from drivers.fuzz import LEGS, play
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from join.cases import IN_BLOCKS, Case, check, run_pull, whole
from join.conditions import swapped
from join.indexes import runs_at_once
from join.plain_cases import plain_cases
from join.strategies import cases
from weights import examples

pytestmark = pytest.mark.usefixtures("contract_every_row")
JOINS = int(os.environ.get("IVJOIN_JOINS", "21000"))
SEED = int(os.environ.get("IVJOIN_SEED", "1"))


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
@pytest.mark.parametrize("joins", [TINY, *LARGER])
def test_joins_of_plain_columns(joins: Callable[[], None]) -> None:
    IN_BLOCKS.clear()
    joins()
    assert IN_BLOCKS[True] > IN_BLOCKS[False]


@pytest.mark.slow
@pytest.mark.parametrize("leg", ["push", "pull", "exchanged", "snapshots", "in files", "taken over"])
@given(case=cases() | plain_cases(), number=st.integers(0, 2**16))
@examples(0.5, suppress_health_check=list(HealthCheck))
def test_legs(leg: str, case: Case, number: int) -> None:
    with runs_at_once(number) if leg == "push" and number % 2 else nullcontext():
        LEGS[leg](case, number)


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


@pytest.mark.soak
@pytest.mark.parametrize("leg", LEGS)
def test_every_leg_at_length(leg: str) -> None:
    share = JOINS // len(LEGS)
    done, last = play(leg, SEED, lambda joins: joins >= share)
    assert sum(done.values()) == share
    assert len(done) > 4 or share < 100  # join types
    assert last < SEED + share


def test_different_result_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEGS, "push", lambda case, number: 1 / (number - 3))  # type: ignore[func-returns-value]
    with pytest.raises(AssertionError, match=r"(?s)seed 5, case .*ZeroDivisionError.*left = pa.table"):
        play("push", 5, lambda joins: joins >= 100)


def test_exchanged_sides_change_only_qualifiers() -> None:
    assert swapped("l.a >= r.b - 1 AND lower(r.s) = upper(l.s)") == "r.a >= l.b - 1 AND lower(l.s) = upper(r.s)"
    assert swapped("coalesce(1.5, x) > girl.a") == "coalesce(1.5, x) > girl.a"
