"""Interval rules of operators of two arguments over every pair of intervals of a grid: no value is lost, up or down.

A grid is at most 16 values a side, which make 136 intervals, and 18,496 pairs of them. Over int8 the grids are windows
of 16 neighbours, at both ends of the type, at zero and between, each beside each. Over other types a grid is the values
that the walk over the table tries (``test_table``): ends, neighbours of ends, zeros, infinities. The suite draws pairs;
the tests marked soak leave none out, and take all pairs of the 561 intervals between 33 edges of int8 besides.
``test_bytes`` takes the hull over every interval of one argument. Not tried are all pairs of the 32,896 intervals.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from intervals.conditions import WIDE
from intervals.grids import STRUCTURE, Grid, grid, operators_of_bytes, over_columns, wanted
from intervals.values import values_of

from bench.operator_table import examples
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import FLOAT64, Type
from ivjoin.functions.rules.domain import NAN, NULL
from ivjoin.functions.rules.rule import Rule
from ivjoin.functions.rules.state import Infeasible, State
from ivjoin.functions.table import OPERATORS
from ivjoin.interval import truth
from ivjoin.propagation.rules import rule_of

STARTS = (-128, -72, -8, 56, 112)
EDGES = sorted({s * (1 << k) + d for k in range(3, 7) for s in (1, -1) for d in (-1, 0, 1)}
               | {-128, -127, -126, -3, -2, -1, 0, 1, 2, 3, 100, 126, 127} & set(range(-128, 128)))  # fmt: skip


def spans(n: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n) for j in range(i, n)]


def folded(ufunc: Any, x: np.ndarray) -> np.ndarray:
    """``ufunc`` over all blocks : [n, n, m, m] by first and last row, first and last column."""
    n, m = x.shape
    out = np.zeros((n, n, m, m), dtype=x.dtype)
    for i in range(n):
        rows = ufunc.accumulate(x[i:], axis=0)
        for j in range(m):
            out[i, i:, j, j:] = ufunc.accumulate(rows[:, j:], axis=1)
    return out


def hulls(g: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest result of each block; least above greatest where no result exists."""
    dtype = np.float64 if g.values.dtype.kind == "f" else object if g.values.dtype == object else np.int64
    low, high = (np.inf, -np.inf) if dtype is np.float64 else (1 << 70, -(1 << 70)) if dtype is object else (
        np.iinfo(np.int64).max, np.iinfo(np.int64).min)  # fmt: skip
    return (folded(np.minimum, np.where(g.there, g.values, low).astype(dtype)),
            folded(np.maximum, np.where(g.there, g.values, high).astype(dtype)))  # fmt: skip


def inside(t: Type, low: Any, high: Any) -> tuple[Any, Any, int]:
    return (float(low), float(high), 0) if t.kind == "float" else (low, high, 0)


def cases(g: Grid, share: float, rng: random.Random) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    every = spans(len(g.first)), spans(len(g.second))
    if share == 1:
        yield from itertools.product(*every)
    else:
        for _ in range(int(share * len(every[0]) * len(every[1]))):
            yield rng.choice(every[0]), rng.choice(every[1])


def check_up(g: Grid, rule: Rule, share: float, rng: random.Random) -> tuple[int, int]:
    """Each interval of results holds the block's results; how many were tried, how many were the hull."""
    assert rule.forward is not None
    (s, t), text = (x.type for x in g.node.args), str(g.node)
    null, nan = folded(np.logical_or, g.null), folded(np.logical_or, g.nan)
    is_bool = g.node.type.kind == "bool"
    if is_bool:
        marks = np.where(g.there, np.where(g.values.astype(bool), truth.TRUE, truth.FALSE), 0)
        masks = folded(np.bitwise_or, marks | np.where(g.null, truth.NULL, 0))
    else:
        low, high = hulls(g)
    tried = exact = 0
    for a, b in cases(g, share, rng):
        at = (*a, *b)
        found = rule.forward([inside(s, g.first[a[0]], g.first[a[1]]), inside(t, g.second[b[0]], g.second[b[1]]), None])
        tried += 1
        if is_bool:
            assert not masks[at] & ~found, (text, g.first, g.second, a, b, found, masks[at])
            exact += found == masks[at]
            continue
        lo, hi, flags = found
        assert flags & NULL or not null[at], (text, a, b, found)
        assert flags & NAN or not nan[at], (text, a, b, found)
        if low[at] <= high[at]:
            assert lo <= low[at] and high[at] <= hi, (text, g.first, g.second, a, b, found, low[at], high[at])
        exact += (lo, hi) == (low[at], high[at]) or (lo > hi and low[at] > high[at])
    return tried, exact


def check_down(g: Grid, rule: Rule, share: float, rng: random.Random) -> tuple[int, int]:
    """Both arguments keep every value that can give a requested result; the numbers of cases and of hulls."""
    assert rule.backward is not None
    (s, t), text = (x.type for x in g.node.args), str(g.node)
    n, m = len(g.first), len(g.second)
    tried = exact = 0
    for z, hit in wanted(g, rng):
        rows = np.where(hit, np.arange(n)[:, None], n), np.where(hit, np.arange(n)[:, None], -1)
        columns = np.where(hit, np.arange(m)[None, :], m), np.where(hit, np.arange(m)[None, :], -1)
        ends = [folded(f, x) for pair in (rows, columns) for f, x in zip((np.minimum, np.maximum), pair)]
        for a, b in cases(g, share, rng):
            at = (*a, *b)
            x, y = inside(s, g.first[a[0]], g.first[a[1]]), inside(t, g.second[b[0]], g.second[b[1]])
            state = State(STRUCTURE, [x, y, z], bytearray(b"\1\1\1"), bytearray(3), bytearray(3))
            i, j, k, last = (int(e[at]) for e in ends)
            said = (text, x, y, z)
            tried += 1
            try:
                rule.backward(state)
            except Infeasible:
                assert i > j, said
                exact += 1
                continue
            if i > j:
                continue
            found, other = state.D[0], state.D[1]
            assert found[0] <= g.first[i] and g.first[j] <= found[1], (*said, found, g.first[i], g.first[j])
            assert other[0] <= g.second[k] and g.second[last] <= other[1], (*said, other, g.second[k], g.second[last])
            exact += found[:2] == (g.first[i], g.first[j]) and other[:2] == (g.second[k], g.second[last])
    return tried, exact


def check(g: Grid, share: float, rng: random.Random) -> tuple[tuple[int, int], tuple[int, int]]:
    rule = rule_of(g.node, 2, (0, 1))
    ups = (0, 0) if rule.forward is None else check_up(g, rule, share, rng)
    downs = (0, 0) if rule.backward is None else check_down(g, rule, share, rng)
    return ups, downs


def pairs_of_columns() -> dict[str, Node]:
    """Each record's operators of two arguments that have interval rules."""
    out = {}
    for operator in OPERATORS.values():
        for text, node in examples(operator):
            kinds = {a.type.kind for a in node.args}
            if len(node.args) != 2 or any(a.op == "literal" for a in node.args) or node.op == "attempt":
                continue  # what is tried stands among its own arguments
            if kinds & {"string", "binary", "bool", "opaque", "null", "decimal256", "months"}:
                continue
            if node.type.kind not in ("string", "binary", "opaque") and rule_of(node, 2, (0, 1)).forward is not None:
                out[f"{operator.name}: {text}"] = over_columns(node)
    return out


def picked(t: Type) -> list[Any]:
    """At most 16 values of a type, neither NULL nor NaN, in order; -0.0 is 0.0."""
    if t.kind == "int" and t.bits != 64:
        least, most = t.limits
        return [least, least + 1, -33, -12, -2, -1, 0, 1, 2, 5, 11, 31, 32, 33, most - 1, most]
    found = sorted({v + 0.0 if t.kind == "float" else v for v in values_of(t) if v is not None and v == v})
    if t.kind == "int":
        return [*found[:4], *[v for v in found[4:-4] if abs(v) < 9 or v in (31, 64)], *found[-4:]][:16]
    return found[:16]


@pytest.mark.one_in(17)
@pytest.mark.parametrize("text", operators_of_bytes())
def test_windows_of_bytes(text: str) -> None:
    node, rng = operators_of_bytes()[text], random.Random(text)
    for a, b in [(-8, -8), *rng.sample(list(itertools.product(STARTS, repeat=2)), 2)]:
        (ups, exact), (downs, _) = check(grid(node, range(a, a + 16), range(b, b + 16)), 0.02, rng)
        assert ups == 369 < downs
        assert exact == ups or text in WIDE


DOUBLES = [text for text, node in pairs_of_columns().items() if node.op in ("add", "sub", "mul", "div", "mod", "pmod")
           and all(a.type == FLOAT64 for a in node.args)]  # fmt: skip


@pytest.mark.parametrize("text", DOUBLES)
def test_grids_of_doubles(text: str) -> None:
    check_grid(text)


@pytest.mark.one_in(11)
@pytest.mark.parametrize("text", [text for text in pairs_of_columns() if text not in DOUBLES])
def test_grids_of_every_type(text: str) -> None:
    check_grid(text)


def check_grid(text: str) -> None:
    node = pairs_of_columns()[text]
    g = grid(node, *(picked(a.type) for a in node.args))
    assert len(g.first) > 7 < len(g.second)
    (ups, _), (downs, _) = check(g, 0.03, random.Random(text))
    assert ups > 30 < downs


@pytest.mark.soak
@pytest.mark.parametrize("text", operators_of_bytes())
def test_every_pair_in_windows_of_bytes(text: str) -> None:
    node, rng = operators_of_bytes()[text], random.Random(text)
    for a, b in itertools.product(STARTS, repeat=2):
        g = grid(node, range(a, a + 16), range(b, b + 16))
        (ups, exact), (downs, _) = check(g, 1, rng)
        assert ups == 136 * 136
        assert downs >= 2 * ups if g.there.any() else downs == 0  # every sum may overflow
        assert exact == ups or text in WIDE


@pytest.mark.soak
@pytest.mark.parametrize("text", operators_of_bytes())
def test_every_pair_of_edges_of_bytes(text: str) -> None:
    (ups, _), (downs, _) = check(grid(operators_of_bytes()[text], EDGES, EDGES), 1, random.Random(text))
    assert ups == (len(EDGES) * (len(EDGES) + 1) // 2) ** 2 and downs > ups


@pytest.mark.soak
@pytest.mark.parametrize("text", pairs_of_columns())
def test_every_pair_in_grids_of_every_type(text: str) -> None:
    node = pairs_of_columns()[text]
    g = grid(node, *(picked(a.type) for a in node.args))
    (ups, _), (downs, _) = check(g, 1, random.Random(text))
    assert ups == len(spans(len(g.first))) * len(spans(len(g.second))) <= downs


def test_a_lost_value_is_noticed() -> None:
    g = grid(operators_of_bytes()["a + b"], range(-8, 8), range(-8, 8))
    rule = rule_of(g.node, 2, (0, 1))
    forward, backward = rule.forward, rule.backward
    assert forward is not None and backward is not None

    def lower(D: list[Any]) -> Any:
        lo, hi, flags = forward(D)
        return lo, hi - 1, flags

    def narrower(s: State) -> None:
        backward(s)
        lo, hi, flags = s.D[0]
        s.cut(0, lo, hi - (hi > 5), flags)

    with pytest.raises(AssertionError):
        check_up(g, rule._replace(forward=lower), 0.01, random.Random(1))
    with pytest.raises(AssertionError):
        check_down(g, rule._replace(backward=narrower), 0.1, random.Random(1))
