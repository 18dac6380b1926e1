"""Tables without a declared order: sorted before they are joined, with the rows of a nested loop."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import HealthCheck, given
from hypothesis.strategies import integers, sampled_from
from join.cases import Case, check
from join.plain_cases import plain_cases
from join.strategies import cases
from stream.unordered import FILES, SORTED, at_once, bare, no_room, run_tables
from weights import examples

RANDOM = examples(suppress_health_check=list(HealthCheck))
pytestmark = pytest.mark.hypothesis


@given(cases() | plain_cases(), integers(0, 2**20))
@RANDOM
def neither_side_ordered(case: Case, seed: int) -> None:
    with at_once(seed):
        check(bare(case, "left", "right"), run_tables)


@given(cases() | plain_cases(), integers(0, 2**20), sampled_from(["left", "right"]), sampled_from([False, True]))
@RANDOM
def one_side_ordered(case: Case, seed: int, ordered: str, streamed: bool) -> None:
    other = "right" if ordered == "left" else "left"
    with at_once(seed):
        check(bare(case, other), partial(run_tables, streamed=ordered if streamed else None))


@given(cases() | plain_cases(), integers(0, 2**20), sampled_from([("left", "right"), ("left",), ("right",)]))
@RANDOM
def sorted_outside_memory(case: Case, seed: int, sides: tuple[str, ...]) -> None:
    with at_once(seed), no_room(seed):
        check(bare(case, *sides), partial(run_tables, memory_limit=1 << 40))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:memory_limit is")
def test_sorted_outside_memory() -> None:
    FILES.clear()
    sorted_outside_memory()
    assert FILES["by runs"] > 5


@pytest.mark.slow
def test_neither_side_ordered() -> None:
    SORTED.clear()
    neither_side_ordered()
    assert SORTED["neither side was ordered:"] > 5
    assert SORTED["both sides are in"] > 2


@pytest.mark.slow
def test_one_side_ordered() -> None:
    SORTED.clear()
    one_side_ordered()
    assert SORTED["the left side was"] + SORTED["the right side was"] > 5
