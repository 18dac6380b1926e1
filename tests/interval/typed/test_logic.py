"""Boolean intervals, comparisons, NULL and IN against enumeration, over all intervals of four values, NULL and NaN."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest

from ivjoin import interval as iv
from ivjoin.interval import BoolInterval, DomainInterval, interval

NAN = float("nan")
TINY = 2.0**-24
DOMAINS = {"int2": (-2, -1, 0, 1), "float16": (-TINY, 0.0, TINY, 2 * TINY)}
TRUTHS = [BoolInterval(*(v for v, bit in ((True, 1), (False, 2), (None, 4)) if mask & bit)) for mask in range(8)]


def intervals(domain: str) -> list[DomainInterval]:
    """All intervals of four neighbouring values, with and without NULL and NaN."""
    values, out = DOMAINS[domain], []
    for null, nan in product((False, True), (False, True) if domain == "float16" else (False,)):
        out.append(interval(domain, empty=True, null=null, nan=nan))
        for i, lo in enumerate(values):
            out += [interval(domain, lo, hi, null=null, nan=nan) for hi in values[i:]]
    return out


def members(x: Any) -> list[Any]:
    """NaN as the string "nan", which is equal to itself."""
    if isinstance(x, BoolInterval):
        return list(x.members)
    values = [v for v in DOMAINS[str(x.domain)] if x.lo <= v <= x.hi]
    return values + ["nan"] * x.nan + [None] * x.null


def rank(v: Any) -> tuple[int, Any]:
    return (1, 0) if v == "nan" else (0, v)


def compared(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    return lambda a, b: None if a is None or b is None else test(rank(a), rank(b))


COMPARISONS: list[Any] = [
    pytest.param(iv.lt, iv.lt_rev, compared(lambda a, b: a < b), id="lt"),
    pytest.param(iv.le, iv.le_rev, compared(lambda a, b: a <= b), id="le"),
    pytest.param(iv.gt, iv.gt_rev, compared(lambda a, b: a > b), id="gt"),
    pytest.param(iv.ge, iv.ge_rev, compared(lambda a, b: a >= b), id="ge"),
    pytest.param(iv.eq, iv.eq_rev, compared(lambda a, b: a == b), id="eq"),
    pytest.param(iv.ne, iv.ne_rev, compared(lambda a, b: a != b), id="ne"),
    pytest.param(iv.null_safe_eq, iv.null_safe_eq_rev, lambda a, b: a == b, id="null-safe"),
]


def hull(domain: str, values: Iterable[Any]) -> DomainInterval:
    found = list(values)
    numbers = [v for v in found if v is not None and v != "nan"]
    flags = {"null": None in found, "nan": "nan" in found}
    if not numbers:
        return interval(domain, empty=True, **flags)
    return interval(domain, min(numbers), max(numbers), **flags)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("forward, backward, test", COMPARISONS)
def test_comparisons(domain: str, forward: Any, backward: Any, test: Any) -> None:
    every = intervals(domain)
    for x, y in product(every, every):
        table = [(a, b, test(a, b)) for a in members(x) for b in members(y)]
        assert forward(x, y) == BoolInterval(*{t for _, _, t in table}), (x, y)
    for x, y in product(every[::3], every[1::2]):
        table = [(a, b, test(a, b)) for a in members(x) for b in members(y)]
        for wanted in TRUTHS:
            kept = [(a, b) for a, b, t in table if t in wanted]
            want = hull(domain, (a for a, _ in kept)), hull(domain, (b for _, b in kept))
            assert backward(wanted, x, y) == want, (wanted, x, y)


@pytest.mark.parametrize("domain", DOMAINS)
def test_unequal_values_in_two_pieces(domain: str) -> None:
    for x, y in product(intervals(domain), intervals(domain)):
        first, second = iv.ne_rev_to_pair(y, x)
        want = {a for a in members(x) for b in members(y) if None not in (a, b) and a != b}
        assert set(members(first)) | set(members(second)) == want, (x, y)
        assert not set(members(first)) & set(members(second))
        assert second.is_void or first.hi < second.lo


@pytest.mark.parametrize("domain", DOMAINS)
def test_null(domain: str) -> None:
    every = intervals(domain)
    for x in every:
        assert iv.is_null(x) == BoolInterval(*{a is None for a in members(x)})
        for wanted in TRUTHS:
            assert iv.is_null_rev(wanted, x) == hull(domain, (a for a in members(x) if (a is None) in wanted))
    for x, y in product(every, every):
        values = {b if a is None else a for a in members(x) for b in members(y) or ["missing"]} - {"missing"}
        if members(x):
            assert iv.coalesce(x, y) == hull(domain, values), (x, y)


@pytest.mark.parametrize("domain", DOMAINS)
def test_coalesce_backward(domain: str) -> None:
    every = intervals(domain)
    for x, y, c in product(every[::2], every[1::3], every[::3]):
        if not members(y):
            continue
        pairs = [(a, b) for a in members(x) for b in members(y) if (b if a is None else a) in members(c)]
        got_x, got_y = iv.coalesce_rev(c, x, y)
        assert got_x == hull(domain, (a for a, _ in pairs)), (x, y, c)
        assert set(members(got_y)) >= {b for _, b in pairs}
        assert iv.subset(got_y, y)
        if all(a is None for a, _ in pairs):
            assert got_y == hull(domain, (b for _, b in pairs)), (x, y, c)


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_in(domain: str) -> None:
    values = [*DOMAINS[domain], None]
    lists = [[v] for v in values] + [[a, b] for a in values for b in values] + [values[:2] + values[3:], []]
    for x, items in product(intervals(domain), lists):

        def test(a: Any, items: list[Any] = items) -> bool | None:
            found = [None if a is None or b is None else a == b for b in items]
            return True if True in found else None if None in found else False

        table = [(a, test(a)) for a in members(x)]
        if items:
            assert set(iv.is_in(x, items).members) >= {t for _, t in table}, (x, items)
            if len(items) == 1:
                assert iv.is_in(x, items) == BoolInterval(*{t for _, t in table})
        for wanted in TRUTHS:
            want = hull(domain, (a for a, t in table if t in wanted))
            got = iv.is_in_rev(wanted, x, items)
            assert iv.subset(want, got), (wanted, x, items)
            if wanted in (BoolInterval(True), BoolInterval(False)):
                assert got == want, (wanted, x, items)


def decided(args: tuple[Any, ...], by: bool) -> Any:
    """AND (decided by False) or OR (by True) of values; "error" where one is met before the decision."""
    null = False
    for a in args:
        if a is by:
            return by
        if a == "error":
            return "error"
        null = null or a is None
    return None if null else not by


CONNECTIVES = [(iv.logical_and, iv.logical_and_rev, False), (iv.logical_or, iv.logical_or_rev, True)]


@pytest.mark.parametrize("forward, backward, by", CONNECTIVES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_connectives(forward: Any, backward: Any, by: bool, n: int) -> None:
    for args in product(TRUTHS, repeat=n):
        points = list(product(*(members(a) or ["error"] for a in args)))
        results = [decided(p, by) for p in points]
        assert forward(*args) == BoolInterval(*(set(results) - {"error"})), args
        for wanted in TRUTHS[:: 1 if n < 3 else 3]:
            kept = [p for p, r in zip(points, results) if r != "error" and r in wanted]
            for i, got in enumerate(backward(wanted, *args)):
                assert set(got.members) == {p[i] for p in kept} - {"error"}, (wanted, args, i)


def test_not() -> None:
    for x, wanted in product(TRUTHS, TRUTHS):
        flipped = {True: False, False: True, None: None}
        assert iv.logical_not(x) == BoolInterval(*(flipped[v] for v in x.members))
        assert iv.logical_not_rev(wanted, x) == BoolInterval(*(v for v in x.members if flipped[v] in wanted))


def every_min(a: Any, b: Any, greater: bool) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return (max if greater else min)(a, b, key=rank)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("greater", [False, True])
def test_least_and_greatest(domain: str, greater: bool) -> None:
    forward, backward = (iv.max, iv.max_rev) if greater else (iv.min, iv.min_rev)
    every = intervals(domain)
    for x, y in product(every, every):
        table = [(a, every_min(a, b, greater)) for a in members(x) for b in members(y)]
        assert forward(x, y) == hull(domain, (r for _, r in table)), (x, y)
    for x, y, c in product(every[::2], every[1::2], every[::3]):
        want = hull(domain, (a for a in members(x) for b in members(y) if every_min(a, b, greater) in members(c)))
        assert backward(y, c, x) == want, (x, y, c)


ARITHMETIC: list[Any] = [
    (iv.add, iv.add_rev, lambda a, b: a + b), (iv.sub, iv.sub_rev1, lambda a, b: a - b),
    (iv.mul, iv.mul_rev, lambda a, b: a * b),
]


@pytest.mark.parametrize("forward, backward, op", ARITHMETIC, ids=["add", "sub", "mul"])
def test_arithmetic_takes_null_along(forward: Any, backward: Any, op: Any) -> None:
    every = intervals("int2")

    def value(a: Any, b: Any) -> Any:
        r = None if a is None or b is None else op(a, b)
        return r if r is None or -2 <= r <= 1 else "error"

    for x, y in product(every, every):
        want = {value(a, b) for a in members(x) for b in members(y)} - {"error"}
        got = forward(x, y)
        assert set(members(got)) >= want
        assert got.null == (None in want) or not members(x) or not members(y)
    for x, y, c in product(every[::2], every[::3], every[1::2]):
        want_x = hull("int2", (a for a in members(x) for b in members(y) if value(a, b) in members(c)))
        got = backward(y, c, x)
        assert iv.subset(want_x, got), (x, y, c)
        if members(y):
            assert got.null == want_x.null, (x, y, c)


def test_bool_intervals_and_their_names() -> None:
    x = BoolInterval(True, None)
    assert repr(x) == "BoolInterval(True, None)"
    assert pickle.loads(pickle.dumps(x)) == x
    assert hash(x) == hash(BoolInterval(None, True))
    assert (x.may_be_true, x.may_be_false, x.null) == (True, False, True)
    assert True in x
    assert False not in x
    with pytest.raises(TypeError, match="True, False and None"):
        BoolInterval(1)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="immutable"):
        x.mask = 0
    with pytest.raises(iv.IntervalError, match="cannot be compared; cast one"):
        iv.lt(interval("int8", 1, 2), interval("int16", 1, 2))
