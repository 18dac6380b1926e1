"""The yardsticks of shedding: against exhaustive search, against each other, and against the papers."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from ivjoin import IvjoinError
from ivjoin.errors import OptionError, UnsupportedError
from ivjoin.shedding import exact_matches, k_truncated, optimal_offline, replay
from ivjoin.shedding.policies import POLICIES

R, S = [1, 1, 1, 3, 2], [2, 3, 1, 1, 3]
State = tuple[frozenset[int], frozenset[int]]


@pytest.mark.slow
def test_the_example_of_the_paper() -> None:
    pytest.importorskip("ortools")
    assert exact_matches(R, S, window=3) == 7
    assert optimal_offline(R, S, window=3, memory=2).matches == 5
    assert optimal_offline(R, S, window=3, memory=2, shared=True).matches == 6


def best_of_all(left: list[Any], right: list[Any], window: int, memory: int, shared: bool) -> int:
    """Every choice of rows to keep at every step."""
    states: dict[State, int] = {(frozenset(), frozenset()): 0}
    for t, (x, y) in enumerate(zip(left, right, strict=True)):
        after: dict[State, int] = {}
        for (a, b), so_far in states.items():
            mine, theirs = {i for i in a if t - i < window}, {j for j in b if t - j < window}
            found = so_far + (x == y is not None)
            found += sum(left[i] == y is not None for i in mine) + sum(right[j] == x is not None for j in theirs)
            rooms = [(p, memory - p) for p in range(memory + 1)] if shared else [(memory // 2, memory // 2)]
            for p, q in rooms:
                keep = itertools.product(
                    itertools.combinations(sorted(mine | {t}), min(p, len(mine) + 1)),
                    itertools.combinations(sorted(theirs | {t}), min(q, len(theirs) + 1)),
                )
                for l_rows, r_rows in keep:
                    state = frozenset(l_rows), frozenset(r_rows)
                    after[state] = max(after.get(state, 0), found)
        states = after
    return max(states.values())


def given_by(kept: dict[str, list[tuple[int, int]]], left: list[Any], right: list[Any], window: int) -> tuple[int, Any]:
    """The matches that a choice of rows gives, and how many rows a side it holds after each step."""
    n = len(left)
    held = np.zeros((2, n + 1), dtype=int)
    found = sum(x == y is not None for x, y in zip(left, right, strict=True))
    for s, (name, own, other) in enumerate((("left", left, right), ("right", right, left))):
        assert len({row for row, _ in kept[name]}) == len(kept[name]), "a row is kept once"
        for row, until in kept[name]:
            held[s, row:until] += 1
            found += sum(own[row] == other[j] is not None for j in range(row + 1, until + 1) if j - row < window)
    return found, held


@pytest.mark.parametrize("shared", [False, True])
def test_the_optimum_is_that_of_exhaustive_search(shared: bool) -> None:
    pytest.importorskip("ortools")
    rng = np.random.default_rng(3 + shared)
    for _ in range(120):
        n, window = int(rng.integers(1, 9)), int(rng.integers(1, 6))
        memory = int(rng.integers(0, 4)) if shared else 2 * int(rng.integers(0, 3))
        keys = [None, "a", "b", "c"][: int(rng.integers(2, 5))]
        left, right = ([keys[i] for i in rng.integers(0, len(keys), n)] for _ in range(2))
        got = optimal_offline(left, right, window=window, memory=memory, shared=shared)
        found, held = given_by(got.kept, left, right, window)
        where = (left, right, window, memory, shared, got)
        assert got.matches == best_of_all(left, right, window, memory, shared) == found, where
        assert (held.sum(0).max() <= memory) if shared else (held.max() <= memory // 2), where


def drawn(n: int, domain: int, seed: int, skewed: bool = True) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, domain + 1) if skewed else np.ones(domain)
    return rng.choice(domain, n, p=weights / weights.sum()), rng.integers(0, domain, n)


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("domain", "memory", "fractions"),
    [(50, 100, {"random": 0.30, "prob": 0.79, "life": 0.73}), (10, 400, {"random": 0.73, "prob": 0.93, "life": 0.87})],
)
def test_the_policies_reach_the_numbers_of_the_paper(domain: int, memory: int, fractions: dict[str, float]) -> None:
    """One Zipf(1) stream against a uniform one, 5,600 steps, a window of 400, as fractions of the optimum."""
    pytest.importorskip("ortools")
    left, right = drawn(5600, domain, 1)
    best = optimal_offline(left, right, window=400, memory=memory).matches
    assert best <= exact_matches(left, right, window=400)
    for policy, fraction in fractions.items():
        assert replay(left, right, window=400, memory=memory, policy=policy) / best == pytest.approx(fraction, abs=0.03)


@pytest.mark.slow
def test_on_uniform_keys_the_policies_tie() -> None:
    left, right = drawn(4000, 20, 5, skewed=False)
    got = [replay(left, right, window=200, memory=80, policy=p) for p in POLICIES]
    assert max(got) < 1.1 * min(got)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("shared", [False, True])
def test_with_memory_enough_nothing_is_lost(policy: str, shared: bool) -> None:
    for seed in range(5):
        left, right = drawn(60, 4, seed)
        whole = exact_matches(left, right, window=7)
        assert replay(left, right, window=7, memory=14, policy=policy, shared=shared) == whole
        few = [replay(left, right, window=7, memory=m, policy=policy, shared=shared, seed=seed) for m in (0, 2, 6)]
        at_once = int((left == right).sum())
        assert at_once == few[0] <= few[1] <= whole
        assert few[2] <= whole


@pytest.mark.parametrize("shared", [False, True])
def test_streams_without_rows_have_no_matches(shared: bool) -> None:
    best = optimal_offline([], [], window=2, memory=4, shared=shared)
    assert best.matches == exact_matches([], [], window=2) == 0
    assert best.kept == {"left": [], "right": []}
    assert replay([], [], window=2, memory=4, shared=shared) == 0


def test_random_choices_depend_only_on_the_seed() -> None:
    left, right = drawn(500, 9, 2)
    got = [replay(left, right, window=50, memory=20, policy="random", seed=s) for s in (1, 1, 2, 3, 4)]
    assert got[0] == got[1]
    assert len(set(got)) > 1


def test_k_truncated_is_that_of_exhaustive_search() -> None:
    assert k_truncated([(3, 1), (2, 2), (4, 2)], k=6) == 8
    rng = np.random.default_rng(8)
    for _ in range(60):
        parts = [(int(a), int(b)) for a, b in rng.integers(0, 4, (int(rng.integers(1, 4)), 2))]
        k = int(rng.integers(0, 12))
        ways = itertools.product(*(itertools.product(range(m + 1), range(n + 1)) for m, n in parts))
        want = max(sum(a * b for a, b in way) for way in ways if sum(a + b for a, b in way) <= k)
        assert k_truncated(parts, k=k) == want, (parts, k)
    assert k_truncated([], k=3) == 0


@pytest.mark.parametrize(("call", "says"), [
    (lambda: optimal_offline([1], [1, 2], window=1, memory=2), "left_keys has 1 keys and right_keys 2"),
    (lambda: optimal_offline([1], [1], window=0, memory=2), "window is 0; expected a whole number of steps from 1"),
    (lambda: optimal_offline([1], [1], window=1, memory=3), "memory is 3; expected an even number"),
    (lambda: replay([1], [1], window=1, memory=-2), "memory is -2; expected a whole number of rows from 0"),
    (lambda: replay([1], [1], window=1, memory=2, policy="lru"), "policy is 'lru'; expected 'random', 'prob'"),
    (lambda: replay("ab", [1, 2], window=1, memory=2), "left_keys is 'ab'; expected a list or an array"),
    (lambda: replay([[1]], [1], window=1, memory=2), "left_keys contains a value that cannot be a key"),
    (lambda: replay([1], [1], window=1, memory=2, shared=1), "shared is 1; expected True or False"),
    (lambda: replay([1], [1], window=1, memory=2, half_life=0), "half_life is 0; expected a number above 0"),
    (lambda: k_truncated([(1, 2, 3)], k=3), r"components contains \(1, 2, 3\); expected a pair"),
    (lambda: k_truncated([(1, -2)], k=3), "a component's rows is -2"),
    (lambda: k_truncated([(1, 2)], k=True), "k is True; expected a whole number of rows"),
    (lambda: k_truncated(5, k=3), "components is 5; expected a list of pairs"),
])  # fmt: skip
def test_bad_arguments(call: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        call()
    assert issubclass(OptionError, IvjoinError)


@pytest.mark.parametrize("nan", [[math.nan, math.nan], [math.nan, Decimal("nan")], [np.nan, np.float64("nan")]])
def test_nan_matches_nan_and_null_matches_nothing(nan: list[Any]) -> None:
    left, right = [nan[0], None, 1.0], [2.0, None, nan[1]]
    assert exact_matches(left, right, window=3) == 1
    assert replay(left, right, window=3, memory=4) == 1
    assert exact_matches(np.array([math.nan, 2.0]), np.array([3.0, math.nan]), window=2) == 1


def test_the_optimum_keeps_rows_of_nan() -> None:
    pytest.importorskip("ortools")
    assert optimal_offline([math.nan, 1], [2, math.nan], window=2, memory=2).matches == 1


def test_missing_or_tools_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ortools.graph.python", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'ivjoin\[shedding\]'"):
        optimal_offline([1], [1], window=1, memory=2)
