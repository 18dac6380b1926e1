"""Every operator that takes whole numbers, over intervals of int8: nothing is lost, and how near the hull they come.

What the operator gives at all 256 x 256 points is evaluated once; the interval rules, up and down, are compared with
the least and greatest of those. The fast test draws intervals; the one marked soak takes every interval of one
argument, and every pair of those that end at zero, one, powers of two, the ends of the type, or beside them.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from evaluating import there
from intervals.conditions import TWO, WIDE

from ivjoin.conditions import scalar
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr import Scope, build
from ivjoin.expr.literals import literal
from ivjoin.expr.nodes import Node, make, walk
from ivjoin.expr.types import BOOL
from ivjoin.functions.table import FAMILIES, operator_of
from ivjoin.propagation import Dom, Outcome, contract_nodes, forward

ONE = ["-a", "abs(a)", "sign(a)", "~a", "bit_count(a)", "floor(a)", "ceil(a)", "round(a, -1)", "round(a, -2)",
       "bround(a, -1)", "CAST(a AS INT)", "CAST(a AS DOUBLE)", "CAST(a AS DECIMAL(3, 0))", "CAST(a * 3 AS TINYINT)",
       "a IN (1, 5, 9)", "a IS NULL", "shiftleft(a, 3)", "shiftright(a, 2)", "shiftrightunsigned(a, 2)", "a * a",
       "TRY_CAST(a * 2 AS TINYINT)", "CASE WHEN a < 3 THEN a + 1 ELSE -a END"]  # fmt: skip
SCHEMA = pa.schema([("a", pa.int8()), ("b", pa.int8())])
SCOPE = Scope(SCHEMA, pa.schema([]))
A, B = (scalar(n, SCOPE) for n in "ab")
EDGES = (-128, -127, -65, -64, -33, -8, -3, -2, -1, 0, 1, 2, 3, 7, 8, 31, 32, 64, 100, 126, 127)
Interval = tuple[int, int]


class Points(NamedTuple):
    """Values of an operator : object [256, 256] by a and b; None where it is NULL or errs."""

    node: Node
    values: np.ndarray
    there: np.ndarray


@functools.cache
def points(text: str) -> Points:
    node = scalar(text, SCOPE)
    axis = np.arange(-128, 128, dtype=np.int8)
    a, b = (g.ravel() for g in np.meshgrid(axis, axis, indexing="ij"))
    columns = {"a": pa.array(a), "b": pa.array(b)}
    (v,) = evaluate([node], lambda _, name: columns[name], len(a))
    values = np.asarray(v.values)
    values = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    return Points(node, values.reshape(256, 256), there(v, len(a)).reshape(256, 256))


def part(x: np.ndarray, a: Interval, b: Interval) -> np.ndarray:
    return x[a[0] + 128 : a[1] + 129, b[0] + 128 : b[1] + 129]


def up(p: Points, a: Interval, b: Interval) -> bool:
    """Whether the interval is the hull; that it holds it is asserted."""
    known = {A: Dom.of(A.type, *a, null=False), B: Dom.of(B.type, *b, null=False)}
    dom = forward(p.node, known)
    values = part(p.values, a, b)[part(p.there, a, b)]
    if not len(values):
        return dom.is_empty
    least, most = values.min(), values.max()
    assert not dom.is_empty and dom.lo <= least and most <= dom.hi, (str(p.node), a, b, dom, least, most)
    return bool(dom.lo == least and dom.hi == most)


def down(p: Points, a: Interval, b: Interval, z: tuple[Any, Any]) -> bool:
    """Whether contracting to values from z[0] to z[1] gives the hull; that it keeps all of it is asserted."""
    known = {A: Dom.of(A.type, *a, null=False), B: Dom.of(B.type, *b, null=False)}
    met = part(p.there, a, b) & (part(p.values, a, b) >= z[0]) & (part(p.values, a, b) <= z[1])
    conjuncts = _between(p.node, z)
    columns = [n for n in (A, B) if n in set(walk(*conjuncts))]
    outcome, doms = contract_nodes(conjuncts, known, columns)
    if not met.any():
        return outcome is Outcome.INFEASIBLE
    assert outcome is not Outcome.INFEASIBLE, (str(p.node), a, b, z)
    exact = True
    for n, first, other in ((A, a[0], 1), (B, b[0], 0)):
        if n not in columns:
            continue
        index = np.flatnonzero(met.any(axis=other)) + first
        assert doms[n].lo <= index[0] and index[-1] <= doms[n].hi, (str(p.node), a, b, z, doms[n], index)
        exact &= bool(doms[n].lo == index[0] and doms[n].hi == index[-1])
    return exact


def _between(node: Node, z: tuple[Any, Any]) -> tuple[Node, ...]:
    if node.type == BOOL:
        return (node if z == (1, 1) else build.not_(node),)
    ends = [literal(float(v) if node.type.kind == "float" else int(v), node.type) for v in z]
    return tuple(make(op, (node, end), (), BOOL) for op, end in zip(("ge", "le"), ends, strict=True))


def targets(p: Points, a: Interval, b: Interval, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Ranges of results: of one that exists, of two, and of one next to them."""
    values = part(p.values, a, b)[part(p.there, a, b)]
    if p.node.type == BOOL:
        yield rng.choice([(0, 0), (1, 1)])
    elif len(values):
        x, y = sorted((rng.choice(values).item(), rng.choice(values).item()))
        yield x, x
        yield x, y
        if p.node.type.kind != "float":
            low, high = p.node.type.limits
            yield (min(x + 1, high),) * 2
            yield low, y


def assert_near(text: str, ups: list[bool], downs: list[bool]) -> None:
    for found, share in zip((ups, downs), WIDE.get(text, (1, 1)), strict=True):
        assert len(found) > 5 and Fraction(sum(found), len(found)) >= share, (text, sum(found) / len(found))


@pytest.mark.one_in(17)
@pytest.mark.parametrize("text", ONE + TWO)
def test_intervals_of_bytes(text: str) -> None:
    p, rng = points(text), random.Random(text)
    ups, downs = [], []
    for _ in range(60):
        a, b = (tuple(sorted(rng.choice(EDGES) if rng.random() < 0.5 else rng.randrange(-128, 128) for _ in "lh"))
                for _ in "ab")  # fmt: skip
        if rng.random() < 0.3:
            a = a[:1] * 2
        ups.append(up(p, a, b))
        downs += [down(p, a, b, z) for z in targets(p, a, b, rng)]
    assert_near(text, ups, downs)


@pytest.mark.soak
@pytest.mark.parametrize("text", ONE + TWO)
def test_every_pair_of_intervals_of_edges(text: str) -> None:
    p, rng = points(text), random.Random(text)
    every = list(itertools.combinations_with_replacement(EDGES, 2))
    if text in ONE:
        every = list(itertools.combinations_with_replacement(range(-128, 128), 2))
    others = every if text in TWO else [(0, 0)]
    ups = [up(p, a, b) for a in every for b in others]
    few = every if text in TWO else rng.sample(every, 3000)
    downs = [down(p, a, b, z) for a in few for b in rng.sample(others, min(6, len(others)))
             for z in targets(p, a, b, rng)]  # fmt: skip
    if text not in WIDE:
        assert_near(text, ups, downs)


def test_every_operator_of_whole_numbers_is_here() -> None:
    here = {n for text in ONE + TWO for n in walk(points(text).node)}
    names = {o.name for n in here if (o := operator_of(n)) is not None}
    of_ints = {o.name for family in ("arithmetic", "bits", "comparison", "truth", "choice", "attempts")
               for o in FAMILIES[family].OPERATORS if {"int", "*"} & set(o.meanings)}  # fmt: skip
    assert of_ints - names <= {"is_nan"}
