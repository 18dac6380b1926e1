"""Tables that are joined in slices give the rows that pushes give, in one order for any number of threads."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from drivers.in_slices import check

SEEDS = int(os.environ.get("IVJOIN_SLICES", "3000"))


@pytest.mark.parametrize("part", range(6))
def test_slices_give_what_pushes_give(part: int) -> None:
    went: Counter[str] = Counter()
    for seed in range(20 * part, 20 * part + 20):
        check(seed, went)
    assert went["several"] > 4


@pytest.mark.nojit
def test_a_few_slices() -> None:
    went: Counter[str] = Counter()
    for seed in (3, 5, 8):
        check(seed, went)
    assert went


@pytest.mark.soak
def test_slices_at_length() -> None:
    went: Counter[str] = Counter()
    for seed in range(1000, 1000 + SEEDS):
        check(seed, went)
    assert went["several"] > SEEDS / 4
