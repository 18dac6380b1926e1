"""Random joins by one to four threads, in slices of a few rows, against the nested loop."""

from __future__ import annotations

import pytest
from drivers.threaded import CUT, check
from hypothesis import given, settings
from hypothesis import strategies as st
from join.cases import Case
from join.plain_cases import plain_cases
from join.strategies import cases

pytestmark = pytest.mark.usefixtures("contract_every_row")


@given(cases() | plain_cases(), st.integers(0, 2**32))
@settings(max_examples=150)
def joins(case: Case, seed: int) -> None:
    check(case, seed)


@given(cases(max_rows=40) | plain_cases(max_rows=60), st.integers(0, 2**32))
@settings(max_examples=2000, derandomize=False)
def many_joins(case: Case, seed: int) -> None:
    check(case, seed)


@pytest.mark.parametrize("play", [joins, pytest.param(many_joins, marks=pytest.mark.soak)])
def test_threads_give_what_the_nested_loop_gives(play: object) -> None:
    assert callable(play)
    CUT.clear()
    play()
    assert CUT["slices"] > 5
    assert CUT["up"] > 0
    assert CUT["one"] > 0
    assert CUT["limited"] > 3
