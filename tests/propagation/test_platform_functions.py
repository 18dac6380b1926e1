"""The C library's and numpy's functions on this platform err by no more than the bounds of functions allow for."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from ivjoin.expr.ordinal import value_of
from ivjoin.expr.types import FLOAT64
from ivjoin.functions.numbers.elementary import OPERATORS, _cube_root
from ivjoin.functions.rules.rules_function import _STEPS, LIBRARY_ULPS, lower, upper

MP = mpmath.MPContext()
MP.prec = 200  # mpmath reduces arguments with as much more as they need


def _mp_cbrt(x: Any) -> Any:
    return MP.sign(x) * MP.cbrt(abs(x))


# rule: numpy's, or ours of numpy's, the C library's, the true one
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., float], Callable[..., Any]]] = {
    "exp": (np.exp, math.exp, MP.exp), "expm1": (np.expm1, math.expm1, MP.expm1),
    "ln": (np.log, math.log, MP.ln), "log10": (np.log10, math.log10, MP.log10),
    "log2": (np.log2, math.log2, lambda x: MP.log(x, 2)), "log1p": (np.log1p, math.log1p, MP.log1p),
    "sinh": (np.sinh, math.sinh, MP.sinh), "cosh": (np.cosh, math.cosh, MP.cosh), "tanh": (np.tanh, math.tanh, MP.tanh),
    "asin": (np.arcsin, math.asin, MP.asin), "acos": (np.arccos, math.acos, MP.acos),
    "atan": (np.arctan, math.atan, MP.atan), "sin": (np.sin, math.sin, MP.sin), "cos": (np.cos, math.cos, MP.cos),
    "tan": (np.tan, math.tan, MP.tan), "cbrt": (_cube_root, math.cbrt, _mp_cbrt),
}  # fmt: skip
EDGES = [
    0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-200, 1e-20, 2.0**-53, 2.0**-27, 1e-5, 0.1, 0.5, math.log(2), 1.0,
    math.pi / 4, math.pi / 2, 2.0, math.e, math.pi, 3 * math.pi / 2, 2 * math.pi, 8.0, 10.0, 22.0, 100.0, 355.0, 709.7,
    709.782712893384, 710.4, 745.1, 1e5, 2.0**31, 1e9, 2.0**53, 1e16, 2.0**62, 1e22, 1e100, 1.7976931348623157e308,
]  # fmt: skip


def arguments(name: str, count: int) -> list[float]:
    rng = random.Random(name)
    top = 0x7FEF_FFFF_FFFF_FFFF
    near = [math.nextafter(x, to) for x in EDGES for to in (-math.inf, math.inf)]
    drawn = [value_of(rng.randint(-top, top), FLOAT64) for _ in range(count)]
    for width in (1, 2, 40, 750):
        drawn += [rng.uniform(-width, width) for _ in range(count)]
    return [s * x for x in (*EDGES, *near) for s in (1, -1)] + drawn


def error(value: float, true: Any) -> Any:
    """How far a value is from the true one, in ulp of the true one."""
    top = MP.mpf(2) ** 1024  # stands for infinity, and for all that is past it
    value, true = (max(-top, min(top, MP.mpf(x))) for x in (value, true))
    return abs(value - true) / MP.mpf(math.ulp(min(abs(float(true)), 1.7976931348623157e308)))


def by_library(f: Callable[..., float], *x: float) -> float | None:
    try:
        return f(*x)
    except (ValueError, OverflowError):  # the rules take limits there, which are not the library's
        return None


def worst(truth: Callable[..., Any], cases: list[tuple[float, ...]], values: list[float | None]) -> Any:
    """The greatest error, with where it is; arguments at which there is no real value are left out."""
    out: tuple[Any, ...] = (0,)
    n = 0
    for x, y in zip(cases, values, strict=True):
        if y is None or y != y:
            continue
        true = truth(*map(MP.mpf, x))
        if not isinstance(true, MP.mpf) or not MP.isfinite(true):
            continue
        n += 1
        out = max(out, (error(y, true), x, y))
    assert n > 100
    return out


def test_every_function_is_here() -> None:
    # IEEE 754 rounds the root right.
    assert {o.name for o in OPERATORS} == {*FUNCTIONS, "sqrt", "pow", "hypot", "atan2"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_one_argument(name: str) -> None:
    by_numpy, by_c, truth = FUNCTIONS[name]
    most = 2000 if name in ("exp", "expm1", "sinh", "cosh") else math.inf  # all is said by then
    xs = [x for x in arguments(name, 60) if abs(x) <= most]
    cases = [(x,) for x in xs]
    with np.errstate(all="ignore"):
        together = by_numpy(np.array(xs)).tolist()
        apart = [float(by_numpy(np.array([x]))[0]) for x in xs]
    for values in (together, apart, [by_library(by_c, *x) for x in cases]):
        assert worst(truth, cases, values)[0] <= LIBRARY_ULPS


def test_powers() -> None:
    rng = random.Random(5)
    bases = [abs(x) for x in arguments("pow", 40)]
    cases = [(b, rng.choice([0.5, -0.5, 1.0, 2.0, 3.0, -1.0, 1 / 3, 10.5, 100.0, rng.uniform(-30, 30)])) for b in bases]
    cases = [(b, n) for b, n in cases if b > 0]
    with np.errstate(all="ignore"):
        values = np.power(*map(np.array, zip(*cases, strict=True))).tolist()
    for found in (values, [by_library(math.pow, *x) for x in cases]):
        assert worst(MP.power, cases, found)[0] <= LIBRARY_ULPS


def test_distances() -> None:
    xs = arguments("hypot", 60)
    ys = [*reversed(arguments("hypot of", 60))]
    cases = [*zip(xs, ys, strict=True), *((x, random.Random(x).uniform(-1, 1) * x) for x in xs)]
    with np.errstate(all="ignore"):
        values = np.hypot(*map(np.array, zip(*cases, strict=True))).tolist()
    for found in (values, [by_library(math.hypot, *x) for x in cases]):
        assert worst(MP.hypot, cases, found)[0] <= LIBRARY_ULPS


def test_angles() -> None:
    ys, xs = arguments("atan2", 60), [*reversed(arguments("atan2 of", 60))]
    cases = [*zip(ys, xs, strict=True), *((y, random.Random(y).uniform(-1, 1) * y) for y in ys)]
    cases = [(y, x) for y, x in cases if y and abs(math.atan2(y, x)) > 2.0**-1000]  # mpmath has no -0
    for found in (np.arctan2(*map(np.array, zip(*cases, strict=True))).tolist(), [math.atan2(*c) for c in cases]):
        assert worst(MP.atan2, cases, found)[0] <= LIBRARY_ULPS


@pytest.mark.parametrize("y", [1.0, -1.0, 2.0**-1022, 1e-320, 0.0, 4.0, math.nextafter(4, 0), 3e200, 1.5])
def test_bounds_are_moved_by_twice_that(y: float) -> None:
    """By both libraries' errors in ulp of the greater number; below a power of two, these are two steps each."""
    least = 2 * LIBRARY_ULPS * MP.mpf(math.ulp(y))
    assert MP.mpf(y) - MP.mpf(lower(y)) >= least
    assert MP.mpf(upper(y)) - MP.mpf(y) >= least
    assert MP.mpf(upper(y)) - MP.mpf(y) <= 4 * least
    assert _STEPS == 16
