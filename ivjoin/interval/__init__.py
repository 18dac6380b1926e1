"""Intervals of doubles by IEEE 1788-2015, and of the other value domains under the same names.

`Interval` is a closed set of real numbers (set-based, bare, outward rounding). `interval` makes a `DomainInterval`, a
set of ints, decimals, times or machine floats, which encloses what an engine computes. ``docs/intervals.md`` describes
both.

The import checks that the processor rounds to nearest and does not flush subnormal numbers. Import the package, not its
names: ``abs``, ``min``, ``max`` and ``pow`` shadow built-in functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ivjoin.interval import truth  # noqa: F401  here, or reading it from the package would load the library
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
