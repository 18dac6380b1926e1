"""Errors for the ends of an interval, and the comparison of numbers of any size with them."""

from __future__ import annotations

from decimal import Decimal

from ivjoin.errors import IvjoinError

__all__ = ["IntervalError", "IntervalTypeError", "tamed"]


class IntervalError(IvjoinError):
    """Endpoints that do not describe an interval."""


class IntervalTypeError(IntervalError, TypeError):
    """An endpoint whose type does not fit the interval."""


def tamed(number: Decimal) -> Decimal:
    """Return a Decimal with few digits that compares with every double and decimal like the given one."""
    if number and number.adjusted() > _FAR:
        return Decimal((number.is_signed(), (1,), _FAR))
    return Decimal((number.is_signed(), (1,), -_FAR)) if number and number.adjusted() < -_FAR else number


# Beyond the exponents of all doubles and decimals: 10**_FAR is easily written out, 10**999999999 is not.
_FAR = 400
