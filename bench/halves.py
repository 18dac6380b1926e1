"""Every number of binary16 through the operators of machine floats: nothing lost, and how often the hull is met.

One argument takes all 63,489 numbers, infinities included; the other those of a narrow sampled interval. Arithmetic is
numpy's, rounded to nearest. NaN is no number: whether a NaN comes out is compared with what the interval says of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.enumeration import Score
from ivjoin import interval as iv

__all__ = ["BINARY", "NUMBERS", "UNARY", "HalfScore", "score_binary", "score_unary"]

_BITS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
NUMBERS = np.unique(_BITS[~np.isnan(_BITS)].astype(np.float64) + 0.0)
HALVES = NUMBERS.astype(np.float16)
HALF = iv.domain("float16")
_TINY, _MAX = 2.0**-24, 65504.0
_EDGES = [0.0, _TINY, -_TINY, _MAX, -_MAX, np.inf, -np.inf, 1.0, -1.0, 0.5, 3.0, -7.0, 1024.0, 2.0**-14, -(2.0**-14)]


def _pmod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    r = np.fmod(x, y)
    return np.where(r < 0, np.fmod(r + y, y), r)


BINARY: dict[str, tuple[Callable[..., Any], bool, Any, Any, Any]] = {
    "add": (np.add, False, iv.add, iv.add_rev, iv.add_rev),
    "sub": (np.subtract, False, iv.sub, iv.sub_rev1, iv.sub_rev2),
    "mul": (np.multiply, False, iv.mul, iv.mul_rev, iv.mul_rev),
    "div": (np.divide, True, iv.div, iv.div_rev1, iv.div_rev2),
    "rem": (np.fmod, True, iv.rem, iv.rem_rev1, iv.rem_rev2),
    "pmod": (_pmod, True, iv.pmod, iv.pmod_rev1, iv.pmod_rev2),
    "min": (np.minimum, False, iv.min, iv.min_rev, iv.min_rev),
    "max": (np.maximum, False, iv.max, iv.max_rev, iv.max_rev),
}
UNARY: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "neg": (np.negative, iv.neg, iv.neg_rev), "abs": (np.abs, iv.abs, iv.abs_rev),
    "sqr": (lambda x: x * x, iv.sqr, iv.sqr_rev), "sign": (np.sign, iv.sign, iv.sign_rev),
    "floor": (np.floor, iv.floor, iv.floor_rev), "ceil": (np.ceil, iv.ceil, iv.ceil_rev),
    "cast to int8": (np.trunc, lambda x: iv.cast(x, "int8"), iv.cast_rev),
    "cast to float64": (lambda x: x, lambda x: iv.cast(x, "float64"), iv.cast_rev),
}  # fmt: skip


@dataclass(slots=True)
class HalfScore:
    """Forward and backward scores of an operator, and cases with an unannounced NaN."""

    forward: Score = field(default_factory=Score)
    backward: tuple[Score, Score] = field(default_factory=lambda: (Score(), Score()))
    hidden_nan: list[Any] = field(default_factory=list)


def _interval(lo: float, hi: float) -> Any:
    return iv.DomainInterval(HALF, float(lo), float(hi))


def _narrow(rng: random.Random) -> tuple[int, int]:
    r = rng.random()
    a = rng.choice(_EDGES) if r < 0.5 else rng.choice(NUMBERS) if r < 0.75 else np.float16(rng.uniform(-10, 10))
    i = int(np.searchsorted(NUMBERS, float(a)))
    return i, min(len(NUMBERS) - 1, i + rng.choice([0, 0, 0, 1, 2, 5]))


def _wide(rng: random.Random, n: int) -> tuple[int, int]:
    i = rng.randrange(n)
    j = min(n - 1, i + rng.choice([0, 1, 10])) if rng.random() < 0.5 else rng.randrange(n)
    return min(i, j), max(i, j)


def _target(results: np.ndarray, valid: np.ndarray, rng: random.Random) -> tuple[float, float] | None:
    """A tight interval around a result that occurs; where inverting the real operation loses points."""
    at = rng.randrange(results.size)
    if not valid.flat[at]:
        return None
    c = float(results.flat[at]) + 0.0
    i = int(np.searchsorted(NUMBERS, c))
    down, up = float(NUMBERS[max(0, i - 1)]), float(NUMBERS[min(len(NUMBERS) - 1, i + 1)])
    return rng.choice([(c, c), (down, c), (c, up), (min(c, 0.0), max(c, 0.0))])


def score_binary(name: str, samples: int, rng: random.Random) -> HalfScore:
    """An operator of two arguments with each of them exhaustive in turn, ``samples`` times."""
    op, divides, forward, *back = BINARY[name]
    score = HalfScore()
    for _ in range(samples):
        i, j = _narrow(rng)
        other = _interval(NUMBERS[i], NUMBERS[j])
        for place in (0, 1):
            mine, others = HALVES, HALVES[i : j + 1]
            if divides:
                mine, others = (mine, others[others != 0]) if place == 0 else (mine[mine != 0], others)
            if not len(others):
                continue
            with np.errstate(all="ignore"):
                a, b = (mine[:, None], others[None, :]) if place == 0 else (others[None, :], mine[:, None])
                r = op(a, b).astype(np.float64) + 0.0
            valid = ~np.isnan(r)
            lo, hi = _wide(rng, len(mine))
            x = _interval(mine[lo], mine[hi])
            part, some = r[lo : hi + 1], valid[lo : hi + 1]
            got = forward(x, other) if place == 0 else forward(other, x)
            want = (part[some].min(), part[some].max()) if some.any() else (1, 0)
            score.forward.add((name, place, x, other), got, want)
            if not some.all() and not got.nan:
                score.hidden_nan.append((name, place, x, other))
            z = _target(r, valid, rng)
            if z is None:
                continue
            if rng.random() < 0.7:
                lo, hi, x = 0, len(mine) - 1, _interval(-np.inf, np.inf)
            hit = (valid & (r >= z[0]) & (r <= z[1])).any(axis=1)
            at = lo + np.flatnonzero(hit[lo : hi + 1])
            want = (float(mine[at[0]]), float(mine[at[-1]])) if at.size else (1, 0)
            got = back[place](other, _interval(*z), x)
            score.backward[place].add((name, place, other, z, x), got, want)
    return score


def score_unary(name: str, samples: int, rng: random.Random) -> HalfScore:
    """An operator of one argument over all numbers."""
    op, forward, back = UNARY[name]
    score = HalfScore()
    with np.errstate(all="ignore"):
        r = op(HALVES).astype(np.float64) + 0.0
    target = forward(_interval(0.0, 0.0)).domain
    least, most = target.limits
    valid = (r >= least) & (r <= most) if target.is_float else (r >= least) & (r <= most) & np.isfinite(r)
    for _ in range(samples):
        lo, hi = _wide(rng, len(HALVES))
        x = _interval(NUMBERS[lo], NUMBERS[hi])
        part = r[lo : hi + 1][valid[lo : hi + 1]]
        score.forward.add((name, x), forward(x), (part.min(), part.max()) if part.size else (1, 0))
        z = _target(r, valid, rng)
        if z is None:
            continue
        if not target.is_float:
            z = (int(np.ceil(z[0])), int(np.floor(z[1])))
            if not (least <= z[0] <= z[1] <= most):
                continue
        hit = valid & (r >= z[0]) & (r <= z[1])
        at = lo + np.flatnonzero(hit[lo : hi + 1])
        want = (float(NUMBERS[at[0]]), float(NUMBERS[at[-1]])) if at.size else (1, 0)
        score.backward[0].add((name, z, x), back(iv.DomainInterval(target, *z), x), want)
    return score
