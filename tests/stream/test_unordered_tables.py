"""Tables without a declared order: sorted before they are joined, with the rows of a nested loop."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis.strategies import integers, sampled_from
from join.cases import Case, check
from join.plain_cases import plain_cases
from join.strategies import cases
from stream.unordered import FILES, SORTED, at_once, bare, no_room, run_tables
from weights import examples

from ivjoin import Order, band_join

RANDOM = examples(suppress_health_check=list(HealthCheck))
pytestmark = pytest.mark.hypothesis


@given(cases() | plain_cases(), integers(0, 2**20))
@examples(2, suppress_health_check=list(HealthCheck))
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


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("seed", range(50, 60))
def test_a_side_sorted_the_other_way_than_the_slices_run(seed: int, how: str) -> None:
    """The slices follow the first order of the left side, which falls, while the right side may be sorted upwards."""
    left = pa.table({"a": [9, 7, 5, 5, 3, 1], "b": [1, 2, 3, 3, 5, 7]})
    right = pa.table({"a": [1, 3, 4, 6, 7, 9]})
    orders = [Order("a", descending=True), Order("b")]
    with at_once(seed):
        rows = band_join(left, right, condition="l.a BETWEEN r.a - 1 AND r.a + 1", how=how, left_order=orders)
        found = rows.read_all().select(["a", "a_right"]).drop_null().to_pylist()
    pairs = [{"a": a, "a_right": b} for a in left["a"].to_pylist() for b in right["a"].to_pylist() if abs(a - b) <= 1]
    assert sorted(found, key=str) == sorted(pairs, key=str)
