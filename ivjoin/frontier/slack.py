"""Slack: how far a row may fall below the greatest value before it, in the units of a type.

Edges are ordinals of greatest values, inverted (``~v``) if the order falls. The functions return exactly the least
(inverted) ordinal that fulfils the promise.
"""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ivjoin.errors import OrderError, came
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import FLOAT64, TICKS_PER_SECOND, Type
from ivjoin.frontier.durations import EXAMPLES, at_least, seconds_of_text
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["as_double", "doubles_below", "exactly_below", "slack_of_text", "slack_ticks", "ticks_below"]


def slack_of_text(text: str) -> timedelta:
    """Return the slack of a text such as ``10s``; OrderError if it is not a duration."""
    seconds = seconds_of_text(text)
    if seconds is None:
        raise OrderError(f"slack is {came(text)}; expected a number, a timedelta, or text such as {EXAMPLES}")
    try:
        return at_least(seconds)  # a promise may only be loosened
    except OverflowError as e:
        raise OrderError(f"slack is {came(text)}; expected at most {timedelta.max.days} days") from e


def slack_ticks(slack: Any, t: Type, where: str) -> int | Fraction:
    """Return the exact slack in physical units of a type: whole ticks for ordinal types, a fraction for floats."""
    if slack is None:
        return 0
    if isinstance(slack, timedelta):
        micros = (slack.days * 86_400 + slack.seconds) * 1_000_000 + slack.microseconds
        if t.kind == "date":
            return micros // 86_400_000_000
        if t.kind in ("timestamp", "time", "duration"):
            return micros * TICKS_PER_SECOND[t.unit] // 1_000_000
        raise OrderError(f"slack of {where} is a timedelta, but its type is {t}; expected a number")
    if t.kind in ("timestamp", "time", "duration"):
        raise OrderError(f"slack of {where} is the number {slack!r}, but its type is {t}; expected a timedelta")
    if t.kind == "bool":
        raise OrderError(f"slack of {where} is {slack!r}, but a bool has no distance; leave slack out")
    if not (slack.is_finite() if isinstance(slack, Decimal) else isinstance(slack, int) or math.isfinite(slack)):
        raise OrderError(f"slack of {where} is {slack!r}; expected a finite number, or no order at all")
    if t.kind == "float":
        return Fraction(slack)
    exact = Fraction(slack if isinstance(slack, int) else Decimal(str(slack)))
    return math.floor(exact * (10**t.scale if t.kind == "decimal" else 1))


def as_double(slack: int | Fraction) -> float | None:
    """Return the number as a double; None if a double cannot represent it."""
    try:
        near = float(slack)
    except OverflowError:
        return None
    return near if Fraction(near) == slack else None


def ticks_below(edges: np.ndarray, slack: int) -> np.ndarray:
    """Return the least ordinals for a slack in whole ticks : int64[n]."""
    first = I64_MIN + slack  # the least edge with an effect
    if first > I64_MAX:
        return np.full_like(edges, I64_MIN)
    # Counted from the least value, so that a slack beyond int64 does not occur here.
    return np.where(edges < first, I64_MIN, (edges - first) + I64_MIN)


def doubles_below(edges: np.ndarray, slack: float, falling: int) -> np.ndarray:
    """Return the least ordinals (int64[n]) for a slack and edges that are doubles; ``falling`` is 1 if the order falls.

    The error of a difference of doubles is a double (Knuth 1969, 4.2.2, theorem B). If the difference was rounded down,
    the next double is the least one. The kernels' ``double_below`` computes the same.
    """
    values = _values(edges, falling)
    with np.errstate(over="ignore", invalid="ignore"):
        least = values - slack
        back = least - values
        rest = (values - (least - back)) - (slack + back)
    return np.where(edges == I64_MIN, edges, ordinals(least, FLOAT64) - falling + (rest > 0))


def exactly_below(edges: np.ndarray, slack: int | Fraction, falling: int) -> np.ndarray:
    """Do the same as :func:`doubles_below` for a slack that a double cannot represent."""
    # This is rare, so a loop is fast enough.
    distinct, back = np.unique(edges, return_inverse=True)
    least = np.array([_less(value, slack) for value in _values(distinct, falling).tolist()])
    found = np.where(distinct == I64_MIN, distinct, ordinals(least, FLOAT64) - falling)
    return found[back]


def _values(edges: np.ndarray, falling: int) -> np.ndarray:
    """Return the doubles of edges, times -1 if the order falls."""
    # An inverted ordinal is one less than the ordinal of the negated value.
    places = edges + falling
    return np.where(places >= 0, places, (places - 1) ^ I64_MAX).view(np.float64)


def _less(value: float, slack: int | Fraction) -> float:
    """Return the least double that is not below the difference."""
    if not math.isfinite(value):
        return value
    exact = Fraction(value) - slack
    try:
        least = float(exact)
    except OverflowError:
        return -math.inf
    return math.nextafter(least, math.inf) if math.isfinite(least) and Fraction(least) < exact else least
