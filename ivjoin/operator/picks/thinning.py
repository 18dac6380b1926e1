"""Decide which right rows some left row may still take, and free keys without rows."""

from __future__ import annotations

import numpy as np

from ivjoin.expr.nodes import Node
from ivjoin.operator.picks.waiting import Waiting
from ivjoin.plan.picking.pick import Picking

__all__ = ["left_ends", "reach", "rules"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


def left_ends(waiting: list[Waiting]) -> list[tuple[int, int]] | None:
    """Return the least and greatest value of each line over the unseen waiting rows; None if all are seen."""
    out: list[tuple[int, int]] | None = None
    for w in waiting:
        if not w.some_seen:
            now = list(zip(w.low, w.high, strict=True))
        else:
            rows = np.flatnonzero(~w.seen)
            if not len(rows):
                continue
            now = [(int(line.min()), int(line.max())) for line in w.vals[:, rows]]
        if len(w.free) and (w.free[~w.seen] != 0).any():
            now = [(I64_MIN, I64_MAX)] * len(w.low)
        out = now if out is None else [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(out, now, strict=True)]
    return out


def reach(
    picking: Picking, axes: list[Node], blind: set[tuple[int, Node]], bounds: list[tuple[int, int]] | None,
    ends: list[tuple[int, int]] | None,
) -> np.ndarray | None:
    """Return the least and greatest value of each right line that some left row can match; None if none can.

    Parameters
    ----------
    picking : Picking
    axes : list of Node
        Axes of the right side.
    blind : set of (int, Node)
        Axes of a side with nulls in rows that must be stored nevertheless.
    bounds : list of (int, int) or None
        For each axis, the values that future left rows can match; None if no left row follows.
    ends : list of (int, int) or None
        The result of :func:`left_ends`.
    """
    lines = len(picking.lines[1])
    if bounds is None and ends is None:
        return None
    out = np.empty((2, lines), dtype=np.int64)
    out[0], out[1] = I64_MIN, I64_MAX
    own = {}
    if bounds is not None:
        for axis, (low, high) in enumerate(bounds):
            if (1, axes[axis]) not in blind:
                own[picking.axes[1][axis]] = low, high
    mine: dict[int, tuple[int, int]] = {}
    if ends is not None:
        for left, line, low, high in picking.terms.tolist():
            a, b = mine.get(line, (I64_MIN, I64_MAX))
            if low != I64_MIN and ends[left][0] != I64_MIN:
                a = max(a, ends[left][0] + low)
            if high != I64_MAX and ends[left][1] != I64_MAX:
                b = min(b, ends[left][1] + high)
            mine[line] = a, b
    for line in range(lines):
        spans = [d.get(line, (I64_MIN, I64_MAX)) for d, some in ((own, bounds), (mine, ends)) if some is not None]
        out[0, line] = _within(min(a for a, _ in spans))
        out[1, line] = _within(max(b for _, b in spans))
    return out


def rules(
    picking: Picking, decided: bool, lows: list[int], highs: list[int]
) -> tuple[tuple[int, int], np.ndarray, np.ndarray]:
    """Return the rules for ``pick_kernels.thin``, which finds rows that are worse than another for every left row.

    Parameters
    ----------
    picking : Picking
    decided : bool
        Whether keys and terms are the whole condition, for every row.
    lows, highs : list of int
        Least and greatest value of each left line over unseen and future rows.
    """
    lines = len(picking.lines[1])
    below, above = np.empty((2, lines), dtype=np.int64), np.empty((2, lines), dtype=np.int64)
    for table in (below, above):
        table[0], table[1] = I64_MIN, I64_MAX
    loose = picking.n_search < len(picking.terms)
    if not decided or (loose and picking.which == "nearest"):
        return (0, 0), below, above
    terms = picking.terms.tolist()
    lower = upper = 1
    if picking.which == "nearest":
        terms.append([picking.near, 0, 0, 0])
        lower = 2
        if picking.lines[0][picking.near].type.kind == "float":
            lower = 0 if any(t[2] != I64_MIN for t in picking.terms.tolist()) else 3
    elif picking.which == "last":
        upper = 0
    else:
        lower = 0
    for t, (left, line, low, high) in enumerate(terms):
        # In a line that rises within a key, a row that fails at the other end is worse than rows that fail there too.
        rises = not loose or t < picking.n_search
        if high != I64_MAX:
            limit = lows[left] + high if lows[left] != I64_MIN else I64_MIN - 1
            lower = lower if limit >= I64_MIN else 0
            upper = upper if rises or limit >= I64_MIN else 0
            for table in (below,) if rises else (below, above):
                table[1, line] = min(int(table[1, line]), _within(limit))
        if low != I64_MIN:
            limit = highs[left] + low if highs[left] != I64_MAX else I64_MAX + 1
            upper = upper if limit <= I64_MAX else 0
            lower = lower if rises or limit <= I64_MAX else 0
            for table in (above,) if rises else (above, below):
                table[0, line] = max(int(table[0, line]), _within(limit))
    return (lower, upper), below, above


def _within(v: int) -> int:
    return max(I64_MIN, min(v, I64_MAX))
