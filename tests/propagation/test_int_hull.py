"""Boxes of integers: every contraction holds the exact hull, and nearly all are equal to it (vectors/README.md)."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import hulls
import pytest

from ivjoin.propagation import Contraction, Outcome, contract

CASES = [json.loads(line) for line in (Path(__file__).parent / "vectors" / "int_hull.jsonl").open()]
EXACT = [c for c in CASES if c["mode"] == "exact"]
ANSI = [c for c in CASES if c["mode"] == "int8ansi"]


@cache
def contracted(i: int, effort: int) -> Contraction:
    case = next(c for c in CASES if c["id"] == i)
    t = "int64" if case["mode"] == "exact" else "int8"
    return contract(hulls.sql(case["pred"]), {n: (t, *b) for n, b in case["box"].items()}, effort=effort)


def holds(c: Contraction, hull: Any) -> bool:
    if hull in ("empty", None):
        return True
    if c.outcome is Outcome.INFEASIBLE:
        return False
    return all(c.box[n].inf <= lo and hi <= c.box[n].sup for n, (lo, hi) in hull.items())


def is_exact(c: Contraction, hull: Any) -> bool:
    if hull in ("empty", None):
        return c.outcome is Outcome.INFEASIBLE
    if c.outcome is Outcome.INFEASIBLE:
        return False
    return all((c.box[n].inf, c.box[n].sup) == tuple(b) for n, b in hull.items())


def test_no_vector_is_missing_from_the_file() -> None:
    assert (len(EXACT), len(ANSI), len(CASES)) == (938, 234, 1410)


@pytest.mark.slow
@pytest.mark.parametrize("effort", [0, 600])
def test_no_point_is_lost(effort: int) -> None:
    lost = [c["id"] for c in EXACT + ANSI if not holds(contracted(c["id"], effort), c["hull"])]
    assert lost == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "effort, optimal, infeasible", [pytest.param(0, 0.96, 0.99, id="propagation"), pytest.param(600, 1, 1, id="search")]
)
def test_bounds_are_tight(effort: int, optimal: float, infeasible: float) -> None:
    """Numbers that may only rise."""
    full = [c for c in EXACT if c["hull"] != "empty"]
    empty = [c for c in EXACT if c["hull"] == "empty"]
    assert sum(is_exact(contracted(c["id"], effort), c["hull"]) for c in full) >= optimal * len(full)
    assert sum(is_exact(contracted(c["id"], effort), "empty") for c in empty) >= infeasible * len(empty)


@pytest.mark.slow
@pytest.mark.parametrize("width, optimal", [(40, 0.99), (1000, 0.95)])
def test_larger_boxes(width: int, optimal: float) -> None:
    rng = random.Random(width)
    full = exact = 0
    while full < 60:
        text, box = hulls.case(rng, width)
        if hulls.points(box) > 1_000_000:
            continue
        hull = hulls.hull(text, box)
        c = contract(text, {n: ("int64", *b) for n, b in box.items()})
        assert holds(c, hull), (text, box, hull, c)
        full += 1
        exact += is_exact(c, hull)
    assert exact >= optimal * full


@pytest.mark.slow
@pytest.mark.parametrize("width", [30, 1000])
def test_infeasible_boxes_are_seen_without_a_search(width: int) -> None:
    """Boxes moved off the point where the condition is TRUE: of 100 empty ones, propagation tells more than 97."""
    rng = random.Random(width + 1)
    empty = told = 0
    while empty < 100:
        text, box = hulls.case(rng, width)
        if hulls.points(box) > 200_000:
            continue
        box = {n: (lo + d, hi + d) for n, (lo, hi) in box.items() for d in [rng.randint(-width, width)]}
        hull = hulls.hull(text, box)
        c = contract(text, {n: ("int64", *b) for n, b in box.items()}, effort=0)
        assert holds(c, hull), (text, box, hull, c)
        if hull is None:
            empty += 1
            told += c.outcome is Outcome.INFEASIBLE
    assert told >= 98


@pytest.mark.slow
def test_at_a_point_the_answer_is_exact() -> None:
    """Nothing to search, nothing to split: infeasible if and only if the condition is not TRUE there."""
    rng = random.Random(7)
    seen = set()
    for _ in range(300):
        text, box = hulls.case(rng, 20)
        point = {n: (v, v) for n, (lo, hi) in box.items() for v in [rng.randint(lo, hi)]}
        true = hulls.hull(text, point) is not None
        c = contract(text, {n: ("int64", *b) for n, b in point.items()}, effort=0)
        assert (c.outcome is Outcome.UNCHANGED) == true, (text, point, c)
        assert (c.outcome is Outcome.INFEASIBLE) != true, (text, point, c)
        seen.add(true)
    assert seen == {True, False}


TINY = [
    "a + b", "a - b", "a * b", "a * a", "a div b", "a % b", "pmod(a, b)", "-a", "abs(a)", "a * a - b", "abs(a - b)",
    "least(a, b) * a", "greatest(a + b, a * b)", "(a + b) div a", "a - b - a", "a % b + b", "coalesce(a % b, b)",
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("term", TINY)
def test_overflow_and_division_of_tinyint(term: str) -> None:
    """Every point of int8 boxes, limits and zero among them; a point that errs satisfies nothing."""
    rng = random.Random(term)
    for _ in range(25):
        box = {}
        for n in "ab":
            lo = rng.choice([-128, -128, -3, 0, rng.randint(-128, 127)])
            box[n] = (lo, min(127, lo + rng.choice([0, 1, 5, 40, 255])))
        text = f"{term} {rng.choice(['<', '<=', '=', '>=', '>', '<>'])} {rng.choice([0, 1, -1, 127, -128, 60])}"
        text = f"NOT ({text})" if rng.random() < 0.2 else text
        hull = hulls.hull(text, box, "int8")
        c = contract(text, {n: ("int8", *b) for n, b in box.items()}, effort=rng.choice([0, 100]))
        assert holds(c, hull), (text, box, hull, c)


def test_a_column_that_is_not_used_keeps_its_bounds() -> None:
    c = contract("a > 3", {"a": ("int64", 0, 9), "b": ("int64", 1, 2)})
    assert (c.box["a"].inf, c.box["a"].sup) == (4, 9)
    assert (c.box["b"].inf, c.box["b"].sup) == (1, 2)
