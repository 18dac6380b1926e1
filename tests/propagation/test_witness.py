"""The main property: whatever the evaluator computes at a point lies in the domain that propagation gives its node.

Made from the point outward (tests/support/witnesses.py). Mutants of the rules, each a mistake that was made somewhere,
must be caught by the same trials.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from weights import examples
from witnesses import ERROR, Witness, described

from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node
from ivjoin.functions.rules import rules_float, rules_integer, rules_truth
from ivjoin.functions.rules.state import Infeasible
from ivjoin.interval import truth
from ivjoin.interval.machine import floats as machine_float
from ivjoin.interval.machine import integers as machine
from ivjoin.propagation import Dom, Outcome, Propagator, contract_nodes, forward
from ivjoin.propagation.search import narrowed


def lost(w: Witness, nodes: Sequence[Node], domains: Sequence[Any]) -> list[str]:
    """Nodes whose value at the point is not in their domain."""
    out = []
    for n, d in zip(nodes, domains, strict=True):
        if n.type.kind in ("null", "opaque"):
            continue
        v, dom = w.value(n), d if isinstance(d, Dom) else Dom(n.type, d)
        if v is not ERROR and v not in dom:
            out.append(f"{n} = {v!r} is not in {dom}")
    return out


def trial(seed: int, effort: int = 0) -> str | None:
    """What went wrong, if anything; every node is looked at, after going up alone and after the fixpoint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w = Witness(random.Random(seed))
        condition = w.true_condition()
        if condition is None or condition.op == "literal":
            return None
        known = w.box()
        p = Propagator([condition])
        bad = lost(w, p.nodes, p.upward(known))
        try:
            bad = bad or lost(w, p.nodes, p.run(known, rounds=6, depth=2).D)
        except Infeasible:
            bad = ["found infeasible"]
        columns = [c for c in w.columns.values() if c in p.index]
        outcome, quick = contract_nodes([condition], known, columns)
        bad = bad or lost(w, columns, list(quick.values())) or (["quick"] if outcome is Outcome.INFEASIBLE else [])
        if effort:
            whole = {c: known.get(c, Dom.top(c.type)) for c in columns}
            outcome, doms = narrowed(p, known | whole, tuple(columns), effort)
            bad = bad or lost(w, columns, list(doms.values())) or (["search"] if outcome is Outcome.INFEASIBLE else [])
    return f"{bad}\n in {described(w, condition, known)}" if bad else None


@given(st.integers(0, 2**40))
@examples()
def test_no_value_is_lost(seed: int) -> None:
    assert trial(seed) is None, trial(seed)


@given(st.integers(0, 2**40))
@example(seed=69328)  # a point in the middle of all doubles
@examples(0.5)
def test_no_value_is_lost_by_search(seed: int) -> None:
    assert trial(seed, 60) is None, trial(seed, 60)


@given(st.integers(0, 2**40))
@examples()
def test_a_larger_box_gives_no_smaller_result(seed: int) -> None:
    """Going up is monotone in what is known."""
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w = Witness(rng)
        try:
            e = w.anything(3)
        except IvjoinError:
            return
        if e.op == "literal" or e.type.kind in ("opaque", "null"):
            return
        row = {w.columns[n]: v for n, v in w.row.items() if v is not None and v == v}
        small = {c: Dom.of(c.type, v, v, null=False) for c, v in row.items()}
        a, b = forward(e, small), forward(e, {})
        assert b.may_null or not a.may_null
        assert b.may_nan or not a.may_nan
        for end in () if a.is_empty else (a.lo, a.hi):
            assert end is None or end in b


# Mistakes that were made somewhere: each must be noticed.


def _inverse_of_real_sum(f: Any, z: Any, b: Any, x: Any) -> Any:
    return machine_float.meet((z[0] - b[1] if z[0] - b[1] == z[0] - b[1] else x[0], x[1]), x)


MUTANTS = [
    pytest.param(machine, "div_rev_dividend", lambda q, b, x: machine.meet(machine.mul(q, b), x), id="div by mul"),
    pytest.param(machine, "mod", lambda a, b: (0, max(0, max(-b[0], b[1]) - 1)), id="mod as Euclid has it"),
    pytest.param(machine, "abs_rev", lambda z, x: machine.meet(z, x), id="abs of positive numbers only"),
    pytest.param(machine, "mul_rev", lambda z, b, x: machine.meet((z[0] // 2, z[1] // 2), x), id="mul inward"),
    pytest.param(machine_float, "add_rev", _inverse_of_real_sum, id="inverse of the real sum"),
    pytest.param(machine_float, "add_nan", lambda a, b: False, id="inf - inf forgotten"),
    pytest.param(truth, "not_", lambda a: a, id="NOT ignored"),
    pytest.param(truth, "or_", lambda args: truth.and_(args), id="OR as AND"),
]


@pytest.mark.slow
@pytest.mark.parametrize("module, name, wrong", MUTANTS)
def test_mutants_are_caught(module: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(module, name)
    monkeypatch.setattr(module, name, wrong)
    # Tables that took the function when they were made.
    for rules in (rules_integer, rules_float, rules_truth):
        for attribute, value in vars(rules).copy().items():
            if value is right:
                monkeypatch.setattr(rules, attribute, wrong)
    caught = 0
    for seed in range(4000):
        try:
            caught += trial(seed) is not None
        except (IvjoinError, ArithmeticError, AssertionError, TypeError, IndexError):
            caught += 1
        if caught:
            return
    pytest.fail("the trials do not notice this mistake")
