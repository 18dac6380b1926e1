"""Combine the parts of several conjuncts: keys, band terms, filters and guards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import ceil, floor

from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.terms import BandTerm, Guard, JoinKey
from ivjoin.separation.linear import Box, Number, scale_of

__all__ = ["FAR", "Found", "cut", "fitted", "guard_of", "merged"]

FAR = 2**63 - 2  # kernels use smaller offsets, so that the next offset also fits 64 bits


@dataclass(slots=True)
class Found:
    """The parts of one conjunct, or of one branch of an OR."""

    #: Whether the keys and bands imply the conjunct while the guards are true.
    exact: bool = False
    keys: list[JoinKey] = field(default_factory=list)
    bands: list[BandTerm] = field(default_factory=list)
    filters: list[Node] = field(default_factory=list)
    #: Values for which the new nodes of the bands raise no error.
    box: Box = field(default_factory=dict)
    #: Values for which the conjunct raises no error. They matter only if the bands replace the conjunct.
    exact_box: Box = field(default_factory=dict)

    def take(self, other: Found) -> None:
        self.keys += other.keys
        self.bands += other.bands
        self.filters += other.filters
        cut(self.box, other.box)
        cut(self.exact_box, other.exact_box)


def fitted(found: Found) -> Found:
    """Drop band ends that do not fit 64 bits.

    If an end is dropped and there are no keys, the parts are not exact, so the residual decides each pair. Call this
    before bands of several conjuncts are merged.
    """
    ends = [(_near(t.lo), _near(t.hi)) for t in found.bands]
    if all(t.lo == lo and t.hi == hi for t, (lo, hi) in zip(found.bands, ends, strict=True)):
        return found
    exact = found.exact and bool(found.keys)
    bands = [
        replace(t, lo=lo, hi=hi, exact=t.exact and exact)
        for t, (lo, hi) in zip(found.bands, ends, strict=True) if lo is not None or hi is not None
    ]
    return replace(found, exact=exact, bands=bands)


def _near(offset: int | None) -> int | None:
    return offset if offset is not None and abs(offset) < FAR else None


def cut(box: Box, other: Box) -> None:
    """Change ``box`` to the intersection of both boxes. A box does not bound a node that it does not contain."""
    for n, (lo, hi) in other.items():
        old = box.get(n, (lo, hi))
        box[n] = (max(lo, old[0]), min(hi, old[1]))


def guard_of(n: Node, lo: Number, hi: Number) -> Guard:
    scale = scale_of(n.type)
    return Guard(n, ceil(lo * scale), floor(hi * scale))


def merged(bands: Iterable[BandTerm]) -> list[BandTerm]:
    """Return one term for each pair of nodes: the intersection of its terms. It is exact if all of them are."""
    out: dict[tuple[Node, Node], BandTerm] = {}
    for t in bands:
        old = out.get((t.left, t.right))
        if old is not None:
            lo = t.lo if old.lo is None else old.lo if t.lo is None else max(old.lo, t.lo)
            hi = t.hi if old.hi is None else old.hi if t.hi is None else min(old.hi, t.hi)
            both = old.source if t.source is old.source else build.and_(old.source, t.source)
            t = BandTerm(t.left, t.right, lo, hi, old.exact and t.exact, both)
        out[t.left, t.right] = t
    return [t for t in out.values() if t.lo is not None or t.hi is not None]
