"""round (HALF_UP) and bround (HALF_EVEN) of ints, decimals and floats.

Spark rounds the decimal text of a double (``BigDecimal(Double.toString(x))``). Therefore round(1.005, 2) is 1.01,
although the double is less than 1.005. The text matters only near a tie, so only these doubles are rounded by text.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import numpy as np

from ivjoin.expr.kernels.cells import Consts, Kernel, Mask, checked, count, of_values, unsupported
from ivjoin.expr.kernels.decimals import as_objects, fitted, rescaled, round_quotient, scaled_up
from ivjoin.expr.kernels.integers import narrowed
from ivjoin.expr.nodes import Node

__all__ = ["round_rule"]

_EXACT = Context(prec=800)  # a double has at most 767 significant digits


def round_rule(node: Node, _: Consts) -> Kernel:
    kind, (digits,) = node.args[0].type.kind, node.params
    if node.type.kind != kind:
        raise unsupported(node)
    even = node.op == "bround"
    if kind == "float":
        return _floats(digits, even)
    if kind == "decimal":
        return _decimals(node, digits, even)
    if kind == "int":
        return _ints(node, digits, even)
    raise unsupported(node)


def _ints(node: Node, digits: int, even: bool) -> Kernel:
    t = node.type
    if digits >= 0:
        return checked(lambda v: narrowed(v, t))
    unit = 10 ** min(-digits, 30)  # a unit above the range of all ints rounds every value to zero

    def rounded(v: np.ndarray) -> tuple[np.ndarray, Mask]:
        wide = as_objects(v) if t.bits == 64 else v.astype(np.int64)
        return narrowed(as_objects(round_quotient(wide, unit, even)) * unit, t)

    return checked(rounded)


def _decimals(node: Node, digits: int, even: bool) -> Kernel:
    have, t = node.args[0].type.scale, node.type

    def rounded(v: np.ndarray) -> tuple[np.ndarray, Mask]:
        if digits >= have:
            return fitted(rescaled(v, have, t.scale), t)
        r = round_quotient(v, 10 ** (have - digits), even)
        return fitted(scaled_up(r, t.scale - digits) if t.scale >= digits else r, t)

    return checked(rounded)


def _floats(digits: int, even: bool) -> Kernel:
    def rounded(v: np.ndarray) -> np.ndarray:
        x = v.astype(np.float64, copy=False)
        r = _whole(x, even) if digits == 0 else _fraction(x, digits, even)
        return r.astype(v.dtype, copy=False)

    return of_values(rounded)


def _whole(x: np.ndarray, even: bool) -> np.ndarray:
    if even:
        return np.rint(x) + 0.0
    base = np.trunc(x)
    # The difference is exact. The text of a double is also exact if its fraction is .5.
    return np.where(np.abs(x - base) >= 0.5, base + np.copysign(1.0, x), base) + 0.0


def _fraction(x: np.ndarray, digits: int, even: bool) -> np.ndarray:
    out = np.empty(len(x))
    near = np.isfinite(x)
    out[~near] = x[~near]
    if 0 < digits <= 22:
        unit = 10.0**digits  # exact up to 10**22
        y = np.abs(x) * unit
        base = np.floor(y)
        part = y - base
        # Both x * unit and the text of x are within an ulp of the exact product.
        clear = near & (y < 2.0**50) & (np.abs(part - 0.5) > y * 2.0**-50 + 1e-300)
        # Both operands are exact, so the quotient is the double that is nearest to the decimal result.
        out[clear] = np.copysign((base + (part > 0.5)) / unit, x)[clear]
        near = near & ~clear
    if count(near):
        mode = ROUND_HALF_EVEN if even else ROUND_HALF_UP
        grain = Decimal(1).scaleb(-digits, _EXACT) if abs(digits) < 700 else None
        for i in np.flatnonzero(near):
            text = Decimal(repr(float(x[i])))
            if grain is not None:
                value = float(text.quantize(grain, rounding=mode, context=_EXACT))
            else:
                value = float(text) if digits > 0 else 0.0
            out[i] = value
    return out + 0.0
