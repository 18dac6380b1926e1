"""Map physical values to ordinals, which are int64 numbers in the same order.

Pruning, bands and declared orders use ordinals. They follow Spark's order: -0.0 equals 0.0, and NaN equals itself and
is greater than +inf. Adjacent values (for floats, adjacent doubles) have adjacent ordinals. A strict bound is therefore
a closed bound moved by one.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ivjoin.expr.types import Type, to_arrow
from ivjoin.interval.machine.bisection import ordinal_of as float_ordinal
from ivjoin.interval.machine.bisection import value_of as float_at

__all__ = ["NAN_ORDINAL", "has_ordinal", "ordinal_of", "ordinals", "python_value", "value_of"]

_INFINITY: Final = 0x7FF0_0000_0000_0000  # the ordinal of +inf is its bit pattern
NAN_ORDINAL: Final = _INFINITY + 1
_TOP_BIT: Final = 1 << 63
_LOW_BITS: Final = np.array((1 << 63) - 1, dtype=np.int64)
_SHIFT: Final = np.array(63, dtype=np.int64)
_PLAIN: Final = frozenset({"int", "date", "time", "timestamp", "duration", "months", "bool"})


def has_ordinal(t: Type) -> bool:
    """Return whether values of the type have ordinals. Numbers, times, bools and decimals up to 18 digits do."""
    return t.kind in _PLAIN or t.kind == "float" or (t.kind == "decimal" and t.precision <= 18)


def ordinals(values: np.ndarray, t: Type) -> np.ndarray:
    """Return the int64 ordinals of physical values, or ``values`` itself if each value is its own ordinal."""
    if t.kind == "float":
        return _float_ordinals(values)
    if values.dtype == np.int64:
        return values
    if values.dtype == np.uint64:
        return (values ^ np.uint64(_TOP_BIT)).view(np.int64)
    return values.astype(np.int64)


def _float_ordinals(values: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(values, dtype=np.float64)
    bits = x.view(np.int64)
    sign = bits >> _SHIFT
    # Negative doubles have a sign bit and a magnitude. Invert the magnitude, and add one so that -0.0 is 0.
    image = (bits ^ (sign & _LOW_BITS)) - sign
    nan = x != x
    if np.count_nonzero(nan):
        image[nan] = NAN_ORDINAL
    return image


def ordinal_of(value: Any, t: Type) -> int:
    """Return the ordinal of one physical value. For a bool or a discrete type, it is the integer value."""
    if t.kind == "float":
        x = float(value)
        return NAN_ORDINAL if x != x else float_ordinal(x)
    if t.kind == "int" and t.bits == 64 and not t.signed:
        return int(value) - _TOP_BIT
    return int(value)


def value_of(ordinal: int, t: Type) -> Any:
    """Return the physical value with this ordinal: an int, a float or a bool.

    For floats, an ordinal above all doubles gives NaN, and an ordinal below all doubles gives -inf.
    """
    if t.kind == "float":
        if ordinal > _INFINITY:
            return float("nan")
        return float_at(max(-_INFINITY, min(ordinal, _INFINITY)))
    if t.kind == "bool":
        return bool(ordinal)
    if t.kind == "int" and t.bits == 64 and not t.signed:
        return int(ordinal) + _TOP_BIT
    return int(ordinal)


def python_value(ordinal: int, t: Type) -> Any:
    """Return the value of an ordinal as a Python object, or its ticks if Python cannot represent the time."""
    v = value_of(ordinal, t)
    if t.kind == "decimal":
        return Decimal(int(v)).scaleb(-t.scale)
    if t.kind not in ("date", "timestamp", "duration", "time"):
        return v
    width = pa.int32() if t.kind == "date" or (t.kind == "time" and t.unit in ("s", "ms")) else pa.int64()
    try:
        return pa.scalar(int(v), width).cast(to_arrow(t)).as_py()
    except (OverflowError, ValueError):
        return v
