"""Select the steps: the tree whose views are estimated to have the fewest rows, or a cascade if views would be large.

As in System R (Selinger et al., 1979), a size is the inputs' rows times selectivities. A class of equal columns has one
over the distinct values, for each member after the first; a band has its width over the range of values. Dynamic
programming over sets of inputs tries all trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import log10

from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node
from ivjoin.multi.shape.steps import Paths, Shape, Tree, equal_classes, pair_parts, wide
from ivjoin.multi.spec import MultiSpec
from ivjoin.separation.separate import Separation

__all__ = ["Seen", "best_shape"]

_WIDE = 8.0  # times the inputs' rows that views may have before a cascade is better
_ROWS = 1e6  # of an input of unknown size
_DISTINCT = 1e4
_BOTH_ENDS, _ONE_END, _OTHER = 1e-3, 0.5, 0.9  # bands whose relative width is unknown


@dataclass(frozen=True)
class Seen:
    """Estimates of an input's rows, and of its expressions over wide names."""

    rows: float = _ROWS
    distinct: Mapping[Node, float] = field(default_factory=dict)  # values
    span: Mapping[Node, float] = field(default_factory=dict)  # of ordinals
    top: Mapping[Node, float] = field(default_factory=dict)  # the share of the most frequent value


def best_shape(spec: MultiSpec, seen: Mapping[str, Seen] | None = None) -> Shape:
    """Return the tree or cascade for a join that ``spec.views`` allows; IvjoinError if no tree has these views."""
    aliases = spec.aliases
    known = {a: (seen or {}).get(a, Seen()) for a in aliases}
    sizes = _Sizes(spec, known)
    if spec.views == "none" and len(aliases) > 2:
        return _paths(aliases, sizes)
    cost, tree = _best_tree(spec, aliases, sizes)
    if spec.views == "auto" and cost > _WIDE * sum(k.rows for k in known.values()):
        return _paths(aliases, sizes)
    return tree


def _paths(aliases: Sequence[str], sizes: _Sizes) -> Paths:
    """Return for each input the order of the others: each time, the input after which the fewest rows remain."""
    out = {}
    for start in aliases:
        path: list[str] = []
        while len(path) < len(aliases) - 1:
            hand = frozenset((start, *path))
            path.append(min((a for a in aliases if a not in hand), key=lambda a: sizes.rows(hand | {a})))
        out[start] = tuple(path)
    return out


def _best_tree(spec: MultiSpec, aliases: Sequence[str], sizes: _Sizes) -> tuple[float, Tree]:
    wanted = [v for v in spec.views if isinstance(v, frozenset)] if not isinstance(spec.views, str) else []
    best: dict[frozenset[str], tuple[float, float, Tree]] = {frozenset({a}): (0.0, 0.0, a) for a in aliases}
    for n in range(2, len(aliases) + 1):
        for group in combinations(aliases, n):
            whole = frozenset(group)
            rows = sizes.rows(whole) if n < len(aliases) else 0.0
            choices = []
            for a, b in _splits(group):
                if a not in best or b not in best or not _keeps(wanted, whole, a, b):
                    continue
                (cost_a, deep_a, tree_a), (cost_b, deep_b, tree_b) = best[a], best[b]
                # among equal ones the deepest, which reads one input at a time
                tree = (tree_a, tree_b) if len(a) >= len(b) else (tree_b, tree_a)
                choices.append((cost_a + cost_b + rows, -min(len(a), len(b)) + deep_a + deep_b, tree))
            if choices:
                best[whole] = min(choices, key=lambda c: (c[0], -c[1]))
    found = best.get(frozenset(aliases))
    if found is None:
        raise IvjoinError(f"a tree with all the views {spec.views} does not exist; name fewer, or use views='auto'")
    return found[0], found[2]


def _splits(group: Sequence[str]) -> list[tuple[frozenset[str], frozenset[str]]]:
    first, rest = group[0], group[1:]
    out = []
    for n in range(len(rest)):
        for some in combinations(rest, n):
            a = frozenset({first, *some})
            out.append((a, frozenset(group) - a))
    return out


def _keeps(wanted: Sequence[frozenset[str]], whole: frozenset[str], a: frozenset[str], b: frozenset[str]) -> bool:
    """Return whether every requested view within a set is possible with its two parts."""
    return all(v <= a or v <= b or not v < whole for v in wanted)


class _Sizes:
    def __init__(self, spec: MultiSpec, known: Mapping[str, Seen]) -> None:
        self._known = known
        self._classes = equal_classes(spec)
        self._bands = {pair: self._share(known, pair, s) for pair, s in pair_parts(spec).items()}

    def _share(self, known: Mapping[str, Seen], pair: tuple[str, str], sep: Separation) -> float:
        """Return the share of row pairs that satisfy the bands and residual of two inputs, without keys."""
        share = 1.0
        members = {n for c in self._classes for _, n in c}
        keyed = set()
        for k in sep.keys:
            keyed.add((k.left, k.right))
            if wide(k.left) not in members or wide(k.right) not in members:
                share /= max(known[a].distinct.get(wide(n), _DISTINCT) for a, n in zip(pair, (k.left, k.right)))
        for t in sep.bands:
            if (t.left, t.right) in keyed:
                continue
            span = max((known[a].span.get(wide(n), 0.0) for a, n in zip(pair, (t.left, t.right))), default=0.0)
            if t.lo is None or t.hi is None:
                share *= _ONE_END
                continue
            width = max(t.hi - t.lo, 0) + 1  # also for bands that no row satisfies
            if span and t.left.type.kind != "float":
                share *= min(1.0, width / (span + 1))
            else:
                share *= _BOTH_ENDS * (1 + log10(width) / 20)  # prefers the narrower of two unknown ones
        for _ in sep.residual:
            share *= _OTHER
        return share

    def rows(self, group: frozenset[str]) -> float:
        out = 1.0
        for a in group:
            out *= max(self._known[a].rows, 1.0)
        for c in self._classes:
            own = {a: n for a, n in c if a in group}
            if len(own) > 1:
                distinct = max(self._known[a].distinct.get(n, _DISTINCT) for a, n in own.items())
                out /= max(distinct, 1.0) ** (len(own) - 1)
        for (a, b), share in self._bands.items():
            if a in group and b in group:
                out *= share
        return out
