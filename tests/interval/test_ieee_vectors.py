"""The ITF1788 test vectors (half of libieeep1788's), one test per operation; vectors/README.md has their licence."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import mpmath
import pytest

from ivjoin import interval as iv
from ivjoin.interval import EMPTY, ENTIRE, Interval

VECTORS = Path(__file__).parent / "vectors"

# Half of the suite has this many cases; a file that goes missing must not pass unnoticed.
TOTAL = 2218

NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

# Functions whose bounds the vectors give only as enclosures: here a result may be wider by two doubles on either side.
# fmt: off
ENCLOSED = {
    "exp", "exp2", "exp10", "log", "log2", "log10", "pow", "pown", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "pown_rev", "pown_rev_bin", "cosh_rev", "cosh_rev_bin",
    "sin_rev", "sin_rev_bin", "cos_rev", "cos_rev_bin", "tan_rev", "tan_rev_bin",
}
# fmt: on
ALLOWED_ULPS = 2

# Two vectors whose printed bound is one double wider than the tightest one, which is what comes out here; the last test
# of this file shows it. Such a result lies inside the printed one.
WIDER_THAN_TIGHTEST = [
    ("cos_rev_bin", [[-1.0, -0.9999999999999999], [3.14, 3.15]]),
    ("pown_rev", [[-5e-324, -0.0], -7]),
]

NUMERIC = {"inf", "sup", "mid", "rad", "mid_rad", "wid", "mag", "mig"}


def load() -> dict[str, list[dict[str, Any]]]:
    cases = defaultdict(list)
    for path in sorted(VECTORS.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            cases[snake_case(case["op"])].append(case)
    return dict(cases)


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def decode(value: Any) -> Any:
    if value == "empty":
        return EMPTY
    if value == "entire":
        return ENTIRE
    if isinstance(value, list):
        lo, hi = (NUMBERS.get(end, end) if isinstance(end, str) else end for end in value)
        return Interval(lo, hi)
    if isinstance(value, dict):
        return value["ov"]
    if isinstance(value, str):
        return NUMBERS[value]
    return value


def function(op: str) -> Any:
    """The function of a vector's operation: `x_rev_bin` and `x_rev_ten` are `x_rev` with the interval to contract."""
    if op == "pown_rev_bin":  # its exponent comes last
        return lambda c, x, n: iv.pown_rev(c, n, x)
    return getattr(iv, re.sub(r"_rev_(bin|ten)$", "_rev", op))


def agrees(op: str, got: Any, expected: Any) -> bool:
    if isinstance(expected, Interval):
        if op not in ENCLOSED:
            return got == expected
        if iv.is_empty(expected) or iv.is_empty(got):
            return got == expected
        return iv.subset(expected, got) and excess(got, expected) <= ALLOWED_ULPS
    if op in NUMERIC:
        if math.isnan(expected):
            return math.isnan(got)
        return got == expected and math.copysign(1.0, got) == math.copysign(1.0, expected)
    return type(got) is type(expected) and got == expected if isinstance(expected, bool) else got == expected


def excess(got: Interval, expected: Interval) -> int:
    """How many doubles `got` reaches beyond `expected`, at the worse end."""
    return max(steps(got.inf, expected.inf), steps(expected.sup, got.sup))


def steps(low: float, high: float) -> int:
    count = 0
    while low < high and count <= ALLOWED_ULPS:
        low = math.nextafter(low, math.inf)
        count += 1
    return count


CASES = load()


def test_no_vector_is_missing():
    assert sum(map(len, CASES.values())) == TOTAL
    assert len(CASES) == 80


@pytest.mark.parametrize("op", sorted(CASES))
def test_vectors(op):
    call = function(op)
    wrong = []
    for case in CASES[op]:
        if (op, case["args"]) in WIDER_THAN_TIGHTEST:
            continue
        expected = [decode(value) for value in case["expected"]]
        got = call(*map(decode, case["args"]))
        results = got if isinstance(got, tuple) else (got,)
        if len(results) != len(expected) or not all(agrees(op, g, e) for g, e in zip(results, expected)):
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
