"""The parts of a join condition that compare one expression of each side: keys, band terms and their guards."""

from __future__ import annotations

from dataclasses import dataclass

from ivjoin.expr.nodes import Node

__all__ = ["BandTerm", "Guard", "JoinKey"]


@dataclass(frozen=True, slots=True)
class JoinKey:
    """``left = right``, of one type; with ``null_safe`` nulls are equal to each other."""

    left: Node
    right: Node
    null_safe: bool


@dataclass(frozen=True, slots=True)
class BandTerm:
    """``lo <= ordinal(left) - ordinal(right) <= hi`` over unbounded integers; None is no bound.

    ``exact``: if the guards are true, the band implies ``source``; otherwise ``source`` is in the residual.
    """

    left: Node
    right: Node
    lo: int | None
    hi: int | None
    exact: bool
    source: Node


@dataclass(frozen=True, slots=True)
class Guard:
    """A one-sided node whose value must lie in [lo, hi] for the rewrite to be exact.

    Null is inside, an error outside.
    """

    node: Node
    lo: int
    hi: int
