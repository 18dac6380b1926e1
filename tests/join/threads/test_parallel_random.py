"""Random joins by one to four threads, in slices of a few rows, against the nested loop."""

from __future__ import annotations

import pytest
from drivers.threaded import CUT, check
from hypothesis import given
from hypothesis import strategies as st
from join.cases import Case
from join.plain_cases import plain_cases
from join.strategies import cases
from weights import examples

pytestmark = pytest.mark.usefixtures("contract_every_row")


@given(cases() | plain_cases(), st.integers(0, 2**32))
@examples(6)
def joins(case: Case, seed: int) -> None:
    check(case, seed)


@pytest.mark.slow
@pytest.mark.hypothesis
def test_threads_give_what_the_nested_loop_gives() -> None:
    CUT.clear()
    joins()
    assert CUT["slices"] > 3
    assert CUT["tables"] > 8
    assert CUT["several"] > 3
    assert CUT["one"] > 0
    assert CUT["limited"] > 1
