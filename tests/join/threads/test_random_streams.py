"""Random streams joined by several threads: the rows of one thread, and one order for any number of threads."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from drivers.streams import check

SEEDS = int(os.environ.get("IVJOIN_SLICES", "3000"))


@pytest.mark.parametrize("part", range(4))
def test_threads_give_what_one_gives(part: int) -> None:
    went: Counter[str] = Counter()
    for seed in range(6 * part, 6 * part + 6):
        check(seed, went)
    assert went["slices"] + went["up"] > 0


@pytest.mark.slow
def test_many_streams() -> None:
    went: Counter[str] = Counter()
    for seed in range(100, 130):
        check(seed, went)
    assert went["several"] > 15
    assert went["limited"] > 0
    assert went["up"] > 0


@pytest.mark.soak
def test_streams_at_length() -> None:
    went: Counter[str] = Counter()
    for seed in range(1000, 1000 + SEEDS):
        check(seed, went)
    assert went["several"] > SEEDS / 4
