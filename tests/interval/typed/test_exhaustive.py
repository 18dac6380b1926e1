"""Every operator of typed intervals against brute force: no point is lost, and the interval is the hull.

The fast tests draw intervals of all the values of a small domain; those marked soak take every one.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from bench import halves, operators, tightness
from bench.enumeration import Operator, Score, score_backward, score_forward, spans

OPERATORS: dict[str, Operator] = {}
for _domain, _ops in (
    ("int4", operators.integers("int4")), ("int8", operators.integers("int8")), ("decimal", operators.decimals()),
    ("date", operators.months()), ("casts", operators.casts()),
):  # fmt: skip
    for _op in _ops:
        OPERATORS[f"{_domain} {_op.name} {'/'.join(map(str, _op.domains))}"] = _op
BYTES = [name for name in OPERATORS if name.startswith("int8")]
NIBBLES = [name for name in OPERATORS if name.startswith("int4")]


def assert_hull(score: Score, at_least: int) -> None:
    assert not score.lost, score.lost[0]
    assert score.exact == score.cases, score.wide[0]
    assert score.cases >= at_least


@pytest.mark.one_in(19)
@pytest.mark.parametrize("name", OPERATORS)
def test_results_and_preimages_are_hulls(name: str) -> None:
    op = OPERATORS[name]
    forward, backward = tightness.measure(op, 36, random.Random(name))
    assert_hull(forward, 36)
    assert_hull(backward, 3)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", BYTES)
def test_every_pair_of_bytes(name: str) -> None:
    """Single values of both arguments: every fifth of one against all of the other, and backward a share of all."""
    op = OPERATORS[name]
    points = [(i, i) for i in range(256)]
    if len(op.values) == 1:
        assert_hull(score_forward(op, [(a,) for a in points]), 256)
        assert_hull(score_backward(op, 0, targets(1), [], whole), 256)
        return
    step = random.Random(name).randrange(5)
    assert_hull(score_forward(op, [(a, b) for a in points[step::5] for b in points]), 13_000)
    for place in (0, 1):
        assert_hull(score_backward(op, place, targets(5), points[step::7], whole), 1_800)


def targets(step: int) -> list[tuple[int, int]]:
    return [(v, v) for v in range(-128, 128, step)]


def whole() -> None:
    return None


@pytest.mark.soak
@pytest.mark.parametrize("name", BYTES)
def test_every_pair_of_bytes_backward(name: str) -> None:
    op = OPERATORS[name]
    points = [(i, i) for i in range(256)]
    if len(op.values) == 2:
        assert_hull(score_forward(op, [(a, b) for a in points for b in points]), 65_536)
    for place in range(len(op.values)):
        assert_hull(score_backward(op, place, targets(1), points, whole), 256)


@pytest.mark.soak
@pytest.mark.parametrize("name", NIBBLES)
def test_every_interval_of_four_bits(name: str) -> None:
    """All intervals of both arguments and of the results; the argument to contract is whole, and a random one."""
    op, rng, every = OPERATORS[name], random.Random(name), spans(16)
    cases: list[Any] = [(a, b) for a in every for b in every] if len(op.values) == 2 else [(a,) for a in every]
    assert_hull(score_forward(op, cases), len(cases))
    results = [(a, b) for a in range(-8, 8) for b in range(a, 8)]
    for place in range(len(op.values)):
        for mine in (whole, lambda: rng.choice(every)):
            assert_hull(score_backward(op, place, results, every, mine), len(results))


@pytest.mark.soak
@pytest.mark.parametrize("name", OPERATORS)
def test_many_intervals(name: str) -> None:
    forward, backward = tightness.measure(OPERATORS[name], 120, random.Random(name + " soak"))
    assert_hull(forward, 100)
    assert_hull(backward, 3)


# binary16: one argument exhaustively


def assert_listed(name: str, score: halves.HalfScore) -> None:
    """Nothing lost, no NaN unannounced, and the hull but where the page says why not."""
    assert not score.hidden_nan, score.hidden_nan[0]
    parts = [("forward", score.forward), *(("backward", b) for b in score.backward)]
    for direction, part in parts:
        assert not part.lost, part.lost[0]
        if ("binary16", name, direction) not in tightness.REASONS:
            assert part.exact == part.cases, part.wide[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", halves.UNARY)
def test_every_half_of_one_argument(name: str) -> None:
    score = halves.score_unary(name, 400, random.Random(name))
    assert_listed(name, score)
    assert score.forward.cases == 400
    assert score.backward[0].cases > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", halves.BINARY)
def test_every_half_next_to_a_narrow_interval(name: str) -> None:
    score = halves.score_binary(name, 60, random.Random(name))
    assert_listed(name, score)
    assert score.forward.cases > 100
    assert score.backward[0].cases > 40 < score.backward[1].cases + 5


@pytest.mark.soak
@pytest.mark.parametrize("name", halves.BINARY)
def test_every_half_next_to_many_intervals(name: str) -> None:
    assert_listed(name, halves.score_binary(name, 2500, random.Random(name + " soak")))


@pytest.mark.slow
@pytest.mark.parametrize("domain, name, direction", tightness.REASONS)
def test_operators_listed_as_wide_are_wide(domain: str, name: str, direction: str) -> None:
    assert domain == "binary16"
    for seed in range(15):
        score = halves.score_binary(name, 30, random.Random(seed))
        if any(p.exact < p.cases for p in ([score.forward] if direction == "forward" else score.backward)):
            return
    raise AssertionError(f"{name} {direction} is exact now: strike it off the list")


def test_the_brute_force_finds_a_lost_point() -> None:
    op = next(o for o in operators.integers("int4") if o.name == "add")
    narrow = op.forward
    op.forward = lambda a, b: type(a)(a.domain, narrow(a, b).lo, narrow(a, b).hi - 1)
    assert score_forward(op, [((0, 3), (8, 9))]).lost
    keep = op.backward[0]
    op.backward = (lambda b, c, x: type(x)(x.domain, x.lo + 1, x.hi), keep)
    assert score_backward(op, 0, [(-8, -7)], [(8, 8)], lambda: (0, 15)).lost
