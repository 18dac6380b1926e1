"""Picks, aggregates and as-of joins are DuckDB's, of tables and of streams."""

from __future__ import annotations

import pytest
from drivers.lookups_in_duckdb import KINDS, compare


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_rows_are_those_of_duckdb(kind: str, first: int) -> None:
    assert sum(compare(kind, seed) for seed in range(first, first + 10)) > 50


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(1000, 2000, 200))
def test_more_rows_are_those_of_duckdb(kind: str, first: int) -> None:
    assert sum(compare(kind, seed) for seed in range(first, first + 200)) > 1000
