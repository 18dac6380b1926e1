"""Predicates over small integer boxes as SQL, and the exact hull of the points where one is TRUE, by enumeration."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from evaluating import there

from bench.operators import positive_remainder, remainder, truncated
from ivjoin import conditions, expr
from ivjoin.conditions.evaluate import evaluate

Box = Mapping[str, tuple[int, int]]
_INFIX = {"+", "-", "*", "div", "%", "<", "<=", ">", ">=", "=", "<>", "and", "or"}


def sql(e: Any) -> str:
    """The SQL text of an s-expression."""
    op = e[0]
    if op == "col":
        return e[1]
    if op == "lit":
        return f"({e[1]})" if e[1] < 0 else str(e[1])
    args = [sql(x) for x in e[1:]]
    if op in _INFIX or op == "!=":
        return "(" + f" {op.upper()} ".join(args) + ")"
    if op == "neg":
        return f"(-{args[0]})"
    if op == "not":
        return f"(NOT {args[0]})"
    if op == "between":
        return f"({args[0]} BETWEEN {args[1]} AND {args[2]})"
    return f"{op}({', '.join(args)})"


def hull(text: str, box: Box, type_name: str = "int64") -> dict[str, tuple[int, int]] | None:
    """Least and greatest value of each column over the points where the condition is TRUE; None without such points."""
    t = pa.type_for_alias(type_name)
    axes = [np.arange(lo, hi + 1) for lo, hi in box.values()]
    grid = np.meshgrid(*axes, indexing="ij")
    columns = {n: pa.array(g.ravel(), pa.int64()).cast(t) for n, g in zip(box, grid)}
    node = conditions.condition(text, expr.Scope(pa.schema([(n, t) for n in box]), pa.schema([])))
    assert node is not None
    (v,) = evaluate([node], lambda _, name: columns[name], grid[0].size)
    true = np.asarray(v.values, dtype=bool) & there(v, grid[0].size)
    if not true.any():
        return None
    return {n: (int(g.ravel()[true].min()), int(g.ravel()[true].max())) for n, g in zip(box, grid)}


def case(rng: random.Random, width: int) -> tuple[str, dict[str, tuple[int, int]]]:
    """A random predicate over one to three columns and a box, each side up to ``width`` wide."""
    names = "abc"[: rng.choice((1, 2, 2, 2, 3))]
    box = {}
    for n in names:
        lo = rng.randint(-width // 2, width // 2)
        box[n] = (lo, lo + rng.randint(0, width))
    point = {n: rng.randint(*box[n]) for n in names}
    return sql(_predicate(rng, names, 2, point)), box


def value(e: Any, point: Mapping[str, int]) -> int:
    """The value of a term at a point."""
    op = e[0]
    if op == "col":
        return point[e[1]]
    if op == "lit":
        return int(e[1])
    x = [value(a, point) for a in e[1:]]
    rules: dict[str, Callable[..., Any]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "abs": abs, "neg": lambda a: -a,
        "least": min, "greatest": max, "div": truncated, "%": remainder, "pmod": positive_remainder,
    }  # fmt: skip
    return rules[op](*x)


def _term(rng: random.Random, names: str, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.75:
            return ["col", rng.choice(names)]
        return ["lit", rng.randint(-5, 9)]
    op = rng.choice(["+", "+", "-", "-", "*", "div", "%", "pmod", "abs", "neg", "least", "greatest"])
    if op in ("abs", "neg"):
        return [op, _term(rng, names, depth - 1)]
    if op in ("div", "%", "pmod"):
        return [op, _term(rng, names, depth - 1), ["lit", rng.choice([-7, -4, -3, -2, 2, 3, 4, 5, 10])]]
    return [op, _term(rng, names, depth - 1), _term(rng, names, depth - 1)]


def _predicate(rng: random.Random, names: str, depth: int, point: Mapping[str, int]) -> Any:
    """Constants are near what the terms are at the point, so that few predicates are TRUE everywhere or nowhere."""
    r = rng.random()
    if depth and r < 0.2:
        return ["and", _predicate(rng, names, depth - 1, point), _predicate(rng, names, depth - 1, point)]
    if depth and r < 0.3:
        return ["or", _predicate(rng, names, depth - 1, point), _predicate(rng, names, depth - 1, point)]
    if depth and r < 0.4:
        return ["not", _predicate(rng, names, depth - 1, point)]
    term = _term(rng, names, 3)
    c = value(term, point) + rng.randint(-3, 3)
    if r < 0.6:
        return ["between", term, ["lit", c], ["lit", c + rng.randint(0, 8)]]
    return [rng.choice(["<", "<=", ">", ">=", "=", "=", "<>"]), term, ["lit", c]]


def points(box: Box) -> int:
    n = 1
    for lo, hi in box.values():
        n *= hi - lo + 1
    return n
