"""Compute values of axes that are not stored: a stored axis plus a number, added in floating point."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.arrow import doubles_of
from ivjoin.shj.registers import NAN_ORDINAL

__all__ = ["with_number"]

_LOW_BITS = np.int64(2**63 - 1)


def with_number(ordinals: np.ndarray, number: float) -> np.ndarray:
    """Add a finite number to doubles given as ordinals; return the ordinals of the sums : int64[n]."""
    with np.errstate(over="ignore"):
        bits = (doubles_of(ordinals) + number).view(np.int64)
    sign = bits >> 63
    out = (bits ^ (sign & _LOW_BITS)) - sign
    out[np.abs(out) >= NAN_ORDINAL] = NAN_ORDINAL
    return out
