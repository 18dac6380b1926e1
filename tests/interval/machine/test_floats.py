"""Numbers of the float formats and their neighbours, and bounds of float intervals that were once wrong.

``tests/interval/typed/test_exhaustive.py`` compares every operator with the hull over the numbers of binary16, and
``tests/functions/test_pairs_of_intervals.py`` over pairs of intervals of doubles.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from ivjoin.interval.machine import floats as m

F = m.BINARY16
_BITS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
ALL = np.unique(_BITS[~np.isnan(_BITS)].astype(np.float64) + 0.0)


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
