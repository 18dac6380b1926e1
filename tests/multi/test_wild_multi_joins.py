"""Joins of two to eight inputs at the ends of types, against DuckDB: tables and readers, late rows, watermarks."""

from __future__ import annotations

import pytest
from multi.wild import Case, check_pushed, check_steps, check_tables
from seeds import each

SEEDS = range(12)


@pytest.mark.one_in(13)
@pytest.mark.parametrize("seed", SEEDS)
def test_of_tables_and_readers(seed: int) -> None:
    check_tables(Case(seed))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_of_tables_step_by_step_on_threads(seed: int) -> None:
    assert check_steps(Case(seed))


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", SEEDS)
def test_pushed_with_late_rows_and_watermarks(seed: int) -> None:
    check_pushed(Case(seed))


@pytest.mark.slow
def test_some_of_them_have_rows() -> None:
    cases = [Case(seed) for seed in SEEDS]
    assert sum(bool(c.expected()) for c in cases) > 2
    assert any(len(c.aliases) > 5 for c in cases)


@pytest.mark.soak
def test_many_more() -> None:
    for check in (check_tables, check_steps, check_pushed):
        each(map(Case, range(10_000, 10_400)), check)
