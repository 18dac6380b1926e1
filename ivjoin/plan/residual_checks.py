"""Checks of the residual in a plan: the axes that they ask about, and the tables with which either side probes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import numpy as np

from ivjoin.expr.nodes import Node, walk
from ivjoin.separation.checks import Check
from ivjoin.separation.separate import BandTerm, Separation
from ivjoin.shj.kernels.index_kernels import I64_MAX, I64_MIN, MOST_AXES

__all__ = ["bands_say_all", "check_table", "keep_checked"]

Axes = tuple[list[Node], list[Node]]


def keep_checked(axes: Axes, sep: Separation) -> Separation:
    """Add what the checks ask about to the axes of each side; without checks, if there would be too many."""
    missing = [list(dict.fromkeys(n for c in sep.checks if (n := (c.left, c.right)[s]) is not None)) for s in (0, 1)]
    missing = [[n for n in nodes if n not in kept] for kept, nodes in zip(axes, missing, strict=True)]
    if any(len(kept) + len(nodes) > MOST_AXES for kept, nodes in zip(axes, missing, strict=True)):
        return replace(sep, checks=(), decided=frozenset())
    for kept, nodes in zip(axes, missing, strict=True):
        kept += nodes
    return sep


def check_table(p: int, axes: Axes, checks: Sequence[Check]) -> np.ndarray:
    """The checks with which rows of side p probe : int64[c, 8], as ``index_kernels.verdict`` reads them."""
    table = np.zeros((len(checks), 8), dtype=np.int64)
    for row, c in zip(table, checks, strict=True):
        lo, hi = c.lo, c.hi
        if p == 0 and c.left is not None and c.right is not None:
            lo, hi = (None if hi is None else -hi), (None if lo is None else -lo)
        mine, theirs = (c.left, c.right) if p == 0 else (c.right, c.left)
        row[:7] = (
            -1 if mine is None else axes[p].index(mine), -1 if theirs is None else axes[1 - p].index(theirs),
            I64_MIN if lo is None else lo, I64_MAX if hi is None else hi, c.true, c.false, c.null,
        )
    table.flags.writeable = False
    return table


def bands_say_all(sep: Separation, terms: Sequence[BandTerm], known: Set[Node], bounded: Set[Node]) -> bool:
    """Whether intervals of the residual could prune no more than the bands do, by what is ``known`` of future rows.

    So it is where each check of what is known belongs to a band of all branches: a bound of one end, as an order gives
    it, rules out no branch.
    """
    if not sep.checks or not sep.decided.issuperset(sep.residual):
        return False
    pairs = {(t.left, t.right) for t in terms}
    for c in sep.checks:
        if c.left is None or c.right is None or (c.left, c.right) not in pairs:
            if not known.isdisjoint(walk(*(n for n in (c.left, c.right) if n is not None))):
                return False
    return bounded.isdisjoint(walk(*sep.residual))
