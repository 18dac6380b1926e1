"""Count by sorting how many rows of the other side each row matches, in groups and along an axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ivjoin.routing.rows.arrays import expanded

__all__ = ["Matching", "matching"]


@dataclass(slots=True)
class Matching:
    """Rows of the divided side (int64[n]) in order of (group, place), and the ranges that rows of the other side reach.

    Reaching row i matches ``order[start[i]:stop[i]]``.
    """

    order: np.ndarray
    start: np.ndarray
    stop: np.ndarray

    @property
    def reached(self) -> np.ndarray:
        return self.stop - self.start

    def met(self) -> np.ndarray:
        """Return how many reaching rows match each divided row."""
        n = len(self.order)
        steps = np.bincount(self.start, minlength=n + 1) - np.bincount(self.stop, minlength=n + 1)
        out = np.empty(n, dtype=np.int64)
        out[self.order] = np.cumsum(steps)[:n]
        return out

    def pairs(self, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all pairs as (divided rows, reaching rows), about ``most`` at a time."""
        count = self.reached
        ends = np.cumsum(count)
        at = 0
        while at < len(count):
            done = int(ends[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(ends, done + most, side="right")))
            rows, inside = expanded(self.start[at:stop], count[at:stop])
            yield self.order[inside], at + rows
            at = stop


def matching(
    group: np.ndarray, place: np.ndarray | None, others: np.ndarray, low: np.ndarray | None, high: np.ndarray | None
) -> Matching:
    """Match rows of one side, each at a place in a group (int64[n]), with ranges of the other side (int64[m]).

    Without ``place``, the group alone matches. ``low`` to ``high`` is closed; an empty range matches nothing.
    """
    if place is None or low is None or high is None:
        order = np.argsort(group, kind="stable")
        ranked = group[order]
        return Matching(order, np.searchsorted(ranked, others), np.searchsorted(ranked, others, side="right"))
    places = np.unique(place)
    rank, first = np.searchsorted(places, place), np.searchsorted(places, low)
    beyond = np.maximum(np.searchsorted(places, high, side="right"), first)
    wide = len(places) + 1
    top = max(int(group.max(initial=0)), int(others.max(initial=0)))
    if top >= (1 << 62) // wide:
        known, dense = np.unique(np.concatenate([group, others]), return_inverse=True)
        group, others = dense[: len(group)], dense[len(group) :]
        assert len(known) < (1 << 62) // wide
    code = group * wide + rank
    order = np.argsort(code, kind="stable")
    ranked = code[order]
    return Matching(
        order, np.searchsorted(ranked, others * wide + first), np.searchsorted(ranked, others * wide + beyond)
    )
