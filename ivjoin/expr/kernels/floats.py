"""Floating-point arithmetic as in Spark: IEEE 754, except that division by zero is an error and ln of 0 is NULL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ivjoin.expr.kernels.cells import (
    Cell,
    Consts,
    Kernel,
    Mask,
    Rule,
    checked,
    count,
    dtype_of,
    of_values,
    unsupported,
)
from ivjoin.expr.nodes import Node

__all__ = ["binary", "dividing", "logarithm", "neighbour", "pmod", "power", "sign", "unary_", "whole_floats"]


def binary(f: Callable[[Any, Any], Any]) -> Rule:
    def rule(node: Node, _: Consts) -> Kernel:
        if any(a.type != node.type for a in node.args):
            raise unsupported(node, "the arguments of float arithmetic have its type")
        return of_values(f)

    return rule


def dividing(f: Callable[[Any, Any], Any]) -> Rule:
    """Return the rule of a division, which has an error if the divisor is 0.0 or -0.0."""

    def rule(node: Node, consts: Consts) -> Kernel:
        if any(a.type != node.type for a in node.args):
            raise unsupported(node, "the arguments of float division have its type")
        divisor = consts[1]
        if divisor is not None and divisor[0][0] != 0:
            return of_values(f)
        return checked(lambda x, y: (f(x, y), y == 0))

    return rule


def pmod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    r = np.fmod(x, y)
    return np.where(r < 0, np.fmod(r + y, y), r)


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x to the power of y as in Java and Spark.

    ``pow(1, NaN)`` and ``pow(±1, ±inf)`` are NaN, while C returns 1. ``np.power`` with the constant 0.5 computes a
    square root, which is wrong for minus infinity.
    """
    found = np.power(x, y)
    endless = ~np.isfinite(y)
    if endless.any():
        found = np.where(endless & (np.abs(x) == 1), np.nan, found)
    least = np.isneginf(x)
    return np.where(least & (y == 0.5), np.inf, found) if least.any() else found


def unary_(f: Callable[[Any], Any]) -> Rule:
    def rule(node: Node, _: Consts) -> Kernel:
        if node.args[0].type != node.type:
            raise unsupported(node)
        return of_values(f)

    return rule


def logarithm(f: Callable[[Any], Any], bottom: float) -> Rule:
    """Return the rule of a logarithm. As in Spark, it is NULL at and below ``bottom``, and NaN for NaN."""

    def kernel(a: Cell) -> Cell:
        x, ok, err = a
        outside = x <= bottom
        if count(outside):
            ok = ~outside if ok is None else ok & ~outside
        return f(x), ok, err

    return lambda node, _: kernel


def whole_floats(f: Callable[[Any], Any]) -> Rule:
    """Return the rule of floor or ceil of floats to int64. NaN gives 0, and a value outside the range is an error."""

    def rule(node: Node, _: Consts) -> Kernel:
        dtype = dtype_of(node.type)
        if node.type.kind != "int" or not node.type.signed:
            raise unsupported(node)
        least, most = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)

        def whole(x: np.ndarray) -> tuple[np.ndarray, Mask]:
            r = f(x)
            # NaN is not inside.
            inside = (r >= least) & (r < most) if dtype.itemsize == 8 else (r >= least) & (r <= most)
            if count(inside) == len(inside):
                return r.astype(dtype), None
            return np.where(inside, r, 0).astype(dtype), ~(inside | (r != r))

        return checked(whole)

    return rule


def neighbour(direction: float) -> Callable[[Any], Any]:
    def step(x: np.ndarray) -> np.ndarray:
        return np.nextafter(x, x.dtype.type(direction))

    return step


def sign(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, x, np.sign(x))  # as Java's Math.signum, return -0.0 for -0.0
