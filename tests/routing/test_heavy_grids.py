"""Grids of heavy keys: the paper's example, the rule of factor two, and its edges."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivjoin import OptionError
from ivjoin.routing import heavy_grids


def test_the_papers_example() -> None:
    now = heavy_grids({"b1": (100, 100), "b2": (50, 200)}, workers=8, current=None)
    assert now == {"b1": (2, 2), "b2": (1, 4)}
    # desired are now (1.414, 4.243) and (0.707, 2.828): one size alone is less than half of its own
    assert heavy_grids({"b1": (100, 300), "b2": (50, 200)}, workers=8, current=now) == {"b1": (2, 4), "b2": (1, 4)}


def test_rule_without_the_range_would_leave_one_by_one() -> None:
    heavy = {"b1": (100, 100), "b2": (50, 200)}
    assert heavy_grids(heavy, 8, current={"b1": (1, 1)}) == {"b1": (1, 1), "b2": (1, 4)}


@pytest.mark.parametrize(
    ("desired", "now", "then"),
    # more than twice the desired is halved, less than half is doubled, exactly twice or half stays
    [(4, 8, 8), (4, 16, 8), (4, 2, 2), (4, 1, 2), (16, 1, 8), (1, 64, 2), (3, 8, 4), (3, 1, 2)],
)
def test_sizes_move_when_they_are_off_by_more_than_two(desired: int, now: int, then: int) -> None:
    # one key alone with as many workers as the product of its desired sizes
    grids = heavy_grids({"b": (desired * 10, desired * 10)}, workers=desired * desired, current={"b": (now, now)})
    assert grids == {"b": (then, then)}


@pytest.mark.parametrize(
    ("rows", "workers", "sizes"),
    [((3, 3), 9, (4, 4)), ((1, 1), 2, (1, 1)), ((10, 10), 8, (2, 2)), ((1, 64), 64, (1, 64)), ((7, 0), 8, (1, 1)),
     ((0, 0), 8, (1, 1)), ((10, 10), 1, (1, 1)), ((0.5, 2.0), 4, (1, 4))],
)  # fmt: skip
def test_new_keys_start_at_the_nearest_power_of_two(
    rows: tuple[float, float], workers: int, sizes: tuple[int, int]
) -> None:
    assert heavy_grids({"b": rows}, workers) == {"b": sizes}


def test_keys_that_are_heavy_no_more_are_left_out() -> None:
    assert heavy_grids({}, 8, current={"b": (2, 2)}) == {}
    assert list(heavy_grids({2: (5, 5)}, 8, current={1: (2, 2)})) == [2]


@given(
    st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=5),
    st.integers(1, 1000),
    st.dictionaries(st.integers(0, 5), st.tuples(st.sampled_from([1, 2, 8, 64]), st.sampled_from([1, 4, 32]))),
)
def test_sizes_are_within_a_factor_of_two(
    heavy: dict[int, tuple[int, int]], workers: int, current: dict[int, tuple[int, int]]
) -> None:
    total = sum(a * b for a, b in heavy.values())
    grids = heavy_grids(heavy, workers, current)
    assert grids.keys() == heavy.keys()
    assert heavy_grids(heavy, workers, grids) == grids
    for key, sizes in grids.items():
        for size, rows in zip(sizes, heavy[key]):
            assert size & (size - 1) == 0
            desired = rows * math.sqrt(workers / total) if total else 0.0
            assert size == 1 or size <= 2 * desired * (1 + 1e-9)
            assert 2 * size >= desired * (1 - 1e-9)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: heavy_grids({"b": (1, 1)}, 0), "workers is 0"),
    (lambda: heavy_grids([("b", 1)], 8), "heavy is"),  # type: ignore[arg-type]
    (lambda: heavy_grids({"b": 5}, 8), "key 'b' has 5 rows"),  # type: ignore[dict-item]
    (lambda: heavy_grids({"b": (1, -1)}, 8), "expected .left rows, right rows., 0 or more"),
    (lambda: heavy_grids({"b": (1, float("nan"))}, 8), "key 'b' has"),
    (lambda: heavy_grids({"b": (1, 1)}, 8, current={"b": (3, 1)}), "grid .3, 1.; expected two powers of two"),
    (lambda: heavy_grids({"b": (1, 1)}, 8, current={"b": (0, 1)}), "expected two powers of two"),
    (lambda: heavy_grids({"b": (1, 1)}, 8, current=3), "current is 3"),  # type: ignore[arg-type]
])  # fmt: skip
def test_mistakes_are_named(call: object, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        call()  # type: ignore[operator]
