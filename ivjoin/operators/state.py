"""The domains of all nodes during one contraction, and how a rule narrows one.

A domain only ever gets smaller, and holds the values of its node at every point that satisfies the condition and at
which the node does not err. Where a node is *required* (it is evaluated without error at every satisfying point), an
empty domain means that no such point is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ivjoin.interval.machine import truth

__all__ = ["Case", "Infeasible", "State", "Structure", "Taken"]


class Infeasible(Exception):
    """No point of the box satisfies the condition."""


class Structure:
    """What of a graph does not change between contractions.

    Attributes
    ----------
    parents : list of tuples of int
        Nodes by their place in topological order.
    strict_args : list of tuples of int
        Arguments that are evaluated without error wherever the node is.
    """

    __slots__ = ("parents", "strict_args")

    def __init__(self, parents: list[tuple[int, ...]], strict_args: list[tuple[int, ...]]) -> None:
        self.parents = parents
        self.strict_args = strict_args


class State:
    """Domains and what is still to be done with them.

    Attributes
    ----------
    D : list
        Domain of each node: ``(lo, hi, flags)``, or a truth mask for bool.
    required : bytearray
        Nodes that are evaluated without error at every satisfying point.
    up, down : bytearray
        Nodes whose forward, whose backward rule may have news.
    narrowed : bool
        Whether a domain got smaller since this was last set to False.
    source : int
        The node whose rule is at work and need not be told of its own news; -1 if all are told.
    touched : list of int
        Nodes whose domains got smaller, in order, with repetitions.
    scope : bytearray or None
        The nodes that are told of news; None is all. The others stay as they are, which is weak and not wrong.
    """

    __slots__ = ("D", "down", "narrowed", "required", "scope", "source", "structure", "touched", "up")

    def __init__(self, structure: Structure, D: list[Any], required: bytearray, up: bytearray, down: bytearray) -> None:
        self.structure = structure
        self.D = D
        self.required = required
        self.up = up
        self.down = down
        self.narrowed = False
        self.source = -1
        self.touched: list[int] = []
        self.scope: bytearray | None = None

    def copy(self) -> State:
        s = State(self.structure, self.D.copy(), self.required[:], self.up[:], self.down[:])
        s.scope = self.scope
        return s

    def changed(self, j: int) -> None:
        """Take note that the domain of node j got smaller."""
        self.narrowed = True
        self.touched.append(j)
        up, down, source = self.up, self.down, self.source
        down[j] = 1
        scope = self.scope
        for p in self.structure.parents[j]:
            if p != source and (scope is None or scope[p]):
                up[p] = down[p] = 1

    def cut(self, j: int, lo: Any, hi: Any, flags: int) -> None:
        """Keep of node j, a number or a time, what is in [lo, hi] and in the flags."""
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
        """Keep of node j, a text, what is in [lo, hi] (None: unbounded) and in the flags."""
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
        """Keep of node j, a truth value, what is in the mask."""
        old = self.D[j]
        new = old & mask
        if new == old:
            return
        if not new and self.required[j]:
            raise Infeasible
        self.D[j] = new
        self.changed(j)

    def drop_flags(self, j: int, keep: int) -> None:
        """Keep of node j, no truth value, its values and the flags in ``keep``."""
        lo, hi, flags = self.D[j]
        if flags & ~keep:
            flags &= keep
            if not flags and lo is not None and hi is not None and lo > hi and self.required[j]:
                raise Infeasible
            self.D[j] = (lo, hi, flags)
            self.changed(j)

    def require(self, j: int) -> None:
        """Take note that node j is evaluated without error at every satisfying point."""
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
    """The alternative in which one argument of a node is TRUE (of AND that is FALSE: is FALSE) and decides.

    Attributes
    ----------
    root : int
        The argument. Of what is below it and what is required anyway, all news is told; other arguments decide nothing.
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
