"""Check arguments that several functions of this package share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np

from ivjoin.errors import OptionError, came

__all__ = ["near", "number", "one_of"]


def near(value: Any, known: Iterable[str]) -> str:
    """Return the nearest known name as the end of a message; empty if no name is near."""
    found = difflib.get_close_matches(str(value)[:80], list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the known words, or raise OptionError with the nearest one."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(map(repr, known[:-1]))
        raise OptionError(f"{name} is {came(value)}; expected {words} or {known[-1]!r}{near(value, known)}")
    return value


def number(name: str, value: Any, what: str) -> float:
    """Return a finite number of at least 0 as a float; OptionError states ``what`` was expected."""
    plain = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not plain or not 0 <= value < float("inf"):
        raise OptionError(f"{name} is {came(value)}; expected {what}, 0 or more")
    return float(value)
