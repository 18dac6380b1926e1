"""Joins of two to five inputs in order of columns at the ends of their types, with nulls and NaN, against DuckDB."""

from __future__ import annotations

import pytest
from multi.ends import AXES, Case, check
from seeds import each

SEEDS = range(2 * len(AXES))


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", SEEDS)
def test_pushed_in_pieces_and_pulled(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_some_of_them_have_rows() -> None:
    assert sum(bool(Case(seed).expected()) for seed in SEEDS) > 6


@pytest.mark.soak
def test_many_more() -> None:
    each(range(10_000, 10_400), check)
