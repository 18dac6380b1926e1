"""Joins of many inputs on a grid of workers: the number of coordinates of each attribute or input.

Sizes follow Squall (Vitorovic et al., VLDB 2016). A worker receives |R| / the product of R's dims of each input R,
which is copied along the other dims. The dims are the best of *all* whole numbers whose product is at most the number
of workers, not a rounded solution over the reals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ivjoin.arguments import known_options, near, one_of, worker_count
from ivjoin.errors import OptionError, came
from ivjoin.routing.rows.arrays import expanded

__all__ = ["HypercubePlan", "Relation", "hypercube"]

SCHEMES = ("auto", "hash", "random", "hybrid")
# The assumption for a skewed attribute: half of its rows have one value.
_TOP_SHARE = 0.5
_MOST_DIMS = 24
_MOST_ROWS = 1e30  # of an input; sums and loads of such numbers are finite
_MOST_AT_ONCE = 1 << 22  # partial solutions in memory


@dataclass(frozen=True)
class Relation:
    """An input of a multi-way join."""

    rows: float  # their number, now or in the future, in a unit that all relations share
    attributes: tuple[str, ...]  # the join columns; two relations with the same attribute are joined on it

    def __post_init__(self) -> None:
        rows = self.rows
        if isinstance(rows, bool) or not isinstance(rows, (int, float, np.integer, np.floating)) or not rows >= 0:
            raise OptionError(f"rows of a relation are {came(rows)}; expected a number of rows, 0 or more")
        if rows > _MOST_ROWS:
            raise OptionError(
                f"rows of a relation are {came(rows)}; expected the number of rows or their share, "
                f"at most {_MOST_ROWS:g}"
            )
        given = self.attributes
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise OptionError(f"attributes of a relation are {came(given)}; expected names such as ('x', 'y')")
        names = tuple(given)
        for name in names:
            if not isinstance(name, str):
                raise OptionError(f"an attribute of a relation is {came(name)}; expected a name")
        for a, b in pairwise(sorted(names)):
            if a == b:
                raise OptionError(f"attribute {a!r} occurs twice in {came(names)}; expected each name once")
        object.__setattr__(self, "attributes", names)


@dataclass(frozen=True)
class HypercubePlan:
    """A grid over which the rows of many inputs are spread.

    A dim has the name of an attribute, of an input (a random dim), or of one occurrence of a skewed attribute
    (``"T.z"``). ``dims`` has the coordinates of each, without dims of size 1.
    """

    scheme: str  # hash, random or hybrid
    dims: dict[str, int]
    workers: int  # that receive rows: the product of the dims
    load: float  # rows of the fullest worker
    total: float  # rows received in all
    replication: float  # rows received over rows produced
    members: dict[str, tuple[str, ...]]  # the dims of each input; its rows are copied along the others

    def __str__(self) -> str:
        grid = " x ".join(f"{name} {n}" for name, n in self.dims.items()) or "one worker"
        return (
            f"{self.scheme}: {grid}; {self.workers} workers, load {self.load:g}, "
            f"{self.total:g} rows received, replication {self.replication:.4g}"
        )


@known_options("hypercube")
def hypercube(
    relations: Mapping[str, Relation], workers: int, scheme: str = "auto", skewed: Iterable[Any] = ()
) -> HypercubePlan:
    """Return the best grid of at most ``workers`` workers for an equality join of several inputs.

    Parameters
    ----------
    relations : mapping of str to Relation
    workers : int
    scheme : {"auto", "hash", "random", "hybrid"}
        "hash" has a dim for each join attribute, and "random" has one for each input. "hybrid" hashes, except that each
        occurrence of a skewed attribute has a random dim. "auto" selects the scheme with the least load.
    skewed : iterable of str or of (relation, attribute)
        Attributes in which most rows have one of a few values, in all relations or in one. If such an attribute is
        hashed, half of the rows are assumed to go to one coordinate.

    Returns
    -------
    HypercubePlan
        The plan with the least load. Ties are broken by the smallest greatest dim, then by the least total.

    Examples
    --------
    >>> triple = {"R": Relation(100, ("x", "y")), "S": Relation(100, ("y", "z")), "T": Relation(100, ("z", "t"))}
    >>> plan = hypercube(triple, workers=64, skewed={"z"})
    >>> plan.dims, plan.workers, round(plan.load, 2)
    ({'y': 9, 'T.z': 7}, 63, 36.51)
    """
    workers = worker_count(workers)
    one_of("scheme", scheme, SCHEMES, hint=True)
    if not isinstance(relations, Mapping) or not relations:
        raise OptionError(f"relations are {came(relations)}; expected {{name: Relation(rows, attributes)}}")
    for name, r in relations.items():
        if not isinstance(name, str) or not isinstance(r, Relation):
            raise OptionError(f"relation {came(name)} is {came(r)}; expected a Relation(rows, attributes) with a name")
    marked = _occurrences(relations, skewed)
    joining = _joining(relations)
    makers = {"hash": _hash, "random": _random, "hybrid": _hybrid}
    names = [scheme] if scheme != "auto" else ["hash", "hybrid", "random"] if marked else ["hash", "random"]
    plans = [_planned(name, relations, makers[name](relations, joining, marked), workers, marked) for name in names]
    return min(plans, key=lambda p: (round(p.load, 9), round(p.total, 9)))


Occurrences = frozenset[tuple[str, str]]


def _occurrences(relations: Mapping[str, Relation], skewed: Iterable[Any]) -> Occurrences:
    if isinstance(skewed, str) or not isinstance(skewed, Iterable):
        raise OptionError(f"skewed is {came(skewed)}; expected a set of attributes such as {{'z'}} or {{('T', 'z')}}")
    known = list(dict.fromkeys(a for r in relations.values() for a in r.attributes))
    out: set[tuple[str, str]] = set()
    for item in skewed:
        if isinstance(item, str):
            if item not in known:
                raise OptionError(
                    f"skewed attribute {came(item)} is unknown; expected one of {', '.join(known)}{near(item, known)}"
                )
            out |= {(name, item) for name, r in relations.items() if item in r.attributes}
        elif isinstance(item, tuple) and len(item) == 2:
            name, attribute = item
            if name not in relations:
                raise OptionError(
                    f"skewed {came(item)} names an unknown relation; the relations are {', '.join(relations)}"
                    f"{near(name, list(relations))}"
                )
            own = relations[name].attributes
            if attribute not in own:
                raise OptionError(
                    f"skewed {came(item)}: {name} has the attributes {', '.join(own) or '(none)'}{near(attribute, own)}"
                )
            out.add((name, attribute))
        else:
            raise OptionError(f"skewed contains {came(item)}; expected an attribute or a pair (relation, attribute)")
    return frozenset(out)


def _joining(relations: Mapping[str, Relation]) -> list[str]:
    """Return the attributes of more than one relation, in the order of their first occurrence."""
    counts = Counter(a for r in relations.values() for a in r.attributes)
    return [a for a, n in counts.items() if n > 1]


Members = dict[str, tuple[str, ...]]


def _hash(relations: Mapping[str, Relation], joining: Sequence[str], marked: Occurrences) -> Members:
    return {name: tuple(a for a in joining if a in r.attributes) for name, r in relations.items()}


def _random(relations: Mapping[str, Relation], joining: Sequence[str], marked: Occurrences) -> Members:
    return {name: (name,) for name in relations}


def _hybrid(relations: Mapping[str, Relation], joining: Sequence[str], marked: Occurrences) -> Members:
    taken = {a for r in relations.values() for a in r.attributes}

    def dim(name: str, a: str) -> str:
        if (name, a) not in marked:
            return a
        own = f"{name}.{a}"
        while own in taken:  # an attribute of that name has a dim of its own
            own += "'"
        return own

    return {name: tuple(dim(name, a) for a in joining if a in r.attributes) for name, r in relations.items()}


def _planned(
    scheme: str, relations: Mapping[str, Relation], members: Members, workers: int, marked: Occurrences
) -> HypercubePlan:
    names = list(dict.fromkeys(d for own in members.values() for d in own))
    if len(names) > _MOST_DIMS:
        raise OptionError(f"{len(names)} dims for scheme={scheme!r}; expected {_MOST_DIMS} at most: join in steps")
    rows = np.array([float(r.rows) for r in relations.values()])
    has = np.array([[d in own for d in names] for own in members.values()], dtype=bool).reshape(len(rows), len(names))
    dims = best_dims(rows, has, workers)
    sizes = dict(zip(names, dims, strict=True))

    def share(name: str) -> float:
        out = 1.0
        for d in members[name]:
            # a hashed attribute sends all rows of its top value to one coordinate
            out *= max(1 / sizes[d], _TOP_SHARE if scheme == "hash" and (name, d) in marked else 0.0)
        return out

    used = int(np.prod(dims, dtype=object)) if dims else 1
    load = sum(float(r.rows) * share(name) for name, r in relations.items())
    total = sum(float(r.rows) * used / float(np.prod([sizes[d] for d in members[n]])) for n, r in relations.items())
    produced = float(rows.sum())
    return HypercubePlan(
        scheme, {d: n for d, n in sizes.items() if n > 1}, used, load, total,
        total / produced if produced else 1.0, members,
    )


def best_dims(rows: np.ndarray, has: np.ndarray, workers: int) -> list[int]:
    """Return the dims with the least load among all whole numbers >= 1 whose product is at most ``workers``.

    Branch and bound over one dim at a time and all partial solutions. ``has[i, d]``: relation i has dim d.
    """
    n_dims = has.shape[1]
    if n_dims == 0:
        return []
    bound = _rounded_down(rows, has, workers) * (1 + 1e-12)
    # the rows that a later dim can still divide
    open_after = [has[:, d + 1 :].any(axis=1) for d in range(n_dims)]
    parts = [(np.ones((1, 0), dtype=np.int64), np.ones(1, dtype=np.int64), np.ones((1, len(rows))))]
    for d in range(n_dims):
        grown = []
        for chosen, product, divisor in parts:
            free = workers // product
            parent, size = expanded(np.ones_like(free), free)
            for at in range(0, len(parent), _MOST_AT_ONCE):
                piece, dim = parent[at : at + _MOST_AT_ONCE], size[at : at + _MOST_AT_ONCE]
                new = divisor[piece] * np.where(has[:, d], dim[:, None], 1)
                used = product[piece] * dim
                best = _least_load(rows, new, open_after[d], workers // used, has[:, d + 1 :])
                keep = best <= bound
                grown.append((np.column_stack([chosen[piece[keep]], dim[keep]]), used[keep], new[keep]))
        parts = grown
    chosen = np.concatenate([p[0] for p in parts])
    load = np.concatenate([(rows / p[2]).sum(axis=1) for p in parts])
    near_best = load <= load.min() * (1 + 1e-12)
    chosen = chosen[near_best]
    copies = (rows[:, None] * np.where(has, 1.0, chosen[:, None, :]).prod(axis=2).T).sum(axis=0)
    ranked = np.lexsort([*chosen.T[::-1], np.round(copies, 9), chosen.max(axis=1)])
    return [int(x) for x in chosen[ranked[0]]]


def _least_load(rows: np.ndarray, divisor: np.ndarray, still: Any, free: np.ndarray, rest: np.ndarray) -> Any:
    """Return a lower bound of the load of each partial solution."""
    parts = rows / divisor
    done = parts[:, ~still].sum(axis=1)
    if not still.any():
        return done
    open_parts, left = parts[:, still], free[:, None].astype(float)
    alone = (open_parts / left).sum(axis=1)
    counts = rest[still].sum(axis=0)
    if (counts <= 1).all():
        # each dim divides one relation: the mean of n parts with a product of at least prod / free
        n = open_parts.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # a product beyond all doubles is not a bound
            mean = n * (open_parts.prod(axis=1) / free) ** (1 / n)
        alone = np.maximum(alone, np.where(np.isfinite(mean), mean * (1 - 1e-9), 0.0))
    return done + alone


def _rounded_down(rows: np.ndarray, has: np.ndarray, workers: int) -> float:
    """Return the load of a good solution, which greedily raises the dim that lowers the load most for its factor."""
    dims = np.ones(has.shape[1], dtype=np.int64)

    def load(d: np.ndarray) -> float:
        return float((rows / np.where(has, d, 1).prod(axis=1)).sum())

    best = load(dims)
    now = best
    while True:
        steps = []
        for d in range(len(dims)):
            up = dims.copy()
            up[d] += 1
            if int(np.prod(up, dtype=object)) <= workers:
                steps.append(((now - load(up)) / np.log(up[d] / dims[d]), d))
        if not steps:
            return best
        dims[max(steps, key=lambda s: (s[0], -s[1]))[1]] += 1
        now = load(dims)
        best = min(best, now)
