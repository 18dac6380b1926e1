"""Compute the hulls of operators of typed intervals by brute force, and compare the intervals with them.

The table of an operator contains its result for each pair of argument values, or no result for an error. The table
gives the hull of a case. The interval is then exact, wide, or lost (a point is missing).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ivjoin import interval as iv

__all__ = ["EDGES", "Operator", "Score", "Span", "against", "edge_spans", "score_backward", "score_forward", "spans"]

Span = tuple[int, int]  # first and last index into the values of a domain
EMPTY = (1, 0)
EDGES = (-128, -127, -100, -64, -17, -16, -11, -7, -5, -3, -2, -1, 0, 1, 2, 3, 4, 6, 7, 10, 13, 50, 63, 64, 126, 127)


@dataclass
class Operator:
    """An operator with its arguments' values, all of them, in ascending order.

    Attributes
    ----------
    name : str
    domains : tuple of str
        Of the arguments, one or two.
    values : tuple of arrays
        Physical values of each argument.
    compute : callable
        The result for a plain value of each argument, or None where it errs.
    forward, backward : callable and callables
        The functions of ``ivjoin.interval``; a backward one takes ``(other, c, x)``, or ``(c, x)`` with one argument.
    result_domain : domain
        Of the results.
    results : array[n] or array[n, m]
        Physical results, enumerated when they are first read.
    valid : bool array like ``results``
        Where there is a number; elsewhere it errs or gives NaN.
    """

    name: str
    domains: tuple[Any, ...]
    values: tuple[np.ndarray, ...]
    compute: Callable[..., Any]
    forward: Callable[..., Any]
    backward: tuple[Callable[..., Any], ...]
    result_domain: Any

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = self.result_domain.limits
        table = [self.compute(*args) for args in product(*(v.tolist() for v in self.values))]
        valid = np.array([r is not None and lo <= r <= hi for r in table])
        dtype = np.float64 if self.result_domain.kind == "float" else np.int64
        results = np.array([r if ok else 0 for r, ok in zip(table, valid)], dtype=dtype)
        shape = tuple(map(len, self.values))
        return results.reshape(shape), valid.reshape(shape)

    @property
    def results(self) -> np.ndarray:
        return self._table[0]

    @property
    def valid(self) -> np.ndarray:
        return self._table[1]

    def argument(self, place: int, span: Span) -> Any:
        v = self.values[place]
        return iv.DomainInterval(self.domains[place], v[span[0]].item(), v[span[1]].item())


@dataclass(slots=True)
class Score:
    """Of how many cases the interval was the hull, was wide, or lost a point, and the first example of the two."""

    cases: int = 0
    exact: int = 0
    lost: list[Any] = field(default_factory=list)
    wide: list[Any] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.exact / self.cases if self.cases else 1.0

    def add(self, case: Any, got: Any, want: tuple[Any, Any]) -> None:
        """One case: the resulting interval and the hull, ``(1, 0)`` for an empty one."""
        self.cases += 1
        none = want[0] > want[1]
        if (got.lo, got.hi) == want or (none and got.is_void):
            self.exact += 1
        elif not none and not (got.lo <= want[0] and want[1] <= got.hi):
            self.lost.append((case, got, want))
        elif len(self.wide) < 3:
            self.wide.append((case, got, want))


def spans(n: int) -> list[Span]:
    """All intervals of n values."""
    return [(i, j) for i in range(n) for j in range(i, n)]


def edge_spans(values: np.ndarray, edges: Iterable[Any] = EDGES) -> list[Span]:
    """The intervals between chosen values."""
    at = sorted({int(np.searchsorted(values, e)) for e in edges} & set(range(len(values))))
    return [(i, j) for k, i in enumerate(at) for j in at[k:]]


def sampled(cases: list[Any], n: int | None, rng: random.Random) -> list[Any]:
    return cases if n is None or len(cases) <= n else rng.sample(cases, n)


def score_forward(op: Operator, cases: Iterable[tuple[Span, ...]]) -> Score:
    """The operator's results over intervals of its arguments."""
    score, high = Score(), np.where(op.valid, op.results, _least(op.results))
    low = np.where(op.valid, op.results, _most(op.results))
    for case in cases:
        at = tuple(slice(i, j + 1) for i, j in case)
        if op.valid[at].any():
            want = low[at].min().item(), high[at].max().item()
        else:
            want = EMPTY
        args = [op.argument(k, s) for k, s in enumerate(case)]
        score.add((op.name, *args), op.forward(*args), want)
    return score


def _least(a: np.ndarray) -> Any:
    return -np.inf if a.dtype.kind == "f" else np.iinfo(np.int64).min


def _most(a: np.ndarray) -> Any:
    return np.inf if a.dtype.kind == "f" else np.iinfo(np.int64).max


def score_backward(
    op: Operator, place: int, targets: Iterable[tuple[Any, Any]], others: list[Span], mine: Callable[[], Span | None]
) -> Score:
    """The argument at a place contracted by results, against every interval of the other argument.

    Parameters
    ----------
    targets : pairs of physical results
    others : list of spans
        Of the other argument; ignored with one argument.
    mine : callable
        The span to contract; None is the whole domain.
    """
    score = Score()
    table, valid = (op.results, op.valid) if place == 0 else (op.results.T, op.valid.T)
    back, values = op.backward[place], op.values[place]
    whole = (0, len(values) - 1)
    for lo, hi in targets:
        hit = valid & (table >= lo) & (table <= hi)
        c = iv.DomainInterval(op.result_domain, lo, hi)
        if hit.ndim == 1:
            columns: Iterator[tuple[Any, np.ndarray]] = iter([((), hit)])
        else:
            counts = np.zeros((hit.shape[0], hit.shape[1] + 1), dtype=np.int32)
            np.cumsum(hit, axis=1, out=counts[:, 1:])
            columns = ((s, counts[:, s[1] + 1] > counts[:, s[0]]) for s in others)
        for span, reached in columns:
            own = mine() or whole
            at = np.flatnonzero(reached[own[0] : own[1] + 1])
            want = (values[own[0] + at[0]].item(), values[own[0] + at[-1]].item()) if at.size else EMPTY
            x = op.argument(place, own)
            args = (op.argument(1 - place, span), c, x) if span else (c, x)
            score.add((op.name, *args), back(*args), want)
    return score


def against(
    name: str, domains: tuple[str, ...], values: tuple[Iterable[Any], ...], compute: Callable[..., Any],
    forward: Callable[..., Any], *backward: Callable[..., Any],
) -> Operator:  # fmt: skip
    """An operator enumerated by a function of plain values, which gives None where it errs."""
    ds = tuple(iv.domain(d) for d in domains)
    vs = tuple(np.array(list(v)) for v in values)
    one = forward(*(iv.DomainInterval(d, v[0].item(), v[-1].item()) for d, v in zip(ds, vs)))
    return Operator(name, ds, vs, compute, forward, backward, one.domain)
