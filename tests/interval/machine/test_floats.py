"""Float intervals against every number of binary16: the operation as the machine rounds it, forward and backward."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ivjoin.interval.machine import floats as m
from ivjoin.interval.machine.float_remainders import mod, mod_rev_dividend

F = m.BINARY16
Pair = tuple[float, float]
_BITS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
ALL = np.unique(_BITS[~np.isnan(_BITS)].astype(np.float64) + 0.0)
HALF = ALL.astype(np.float16)
EDGES = [0.0, F.tiny, -F.tiny, F.max, -F.max, math.inf, -math.inf, 1.0, -1.0, 0.5, 1024.0, 2.0**-14]


def number(rng: random.Random) -> float:
    r = rng.random()
    if r < 0.4:
        return rng.choice(EDGES)
    return float(rng.choice(ALL)) if r < 0.7 else F.near(rng.uniform(-10, 10))


def interval(rng: random.Random) -> Pair:
    a = number(rng)
    if rng.random() < 0.5:
        i = int(np.searchsorted(ALL, a))
        return float(ALL[i]), float(ALL[min(len(ALL) - 1, i + rng.choice([0, 0, 1, 2, 5, 30]))])
    b = number(rng)
    return min(a, b) + 0.0, max(a, b) + 0.0


def members(a: Pair) -> np.ndarray:
    return HALF[np.searchsorted(ALL, a[0]) : np.searchsorted(ALL, a[1], side="right")]


def some(x: np.ndarray, rng: random.Random, n: int = 16) -> np.ndarray:
    """The ends of an array, and some between."""
    if len(x) <= n:
        return x
    return x[sorted({0, 1, len(x) - 1, len(x) - 2, *(rng.randrange(len(x)) for _ in range(n))})]


def test_neighbours_and_rounding() -> None:
    assert [F.up(x) for x in ALL[:-1].tolist()] == ALL[1:].tolist()
    assert [F.down(x) for x in ALL[1:].tolist()] == ALL[:-1].tolist()
    assert [F.near(x) for x in ALL.tolist()] == ALL.tolist()
    assert F.near(65519.0) == 65504.0
    assert F.near(65520.0) == math.inf
    for x in (0.1, -0.1, 1e-9, 70000.0, 65505.0):
        assert F.floor(x) <= x <= F.ceil(x)
        assert F.up(F.floor(x)) >= F.ceil(x)


@pytest.mark.parametrize("f", [m.BINARY32, m.BINARY64])
def test_formats_of_columns(f: m.Format) -> None:
    t = np.float32 if f.bits == 32 else np.float64
    assert f.max == float(np.finfo(t).max)
    assert f.tiny == float(np.finfo(t).smallest_subnormal)
    for x in (0.0, 1.0, -1.0, f.tiny, -f.tiny, 0.1, -1e-30):
        y = f.near(x)
        assert f.up(y) == float(np.nextafter(t(y), t(math.inf)))
        assert f.down(y) == float(np.nextafter(t(y), t(-math.inf)))
    assert f.up(f.max) == math.inf == -f.down(-f.max)
    assert f.down(math.inf) == f.max


def test_neighbours_of_doubles_that_a_format_has_not() -> None:
    f = m.BINARY32
    for x in (0.1, -0.1, 1 + 2.0**-40, -1 - 2.0**-40, f.tiny / 4, 1e9 + 0.3):
        assert f.down(x) == f.floor(x) < x < f.ceil(x) == f.up(x)
    for far in (1e39, 1e300, math.inf):
        assert (f.up(far), f.down(far), f.up(-far), f.down(-far)) == (math.inf, f.max, -f.max, -math.inf)


FORWARD: list[Any] = [
    pytest.param(np.add, m.add, m.add_nan, 0.98, id="add"),
    pytest.param(np.multiply, m.mul, m.mul_nan, 0.98, id="mul"),
    pytest.param(np.divide, m.div, m.div_nan, 0.85, id="div"),
    pytest.param(np.fmod, mod, None, 0.3, id="mod"),
]


@pytest.mark.parametrize("op, f, makes_nan, exact", FORWARD)
def test_forward(op: Any, f: Callable[..., Pair], makes_nan: Any, exact: float) -> None:
    rng, hits, n = random.Random(1), 0, 0
    for _ in range(700):
        a, b = interval(rng), interval(rng)
        x, y = some(members(a), rng), some(members(b), rng)
        if op in (np.divide, np.fmod):
            y = y[y != 0]
        with np.errstate(all="ignore"):
            r = op(x[:, None], y[None, :]).astype(np.float64)
        nan = bool(np.isnan(r).any())
        if makes_nan is not None and nan:
            assert makes_nan(a, b), (a, b)
        r = r[~np.isnan(r)]
        if not r.size:
            continue
        got = f(F, a, b)
        assert got[0] <= r.min() and r.max() <= got[1], (a, b, got, r.min(), r.max())
        n += 1
        hits += got == (r.min(), r.max())
    assert n > 300
    assert hits >= exact * n


BACKWARD: list[Any] = [
    pytest.param(np.add, lambda z, b, x: m.add_rev(F, z, b, x), 0, id="add"),
    pytest.param(np.multiply, lambda z, b, x: m.mul_rev(F, z, b, x), 0, id="mul"),
    pytest.param(np.divide, lambda z, b, x: m.div_rev_dividend(F, z, b, x), 0, id="dividend"),
    pytest.param(np.divide, lambda z, b, x: m.div_rev_divisor(F, z, b, x), 1, id="divisor"),
    pytest.param(np.fmod, mod_rev_dividend, 0, id="mod"),
]


@pytest.mark.slow
@pytest.mark.parametrize("op, f, place", BACKWARD)
def test_backward(op: Any, f: Callable[[Pair, Pair, Pair], Pair], place: int) -> None:
    """Tight targets around true results: where inverting the real operation loses points."""
    rng = random.Random(2)
    checked = 0
    for _ in range(120):
        b = interval(rng)
        others = some(members(b), rng, 4)
        one, other = rng.choice(HALF), rng.choice(others)
        with np.errstate(all="ignore"):
            z0 = float(op(one, other) if place == 0 else op(other, one)) + 0.0
        if math.isnan(z0):
            continue
        z = rng.choice([(z0, z0), (F.down(z0), z0), (z0, F.up(z0)), (min(z0, 0.0), max(z0, 0.0))])
        x = rng.choice([(-math.inf, math.inf), interval(rng)])
        mine = members(x)
        if op in (np.divide, np.fmod):
            others, mine = (others[others != 0], mine) if place == 0 else (others, mine[mine != 0])
        if not len(others) or not len(mine):
            continue
        with np.errstate(all="ignore"):
            r = op(mine[:, None], others[None, :]) if place == 0 else op(others[None, :], mine[:, None])
        hit = mine[((r >= z[0]) & (r <= z[1])).any(axis=1)].astype(np.float64)
        got = f(z, b, x)
        checked += 1
        if hit.size:
            assert got[0] <= hit.min() and hit.max() <= got[1], (z, b, x, got, hit.min(), hit.max())
    assert checked > 70


def test_backward_is_tight_for_a_sum_with_a_constant() -> None:
    rng, hits, n = random.Random(3), 0, 150
    for _ in range(n):
        b = F.near(rng.uniform(-100, 100))
        z0 = F.near(rng.uniform(-100, 100))
        with np.errstate(all="ignore"):
            hit = HALF[(HALF + np.float16(b)) == np.float16(z0)].astype(np.float64)
        got = m.add_rev(F, (z0, z0), (b, b), (-math.inf, math.inf))
        want = (hit.min(), hit.max()) if hit.size else m.EMPTY
        assert got[0] <= want[0] and want[1] <= got[1]
        hits += got == want or (not hit.size and got[0] > got[1])
    assert hits >= 0.9 * n


def test_squares() -> None:
    rng = random.Random(4)
    for _ in range(200):
        z, x = interval(rng), interval(rng)
        with np.errstate(all="ignore"):
            mine = members(x)
            r = mine * mine
        hit = mine[(r >= z[0]) & (r <= z[1])].astype(np.float64)
        assert m.sqr_rev(F, z, x) == ((hit.min(), hit.max()) if hit.size else m.EMPTY)


def test_the_real_inverse_would_lose_a_point() -> None:
    f = m.BINARY64
    target = math.nextafter(1.0, 2)
    assert target == 1.5e-16 + 1.0
    lo, _ = m.add_rev(f, (target, math.inf), (1.0, 1.0), (-math.inf, math.inf))
    assert lo <= 1.5e-16 < target - 1.0


def test_overflow_and_underflow() -> None:
    f = m.BINARY64
    assert m.mul(f, (1e308, 1.7e308), (10.0, 10.0)) == (math.inf, math.inf)
    assert m.mul_rev(f, (1.79e308, math.inf), (10.0, 10.0), (0.0, math.inf))[0] <= 1.79e307
    # 1e-200 squared is 0.0: a product of 0.0 does not make a factor zero.
    assert m.mul_rev(f, (0.0, 0.0), (1e-200, 1e-200), (-math.inf, math.inf))[1] >= 1e-200
    assert m.sqr_rev(f, (0.0, 0.0), (-math.inf, math.inf))[1] >= 1e-170
