"""The ITF1788 test vectors (half of libieeep1788's), one test per operation; vectors/README.md has their licence."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import pytest

from bench.vectors import ENCLOSED, WIDER_THAN_TIGHTEST, decode, function, load, passes
from ivjoin import interval as iv
from ivjoin.interval import Interval

# Half of the suite has this many cases; a file that goes missing must not pass unnoticed.
TOTAL = 2218

CASES = load()


def test_no_vector_is_missing():
    assert sum(map(len, CASES.values())) == TOTAL
    assert len(CASES) == 80


@pytest.mark.parametrize("op", sorted(CASES))
def test_vectors(op):
    wrong = []
    for case in CASES[op]:
        right, got = passes(op, case)
        if not right:
            wrong.append(f"{op}{tuple(case['args'])}: expected {case['expected']}, got {got}")
    assert not wrong, "\n".join(wrong)


def test_elementary_functions_give_the_very_bounds_of_the_vectors():
    # The vectors' bounds are the tightest almost everywhere; an excess would be a loss of ours.
    differing = []
    for op in sorted(ENCLOSED):
        for case in CASES[op]:
            if function(op)(*map(decode, case["args"])) != decode(case["expected"][0]):
                differing.append((op, case["args"]))
    assert differing == WIDER_THAN_TIGHTEST


def test_the_two_vectors_that_are_wider_than_the_tightest_interval():
    with mpmath.workprec(300):
        # cos(x) <= -0.9999999999999999 up to x = 2 pi - acos(-0.9999999999999999), about 3.14159266849095443
        last = 2 * mpmath.pi - mpmath.acos(mpmath.mpf(-0.9999999999999999))
        got = iv.cos_rev(Interval(-1.0, -0.9999999999999999), Interval(3.14, 3.15))
        assert math.nextafter(got.sup, 0.0) < last < got.sup < 3.141592668490955
        # x**-7 >= -5e-324 up to x = -5e-324 ** (-1/7), about -1.5367463556376297869e46
        last = -1 / mpmath.root(mpmath.mpf(5e-324), 7)
        got = iv.pown_rev(Interval(-5e-324, 0.0), -7)
        assert math.nextafter(got.sup, -math.inf) < last < got.sup < -1.5367463556376293e46


def test_points_agree_with_integer_series():
    """The file has the bounds that fixed-point series with a proved error gave, independent of mpmath."""
    for line in (Path(__file__).parent / "series.jsonl").read_text().splitlines():
        case = json.loads(line)
        x = float.fromhex(case["x"])
        got = getattr(iv, case["op"])(Interval(x, x))
        assert [got.inf, got.sup] == [float.fromhex(end) for end in case["expected"]], case
