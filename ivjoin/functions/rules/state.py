"""The domains of all nodes during one contraction, which rules narrow.

A domain only shrinks. It contains the values of the node at all satisfying points where the node has no error. A node
is *required* if it is evaluated without error at every satisfying point. If the domain of a required node is empty, no
point satisfies the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ivjoin.interval import truth

__all__ = ["Case", "Infeasible", "State", "Structure", "Taken"]


class Infeasible(Exception):
    """No point of the box satisfies the condition."""


class Structure:
    """The parts of a graph that do not change between contractions, by index in topological order.

    ``strict_args`` are the arguments that must have no error if the node has no error.
    """

    __slots__ = ("parents", "strict_args")

    def __init__(self, parents: list[tuple[int, ...]], strict_args: list[tuple[int, ...]]) -> None:
        self.parents = parents
        self.strict_args = strict_args


class State:
    """The domains, and the nodes whose rules must still run.

    A domain is ``(lo, hi, flags)``, or a truth mask for bool. The ``required`` nodes are evaluated without error at
    every satisfying point. ``up`` and ``down`` mark nodes whose forward or backward rule may narrow a domain.
    """

    __slots__ = ("D", "down", "narrowed", "required", "scope", "source", "structure", "touched", "up")

    def __init__(self, structure: Structure, D: list[Any], required: bytearray, up: bytearray, down: bytearray) -> None:
        self.structure = structure
        self.D = D
        self.required = required
        self.up = up
        self.down = down
        self.narrowed = False  # whether a domain shrank since this was last set to False
        self.source = -1  # the node whose rule runs, and which ignores its own changes; -1 for none
        self.touched: list[int] = []  # nodes whose domains shrank, in order, with repetitions
        self.scope: bytearray | None = None  # only rules of these nodes run after a change; None for all nodes

    def copy(self) -> State:
        s = State(self.structure, self.D.copy(), self.required[:], self.up[:], self.down[:])
        s.scope = self.scope
        return s

    def changed(self, j: int) -> None:
        """Record that the domain of node j shrank."""
        self.narrowed = True
        self.touched.append(j)
        up, down, source = self.up, self.down, self.source
        down[j] = 1
        scope = self.scope
        for p in self.structure.parents[j]:
            if p != source and (scope is None or scope[p]):
                up[p] = down[p] = 1

    def cut(self, j: int, lo: Any, hi: Any, flags: int) -> None:
        """Narrow node j, which is a number or a time, to [lo, hi] and the flags."""
        olo, ohi, old = self.D[j]
        if lo < olo:
            lo = olo
        if hi > ohi:
            hi = ohi
        flags &= old
        if lo > hi:
            if not flags and self.required[j]:
                raise Infeasible
            if olo > ohi and flags == old:
                return
            lo, hi = 1, 0
        elif lo == olo and hi == ohi and flags == old:
            return
        self.D[j] = (lo, hi, flags)
        self.changed(j)

    def cut_text(self, j: int, lo: Any, hi: Any, flags: int) -> None:
        """Narrow node j, which is a text, to [lo, hi] and the flags. None is an open end."""
        olo, ohi, old = self.D[j]
        if lo is None or (olo is not None and lo < olo):
            lo = olo
        if hi is None or (ohi is not None and hi > ohi):
            hi = ohi
        flags &= old
        if lo is not None and hi is not None and lo > hi:
            if not flags and self.required[j]:
                raise Infeasible
        if lo == olo and hi == ohi and flags == old:
            return
        self.D[j] = (lo, hi, flags)
        self.changed(j)

    def cut_mask(self, j: int, mask: int) -> None:
        """Narrow node j, which is a bool, to the mask."""
        old = self.D[j]
        new = old & mask
        if new == old:
            return
        if not new and self.required[j]:
            raise Infeasible
        self.D[j] = new
        self.changed(j)

    def narrow(self, j: int, d: Any) -> None:
        """Narrow node j of any type to a domain."""
        old = self.D[j]
        if old.__class__ is int:
            self.cut_mask(j, d)
        elif old[0] is None or old[1] is None or old[0].__class__ in (str, bytes):
            self.cut_text(j, *d)
        else:
            self.cut(j, *d)

    def drop_flags(self, j: int, keep: int) -> None:
        """Narrow the flags of node j, which is not a bool, to ``keep``."""
        lo, hi, flags = self.D[j]
        if flags & ~keep:
            flags &= keep
            if not flags and lo is not None and hi is not None and lo > hi and self.required[j]:
                raise Infeasible
            self.D[j] = (lo, hi, flags)
            self.changed(j)

    def require(self, j: int) -> None:
        """Record that node j is evaluated without error at every satisfying point."""
        if self.required[j]:
            return
        stack = [j]
        while stack:
            k = stack.pop()
            if self.required[k]:
                continue
            self.required[k] = 1
            self.down[k] = 1
            self.narrowed = True
            d = self.D[k]
            if not d if d.__class__ is int else (d[0] is not None and d[1] is not None and d[0] > d[1] and not d[2]):
                raise Infeasible
            stack.extend(self.structure.strict_args[k])


class Taken:
    """The alternative in which argument ``root`` of an OR is TRUE (of an AND: is FALSE) and decides the result.

    The arguments before it do not decide. Changes are propagated to the nodes below it and to required nodes.
    """

    __slots__ = ("before", "decisive", "root")

    def __init__(self, root: int, decisive: int, before: tuple[int, ...]) -> None:
        self.root = root
        self.decisive = decisive
        self.before = before

    def __call__(self, s: State) -> None:
        for j in self.before:
            s.require(j)
            s.cut_mask(j, ~self.decisive & truth.ANY)
        s.require(self.root)
        s.cut_mask(self.root, self.decisive)


Case = Callable[[State], None]
Forward = Callable[[list[Any]], Any]
Backward = Callable[[State], None]
Cases = Callable[[State], Sequence[Case] | None]
