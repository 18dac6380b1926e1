"""Replace ``abs``, ``least`` and ``greatest`` by linear forms if the domains decide their result.

For example, ``abs(x) - x`` is 0 if x is not negative. The rules of the two operators alone cannot find this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node
from ivjoin.functions.rules.domain import NULL

__all__ = ["Opening", "openings"]


class Opening(NamedTuple):
    """The options ``factor * node`` of an atom, which always equals one of them.

    ``choose`` returns the index of the option that the domains decide, or None.
    """

    options: tuple[tuple[int, int], ...]
    choose: Callable[[list[Any]], int | None]


def openings(nodes: Sequence[Node], at: Sequence[tuple[int, ...]]) -> dict[int, Opening]:
    """Return the atoms of a graph that domains may decide, by their place."""
    out = {}
    for i, n in enumerate(nodes):
        if not n.type.is_discrete:
            continue
        if n.op == ops.ABS:
            out[i] = Opening(((at[i][0], 1), (at[i][0], -1)), _sign_of(at[i][0]))
        elif n.op in (ops.LEAST, ops.GREATEST) and len(n.args) <= 4:
            out[i] = Opening(tuple((j, 1) for j in at[i]), _order_of(at[i], n.op == ops.GREATEST))
    return out


def _sign_of(x: int) -> Callable[[list[Any]], int | None]:
    def choose(D: list[Any]) -> int | None:
        lo, hi, _ = D[x]
        if lo > hi:
            return None
        return 0 if lo >= 0 else 1 if hi <= 0 else None

    return choose


def _order_of(at: tuple[int, ...], greatest: bool) -> Callable[[list[Any]], int | None]:
    def choose(D: list[Any]) -> int | None:
        for k, j in enumerate(at):
            lo, hi, flags = D[j]
            if flags & NULL or lo > hi:
                continue
            # The function skips nulls, so the other arguments may be NULL.
            others = [D[o] for o in at if o != j]
            if all(o[0] > o[1] or (o[1] <= lo if greatest else o[0] >= hi) for o in others):
                return k
        return None

    return choose
