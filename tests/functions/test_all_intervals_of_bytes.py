"""Interval rules of operators over int8: all 32,896 intervals of one argument beside some of the other, both ways.

What ``test_pairs_of_intervals`` takes from windows and edges, with every interval there is on one side: no value of the
operator is lost, upward or downward. The suite draws some intervals; the test marked soak leaves out none on one side,
and takes 14 on the other. Not tried are the other intervals of that side, for each of the first: 32,896 x 32,896 pairs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from intervals.grids import STRUCTURE, Grid, grid, operators_of_bytes, wanted

from ivjoin.functions.rules.domain import NAN, NULL
from ivjoin.functions.rules.rule import Rule
from ivjoin.functions.rules.state import Infeasible, State
from ivjoin.interval.machine import truth
from ivjoin.propagation.rules import rule_of

ALL = range(-128, 128)
N = len(ALL)
# Intervals of the other argument: points and halves, about zero, at the ends, the whole type.
OTHERS = [
    (0, 0), (-1, -1), (1, 1), (-128, -128), (127, 127), (-1, 1), (0, 127), (-128, -1), (-128, 127), (2, 7), (-9, -3),
    (-128, -127), (126, 127), (-40, 90),
]  # fmt: skip
EMPTY = 1 << 20  # of a result that no pair gives: least above greatest

Chosen = list[tuple[int, int]]


def running(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """``ufunc`` over all of ``x[i : j + 1]`` : [n, n], for i up to j."""
    out = np.zeros((N, N), dtype=x.dtype)
    for i in range(N):
        out[i, i:] = ufunc.accumulate(x[i:])
    return out


class Strip:
    """An operator at all values of one argument, and those of an interval of the other.

    ``side`` is the place of the argument that takes all values; ``other`` the closed interval of the other one.
    """

    def __init__(self, g: Grid, side: int, other: tuple[int, int]) -> None:
        self.g, self.side, self.other = g, side, other
        self.cut = slice(other[0] + 128, other[1] + 129)

    def of(self, x: np.ndarray) -> np.ndarray:
        """[256, m] of a [256, 256] by first and second argument."""
        return (x if self.side == 0 else x.T)[:, self.cut]

    def arguments(self, i: int, j: int) -> list[Any]:
        own, there = (ALL[i], ALL[j], 0), (*self.other, 0)
        return [own, there] if self.side == 0 else [there, own]


def spans(share: float, rng: random.Random) -> Chosen:
    every = [(i, j) for i in range(N) for j in range(i, N)]
    return every if share == 1 else rng.sample(every, int(share * len(every)))


def check_up(strip: Strip, rule: Rule, chosen: Chosen) -> None:
    """Each interval of results holds all results."""
    assert rule.forward is not None
    g = strip.g
    found = [rule.forward([*strip.arguments(i, j), None]) for i, j in chosen]
    at = tuple(np.array(chosen).T)
    null = running(np.logical_or, strip.of(g.null).any(axis=1))[at]
    if g.node.type.kind == "bool":
        marks = np.where(g.there, np.where(g.values.astype(bool), truth.TRUE, truth.FALSE), 0)
        marks |= np.where(g.null, truth.NULL, 0)
        masks = running(np.bitwise_or, np.bitwise_or.reduce(strip.of(marks), axis=1))[at]
        lost = (masks & ~np.array(found)) != 0
    else:
        values, there = strip.of(g.values), strip.of(g.there)
        is_float = g.node.type.kind == "float"
        far: Any = np.inf if is_float else EMPTY
        low = running(np.minimum, np.where(there, values, far).min(axis=1))[at]
        high = running(np.maximum, np.where(there, values, -far).max(axis=1))[at]
        least, most = (np.array([f[e] for f in found], dtype=float if is_float else object) for e in (0, 1))
        flags = np.array([f[2] for f in found])
        nan = running(np.logical_or, strip.of(g.nan).any(axis=1))[at]
        lost = ((least > low) | (most < high)).astype(bool) & (low <= high)
        lost |= (null & ((flags & NULL) == 0)) | (nan & ((flags & NAN) == 0))
    assert not lost.any(), told(strip, chosen, lost, found)


def told(strip: Strip, chosen: Chosen, lost: np.ndarray, found: list[Any]) -> str:
    k = int(lost.argmax())
    return f"{strip.g.node}: {strip.arguments(*chosen[k])} gives {found[k]}, {np.count_nonzero(lost)} of {len(lost)}"


def check_down(strip: Strip, rule: Rule, z: Any, hit: np.ndarray, chosen: Chosen) -> None:
    """Both arguments keep what can give a result that is asked for."""
    assert rule.backward is not None
    hits = strip.of(hit)
    some, rows, columns = hits.any(axis=1), np.arange(N), np.arange(strip.other[0], strip.other[1] + 1)
    at = tuple(np.array(chosen).T)
    first = running(np.minimum, np.where(some, rows, EMPTY))[at]
    last = running(np.maximum, np.where(some, rows, -EMPTY))[at]
    left = running(np.minimum, np.where(hits, columns, EMPTY).min(axis=1))[at]
    right = running(np.maximum, np.where(hits, columns, -EMPTY).max(axis=1))[at]
    side, kept = strip.side, np.empty((len(chosen), 4), dtype=np.int64)
    for k, (i, j) in enumerate(chosen):
        state = State(STRUCTURE, [*strip.arguments(i, j), z], bytearray(b"\1\1\1"), bytearray(3), bytearray(3))
        try:
            rule.backward(state)
        except Infeasible:
            kept[k] = EMPTY, -EMPTY, EMPTY, -EMPTY
            continue
        (a, b, _), (c, d, _) = state.D[side], state.D[1 - side]
        kept[k] = a + 128, b + 128, c, d
    lost = (kept[:, 0] > first) | (kept[:, 1] < last) | (kept[:, 2] > left) | (kept[:, 3] < right)
    lost &= first <= last
    assert not lost.any(), f"{z} asked of " + told(strip, chosen, lost, kept.tolist())


def strips(g: Grid, others: list[tuple[int, int]]) -> Iterator[Strip]:
    for side in (0, 1):
        for other in others:
            yield Strip(g, side, other)


def check(text: str, others: list[tuple[int, int]], share: float, asked: int) -> int:
    """How many intervals, up and down, none of which lost a value."""
    rng = random.Random(text)
    g = grid(operators_of_bytes()[text], ALL, ALL)
    rule, tried = rule_of(g.node, 2, (0, 1)), 0
    for strip in strips(g, others):
        chosen = spans(share, rng)
        if rule.forward is not None:
            check_up(strip, rule, chosen)
            tried += len(chosen)
        if rule.backward is not None:
            questions = wanted(g, rng)
            for z, hit in rng.sample(questions, min(asked, len(questions))):
                check_down(strip, rule, z, hit, chosen)
                tried += len(chosen)
    return tried


@pytest.mark.one_in(7)
@pytest.mark.parametrize("text", operators_of_bytes())
def test_some_intervals_of_bytes(text: str) -> None:
    others = random.Random(text).sample(OTHERS, 2)
    assert check(text, others, 0.008, 2) >= 4 * 263


@pytest.mark.soak
@pytest.mark.parametrize("text", operators_of_bytes())
def test_all_intervals_of_bytes(text: str) -> None:
    assert check(text, OTHERS, 1, 2) >= 2 * len(OTHERS) * 32_896


@pytest.mark.parametrize("side", [0, 1])
def test_a_lost_value_is_noticed(side: int) -> None:
    g = grid(operators_of_bytes()["a + b"], ALL, ALL)
    rule = rule_of(g.node, 2, (0, 1))
    forward, backward = rule.forward, rule.backward
    assert forward is not None and backward is not None

    def lower(D: list[Any]) -> Any:
        lo, hi, flags = forward(D)
        return lo, hi - (D[side][0] == 5), flags

    def narrower(s: State) -> None:
        backward(s)
        lo, hi, flags = s.D[side]
        s.cut(side, lo, hi - (hi == 5), flags)

    strip, chosen = Strip(g, side, (-9, -3)), [(i, j) for i in range(120, 140) for j in range(i, 140)]
    check_up(strip, rule, chosen)
    with pytest.raises(AssertionError, match="gives"):
        check_up(strip, rule._replace(forward=lower), chosen)
    z, hit = (-8, 2, 0), g.there & (g.values >= -8) & (g.values <= 2)
    check_down(strip, rule, z, hit, chosen)
    with pytest.raises(AssertionError, match="asked of"):
        check_down(strip, rule._replace(backward=narrower), z, hit, chosen)
