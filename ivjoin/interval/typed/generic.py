"""The public functions that accept intervals of reals, typed intervals and plain values.

Two `Interval` select the real function directly. Otherwise ``exact.py`` or ``sets.py`` has the function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ivjoin.interval.reals import arithmetic, numeric, relations, reverse, reverse_basic, sets
from ivjoin.interval.reals.bare import ENTIRE, Interval
from ivjoin.interval.typed import exact
from ivjoin.interval.typed import sets as typed_sets
from ivjoin.interval.typed.intervals import DomainInterval

__all__ = [
    "abs", "abs_rev", "add", "add_rev", "ceil", "ceil_rev", "contains", "convex_hull", "disjoint", "div", "div_rev1",
    "div_rev2", "equal", "floor", "floor_rev", "inf", "interior", "intersection", "is_common_interval", "is_empty",
    "is_entire", "is_member", "is_singleton", "less", "mag", "max", "max_rev", "mid", "mig", "min", "min_rev", "mul",
    "mul_rev", "neg", "neg_rev", "overlap", "pown", "pown_rev", "precedes", "sign", "sign_rev", "sqr", "sqr_rev",
    "strict_less", "strict_precedes", "sub", "sub_rev1", "sub_rev2", "subset", "sup", "wid",
]  # fmt: skip

# Arguments and results may be real or typed intervals; only Any describes both.
Function = Callable[..., Any]


def _named(function: Function, real: Function) -> Function:
    """Return the function under the real one's name, text and (for ``inspect.signature``) arguments."""
    return wraps(real)(function)


def _one(real: Function, typed: Function) -> Function:
    def function(x: Any) -> Any:
        return real(x) if type(x) is Interval or not isinstance(x, DomainInterval) else typed(x)

    return _named(function, real)


def _two(real: Function, typed: Function) -> Function:
    def function(x: Any, y: Any) -> Any:
        if type(x) is Interval is type(y):
            return real(x, y)
        return typed(x, y) if isinstance(x, DomainInterval) or isinstance(y, DomainInterval) else real(x, y)

    return _named(function, real)


def _reverse_of_one(real: Function, typed: Function) -> Function:
    def function(c: Any, x: Any = ENTIRE) -> Any:
        if type(c) is Interval is type(x):
            return real(c, x)
        if isinstance(c, DomainInterval) or isinstance(x, DomainInterval):
            return typed(c, None if x is ENTIRE else x)
        return real(c, x)

    return _named(function, real)


def _reverse_of_power(real: Function, typed: Function) -> Function:
    def function(c: Any, n: int, x: Any = ENTIRE) -> Any:
        if type(c) is Interval is type(x):
            return real(c, n, x)
        if isinstance(c, DomainInterval) or isinstance(x, DomainInterval):
            return typed(c, n, None if x is ENTIRE else x)
        return real(c, n, x)

    return _named(function, real)


def _reverse_of_two(real: Function, typed: Function) -> Function:
    def function(b: Any, c: Any, x: Any = ENTIRE) -> Any:
        if type(b) is Interval is type(c) and type(x) is Interval:
            return real(b, c, x)
        if any(isinstance(a, DomainInterval) for a in (b, c, x)):
            return typed(b, c, None if x is ENTIRE else x)
        return real(b, c, x)

    return _named(function, real)


abs = _one(arithmetic.abs, exact.abs)
ceil = _one(arithmetic.ceil, exact.ceil)
floor = _one(arithmetic.floor, exact.floor)
neg = _one(arithmetic.neg, exact.neg)
sign = _one(arithmetic.sign, exact.sign)
sqr = _one(arithmetic.sqr, exact.sqr)
add = _two(arithmetic.add, exact.add)
div = _two(arithmetic.div, exact.div)
max = _two(arithmetic.max, exact.max)
min = _two(arithmetic.min, exact.min)
mul = _two(arithmetic.mul, exact.mul)
pown = _two(arithmetic.pown, exact.pown)
sub = _two(arithmetic.sub, exact.sub)
abs_rev = _reverse_of_one(reverse.abs_rev, exact.abs_rev)
sqr_rev = _reverse_of_one(reverse.sqr_rev, exact.sqr_rev)
ceil_rev = _reverse_of_one(reverse_basic.ceil_rev, exact.ceil_rev)
floor_rev = _reverse_of_one(reverse_basic.floor_rev, exact.floor_rev)
neg_rev = _reverse_of_one(reverse_basic.neg_rev, exact.neg_rev)
sign_rev = _reverse_of_one(reverse_basic.sign_rev, exact.sign_rev)
mul_rev = _reverse_of_two(reverse.mul_rev, exact.mul_rev)
pown_rev = _reverse_of_power(reverse.pown_rev, exact.pown_rev)
add_rev = _reverse_of_two(reverse_basic.add_rev, exact.add_rev)
div_rev1 = _reverse_of_two(reverse_basic.div_rev1, exact.div_rev1)
div_rev2 = _reverse_of_two(reverse_basic.div_rev2, exact.div_rev2)
max_rev = _reverse_of_two(reverse_basic.max_rev, exact.max_rev)
min_rev = _reverse_of_two(reverse_basic.min_rev, exact.min_rev)
sub_rev1 = _reverse_of_two(reverse_basic.sub_rev1, exact.sub_rev1)
sub_rev2 = _reverse_of_two(reverse_basic.sub_rev2, exact.sub_rev2)
convex_hull = _two(sets.convex_hull, typed_sets.convex_hull)
intersection = _two(sets.intersection, typed_sets.intersection)
is_common_interval = _one(relations.is_common_interval, typed_sets.is_common_interval)
is_empty = _one(relations.is_empty, typed_sets.is_empty)
is_entire = _one(relations.is_entire, typed_sets.is_entire)
is_singleton = _one(relations.is_singleton, typed_sets.is_singleton)
contains = _two(relations.contains, typed_sets.contains)
disjoint = _two(relations.disjoint, typed_sets.disjoint)
equal = _two(relations.equal, typed_sets.equal)
interior = _two(relations.interior, typed_sets.interior)
is_member = _two(relations.is_member, typed_sets.is_member)
less = _two(relations.less, typed_sets.less)
overlap = _two(relations.overlap, typed_sets.overlap)
precedes = _two(relations.precedes, typed_sets.precedes)
strict_less = _two(relations.strict_less, typed_sets.strict_less)
strict_precedes = _two(relations.strict_precedes, typed_sets.strict_precedes)
subset = _two(relations.subset, typed_sets.subset)
inf = _one(numeric.inf, typed_sets.inf)
mag = _one(numeric.mag, typed_sets.mag)
mid = _one(numeric.mid, typed_sets.mid)
mig = _one(numeric.mig, typed_sets.mig)
sup = _one(numeric.sup, typed_sets.sup)
wid = _one(numeric.wid, typed_sets.wid)
