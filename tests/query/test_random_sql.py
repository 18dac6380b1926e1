"""Random queries, with the rows that DuckDB returns for them."""

from __future__ import annotations

import pytest
from drivers.random_sql import compare


@pytest.mark.parametrize("seed", range(10))
def test_a_few_queries(seed: int) -> None:
    assert compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 140, 20))
def test_more_queries(first: int) -> None:
    kinds = [compare(seed) for seed in range(first, first + 20)]
    assert any(" c ON " in text or " c USING " in text for text in kinds)
