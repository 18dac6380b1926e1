"""A division by zero in a wide box: an error in a join, an error or a NULL in `contract`; both as tight as can be."""

from __future__ import annotations

import random
import re

import hulls
import pyarrow as pa
import pytest

from ivjoin.conditions import condition
from ivjoin.expr import Scope
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.types import INT64
from ivjoin.propagation import Dom, Outcome, contract, contract_nodes
from ivjoin.propagation.dag import Propagator
from ivjoin.propagation.search import narrowed

Box = dict[str, tuple[int, int]]
QUOTIENTS = (
    "a div b", "a % b", "pmod(a, b)", "a div (a - b)", "(a + 3) % (b - 2)", "10 div b", "a div a", "a % a",
)  # fmt: skip
AROUND = (
    "{t}", "coalesce({t}, {k})", "least({t}, a)", "greatest({t}, b - {k})", "abs({t})", "{t} + a", "a - b",
    "CASE WHEN {t} > {k} THEN a ELSE b END", "if({t} = {k}, a - b, b)", "nullif({t}, {k})",
)  # fmt: skip


def predicate(rng: random.Random) -> str:
    t, k = rng.choice(QUOTIENTS), rng.randint(-3, 3)
    against = f"{rng.choice(['<', '<=', '=', '>=', '>', '<>'])} {rng.randint(-4, 12)}"
    text = f"{rng.choice(AROUND).format(t=t, k=k)} {against}"
    if rng.random() < 0.2:
        text = f"NOT ({text})"
    if rng.random() < 0.3:
        other = f"{rng.choice([*QUOTIENTS, 'a + b', 'a - b'])} {rng.choice(['<', '=', '>'])} {rng.randint(-4, 12)}"
        text = f"({text}) {rng.choice(['OR', 'AND'])} ({other})"
    return f"({t} IS NULL OR {text})" if rng.random() < 0.1 else text


def without_errors(text: str) -> str:
    """The predicate with NULL for what divides by zero."""
    text = text.replace("pmod(a, b)", "pmod(a, nullif(b, 0))")
    return re.sub(r"(div|%) (\([^)]*\)|[ab])", r"\1 nullif(\2, 0)", text)


def cases(seed: int, count: int) -> list[tuple[str, Box]]:
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        low = {n: rng.randint(-9, 4) for n in "ab"}
        out.append((predicate(rng), {n: (lo, lo + rng.choice([0, 3, 9, 20])) for n, lo in low.items()}))
    return out


def read(text: str, box: Box) -> tuple[Node, dict[Node, Dom]]:
    node = condition(text, Scope(pa.schema([(n, pa.int64()) for n in box]), pa.schema([])))
    assert node is not None
    return node, {c: Dom.of(INT64, *box[c.params[1]], null=False) for c in columns_of(node)}


@pytest.mark.slow
def test_both_readings_are_enclosed_and_nothing_else() -> None:
    """The vectors of ``int_hull`` count the NULL, ANSI the error: the bounds are the hull of the points of either."""
    apart = 0
    for text, box in cases(3, 150):
        found = contract(text, {n: ("int64", *b) for n, b in box.items()})
        got = None if found.outcome is Outcome.INFEASIBLE else {n: tuple(found.box[n]) for n in box}
        errs, null = hulls.hull(text, box), hulls.hull(without_errors(text), box)
        if all(lo == hi for lo, hi in box.values()):
            null = errs  # a point is decided by the evaluator
        both = [h for h in (errs, null) if h is not None]
        want = {n: (min(h[n][0] for h in both), max(h[n][1] for h in both)) for n in box} if both else None
        assert got == want, (text, box)
        apart += errs != null
    assert apart > 5


@pytest.mark.slow
def test_a_join_knows_that_it_is_an_error() -> None:
    tighter = 0
    for text, box in cases(4, 150):
        node, known = read(text, box)
        errs = hulls.hull(text, {n: b for n, b in box.items() if any(c.params[1] == n for c in known)})
        outcome, doms = narrowed(Propagator((node,), known, zero_gives_null=False), known, tuple(known), 600)
        got = None if outcome is Outcome.INFEASIBLE else {c.params[1]: (d.lo, d.hi) for c, d in doms.items()}
        assert got == errs, (text, box)
        outcome, quick = contract_nodes((node,), known, tuple(known))
        wide, loose = Propagator((node,), known).contract(known, tuple(known))
        if errs is None:
            tighter += outcome is Outcome.INFEASIBLE is not wide
            continue
        assert outcome is not Outcome.INFEASIBLE, (text, box)
        for c in known:
            lo, hi = errs[c.params[1]]
            assert loose[c].lo <= quick[c].lo <= lo <= hi <= quick[c].hi <= loose[c].hi, (text, box)
            tighter += (quick[c].lo, quick[c].hi) != (loose[c].lo, loose[c].hi)
    assert tighter > 5


@pytest.mark.parametrize("text, b, want", [
    ("coalesce(a div b, 0) BETWEEN 0 AND 1", (0, 20), (-19, 39)),
    ("coalesce(a % b, 100) = 100", (0, 20), None),
    ("a div b IS NULL", (0, 20), None),
    ("if(a div b > 3, b, a) < -5", (0, 5), (-(1 << 63), -6)),
    ("coalesce(a div b, 0) = 0", (0, 0), None),
])  # fmt: skip
def test_value_in_place_of_a_null_does_not_imply_zero(
    text: str, b: tuple[int, int], want: tuple[int, int] | None
) -> None:
    node, known = read(text, {"a": (-(1 << 63), (1 << 63) - 1), "b": b})
    a = columns_of(node)[0]
    outcome, doms = contract_nodes((node,), known, (a,))
    assert (None if outcome is Outcome.INFEASIBLE else (doms[a].lo, doms[a].hi)) == want
