"""Intervals of doubles by IEEE 1788-2015, and of the other value domains under the same names.

`Interval` is a closed set of real numbers. Every function encloses the values of the real function over the members of
its arguments, with correctly rounded bounds (set-based, bare). ``reals/CONFORMANCE.md`` lists the clauses of the
standard and the ones that are not implemented.

`interval` makes a `DomainInterval`: ints of any width, decimals, dates, times and timestamps, durations, months, and
floats as the machine computes with them. The functions of the same names enclose what an engine computes with such
values: exact, truncated, rounded or clamped. A value that overflows is an error and not a result. ``f_rev`` is the
backward function. Comparisons, IS NULL, IN and the connectives take and return `BoolInterval`. ``docs/intervals.md``
describes all of them.

Importing this package checks that the processor rounds to nearest and does not flush subnormal numbers. Some names
(``abs``, ``min``, ``max``, ``pow``) shadow built-in functions: import the package, not its names.

    from ivjoin import interval as iv
    iv.sqrt(iv.Interval(2, 3))
    iv.mul_rev(iv.interval("int8", 3, 3), iv.interval("int8", 5, 10))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ivjoin.interval.machine.rounding import check_float_mode as _check_float_mode

if TYPE_CHECKING:
    from ivjoin.interval.library import *  # noqa: F403

_check_float_mode()


def __getattr__(name: str) -> Any:
    # A join needs only a part of the package; the rest is loaded with the first public name.
    library = import_module("ivjoin.interval.library")
    if name != "__all__" and name not in library.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(library, name)
    return value


def __dir__() -> list[str]:
    return list(import_module("ivjoin.interval.library").__all__)
