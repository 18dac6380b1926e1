"""The parts of a join condition that compare an expression of each side: keys, band terms and their guards."""

from __future__ import annotations

from dataclasses import dataclass

from ivjoin.expr.nodes import Node

__all__ = ["BandTerm", "Guard", "JoinKey"]


@dataclass(frozen=True, slots=True)
class JoinKey:
    """The key equality ``left = right`` of one type. With ``null_safe``, NULL equals NULL."""

    left: Node
    right: Node
    null_safe: bool


@dataclass(frozen=True, slots=True)
class BandTerm:
    """``lo <= ordinal(left) - ordinal(right) <= hi`` over unbounded integers. None is an open end.

    If ``exact``, the band implies ``source`` while the guards are true. Otherwise ``source`` is in the residual.
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

    A NULL counts as inside, and an error counts as outside.
    """

    node: Node
    lo: int
    hi: int
