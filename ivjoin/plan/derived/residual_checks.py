"""Add the checks of the residual to a plan: their axes, and the tables that the probes use."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import numpy as np

from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.terms import BandTerm
from ivjoin.separation.checks import Check
from ivjoin.separation.separate import Separation
from ivjoin.shj.kernels.push.index_kernels import MOST_AXES
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["bands_say_all", "check_table", "keep_checked"]

Axes = tuple[list[Node], list[Node]]


def keep_checked(axes: Axes, sep: Separation) -> Separation:
    """Add the nodes of the checks to the axes of each side. Drop the checks if there are too many."""
    missing = [list(dict.fromkeys(n for c in sep.checks if (n := (c.left, c.right)[s]) is not None)) for s in (0, 1)]
    missing = [[n for n in nodes if n not in kept] for kept, nodes in zip(axes, missing, strict=True)]
    if any(len(kept) + len(nodes) > MOST_AXES for kept, nodes in zip(axes, missing, strict=True)):
        return replace(sep, checks=(), decided=frozenset())
    for kept, nodes in zip(axes, missing, strict=True):
        kept += nodes
    return sep


def check_table(p: int, axes: Axes, checks: Sequence[Check]) -> np.ndarray:
    """Return the checks as int64[c, 8] for probe rows of side p. ``probe_kernels.verdict`` reads them."""
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
    """Return whether intervals of the residual cannot prune more than the bands, for the ``known`` frontier.

    This is true if each check of a known expression belongs to a band that all branches share. An order gives a bound
    with one end, and such a bound excludes no branch.
    """
    if not sep.checks or not sep.decided.issuperset(sep.residual):
        return False
    pairs = {(t.left, t.right) for t in terms}
    for c in sep.checks:
        if c.left is None or c.right is None or (c.left, c.right) not in pairs:
            if not known.isdisjoint(walk(*(n for n in (c.left, c.right) if n is not None))):
                return False
    return bounded.isdisjoint(walk(*sep.residual))
