"""The public functions that accept intervals of reals, typed intervals and plain values.

An argument that is a typed interval selects the function of ``exact.py`` or ``sets.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ivjoin.interval.reals import arithmetic, numeric, relations, reverse, reverse_basic, sets
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


def _either(real: Function, typed: Function) -> Function:
    """Return a function that selects one of two by its arguments, under the real one's name, text and signature."""

    @wraps(real)
    def function(*args: Any, **named: Any) -> Any:
        for a in (*args, *named.values()) if named else args:
            if isinstance(a, DomainInterval):
                return typed(*args, **named)
        return real(*args, **named)

    return function


abs = _either(arithmetic.abs, exact.abs)
ceil = _either(arithmetic.ceil, exact.ceil)
floor = _either(arithmetic.floor, exact.floor)
neg = _either(arithmetic.neg, exact.neg)
sign = _either(arithmetic.sign, exact.sign)
sqr = _either(arithmetic.sqr, exact.sqr)
add = _either(arithmetic.add, exact.add)
div = _either(arithmetic.div, exact.div)
max = _either(arithmetic.max, exact.max)
min = _either(arithmetic.min, exact.min)
mul = _either(arithmetic.mul, exact.mul)
pown = _either(arithmetic.pown, exact.pown)
sub = _either(arithmetic.sub, exact.sub)
abs_rev = _either(reverse.abs_rev, exact.abs_rev)
sqr_rev = _either(reverse.sqr_rev, exact.sqr_rev)
ceil_rev = _either(reverse_basic.ceil_rev, exact.ceil_rev)
floor_rev = _either(reverse_basic.floor_rev, exact.floor_rev)
neg_rev = _either(reverse_basic.neg_rev, exact.neg_rev)
sign_rev = _either(reverse_basic.sign_rev, exact.sign_rev)
mul_rev = _either(reverse.mul_rev, exact.mul_rev)
pown_rev = _either(reverse.pown_rev, exact.pown_rev)
add_rev = _either(reverse_basic.add_rev, exact.add_rev)
div_rev1 = _either(reverse_basic.div_rev1, exact.div_rev1)
div_rev2 = _either(reverse_basic.div_rev2, exact.div_rev2)
max_rev = _either(reverse_basic.max_rev, exact.max_rev)
min_rev = _either(reverse_basic.min_rev, exact.min_rev)
sub_rev1 = _either(reverse_basic.sub_rev1, exact.sub_rev1)
sub_rev2 = _either(reverse_basic.sub_rev2, exact.sub_rev2)
convex_hull = _either(sets.convex_hull, typed_sets.convex_hull)
intersection = _either(sets.intersection, typed_sets.intersection)
is_common_interval = _either(relations.is_common_interval, typed_sets.is_common_interval)
is_empty = _either(relations.is_empty, typed_sets.is_empty)
is_entire = _either(relations.is_entire, typed_sets.is_entire)
is_singleton = _either(relations.is_singleton, typed_sets.is_singleton)
contains = _either(relations.contains, typed_sets.contains)
disjoint = _either(relations.disjoint, typed_sets.disjoint)
equal = _either(relations.equal, typed_sets.equal)
interior = _either(relations.interior, typed_sets.interior)
is_member = _either(relations.is_member, typed_sets.is_member)
less = _either(relations.less, typed_sets.less)
overlap = _either(relations.overlap, typed_sets.overlap)
precedes = _either(relations.precedes, typed_sets.precedes)
strict_less = _either(relations.strict_less, typed_sets.strict_less)
strict_precedes = _either(relations.strict_precedes, typed_sets.strict_precedes)
subset = _either(relations.subset, typed_sets.subset)
inf = _either(numeric.inf, typed_sets.inf)
mag = _either(numeric.mag, typed_sets.mag)
mid = _either(numeric.mid, typed_sets.mid)
mig = _either(numeric.mig, typed_sets.mig)
sup = _either(numeric.sup, typed_sets.sup)
wid = _either(numeric.wid, typed_sets.wid)
