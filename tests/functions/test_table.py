"""Every record of an operator is complete and correct: one test over all records of the table."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from evaluating import ERROR, plain
from intervals.values import VALUES, array_of, values_of

from bench.operator_table import NESTED, PAGE, SCHEMA, directions, examples, table
from ivjoin.conditions import scalar
from ivjoin.conditions.evaluate import evaluate
from ivjoin.conditions.text import to_text
from ivjoin.expr import Scope, build, ops
from ivjoin.expr.nodes import Node, columns_of, walk
from ivjoin.expr.types import Type
from ivjoin.functions.records import direction
from ivjoin.functions.records.record import Absent, Operator
from ivjoin.functions.rules.rule import same, strict_unary
from ivjoin.functions.table import (
    FUNCTIONS,
    OPERATORS,
    is_lazy,
    kind_of,
    never_errs,
    passes_nan,
    passes_null,
    skips_null,
)
from ivjoin.propagation import Direction, Dom, Outcome, contract_nodes, forward, frontier, ordering
from ivjoin.separation.linear import Forms

SCOPE = Scope(SCHEMA, SCHEMA)
RECORDS = [pytest.param(o, id=o.name) for o in OPERATORS.values()]
WRITTEN = [pytest.param(o, text, node, id=text) for o in OPERATORS.values() for text, node in examples(o)]
Row = Mapping[Node, Any]


_INNER = [{"w": 0.0}, {"w": -0.0}, {"w": math.nan}, None]
_NESTED: dict[str, list[Any]] = {
    "st": [{"q": q, "name": n, "inner": i} for q in (0, 3, None) for n in ("", "a", None) for i in _INNER] + [None],
    "xs": [[], [0], [3, None], [1, 2, 3], [-1], None], "ss": [[], [""], ["a", None], ["ab", "b"], None],
    "mp": [[], [("a", 1)], None], "md": [(0, 0, 0), (1, -2, 3), (1, -2, 4), None],
}
VALUES |= {str(t): _NESTED[name] for name, t in NESTED.items()}


def rows(node: Node, count: int, seed: object) -> list[dict[Node, Any]]:
    """Rows of the columns that a node reads."""
    rng = random.Random(f"{node} {seed}")
    columns = columns_of(node)
    every = list(itertools.islice(itertools.product(*(values_of(c.type) for c in columns)), 400))
    picked = every if len(every) <= count else [
        tuple(rng.choice(values_of(c.type)) for c in columns) for _ in range(count)
    ]  # fmt: skip
    return [dict(zip(columns, row, strict=True)) for row in picked]


def computed(node: Node, given: list[dict[Node, Any]]) -> list[Any]:
    """The exact value of each row."""
    columns = {f"{c.params[0]} {c.params[1]}": array_of([row[c] for row in given], c.type) for c in columns_of(node)}
    if not columns:
        columns = {"none": pa.nulls(len(given))}
    (vector,) = evaluate([node], lambda side, name: columns[f"{side} {name}"], len(given))
    return plain(vector, node.type, len(given))


def box(row: Row, rng: random.Random) -> dict[Node, Dom]:
    """What might be known of columns: a box that holds the row, tight or wide."""
    out = {}
    for c, v in row.items():
        if c.type.kind == "opaque":
            continue
        way = rng.randrange(4)
        if v is None or v != v:
            out[c] = Dom.top(c.type) if way else Dom.empty(c.type, null=v is None, nan=v is not None)
            continue
        others = [w for w in values_of(c.type) if w is not None and w == w]
        low = v if way in (0, 1) else min(v, rng.choice(others))
        high = v if way in (0, 2) else max(v, rng.choice(others))
        if c.type.kind == "float":
            low, high = low + 0.0, high + 0.0
        out[c] = Dom.of(c.type, low, high, null=way == 3, nan=way == 3)
    return out


@pytest.mark.parametrize("operator", RECORDS)
def test_a_record_is_complete(operator: Operator) -> None:
    seen = examples(operator)
    assert seen or operator.inner, "an operator that can be written needs examples"
    absent = [m.bounds for m in operator.meanings.values() if isinstance(m.bounds, Absent)]
    for value in (operator.direction, operator.linear, operator.sympy, *absent):
        assert not isinstance(value, Absent) or len(value.why) > 10, "an absence needs its reason"
    assert isinstance(operator.sympy, Absent) or operator.build is not None, "SymPy cannot build it"
    assert not operator.infix or operator.build is not None, "SQL cannot build it"
    if not seen:
        return
    for kind, meaning in operator.meanings.items():
        found = [directions(n) for _, n in seen if kind in ("*", kind_of(n))]
        assert found, f"no example over {kind}"
        if isinstance(meaning.bounds, Absent) or not found:
            continue
        for way, why in enumerate((meaning.no_forward, meaning.no_backward)):
            assert any(f[way] for f in found) or why, f"{kind}: no rule {('up', 'down')[way]}, and no reason"
            assert all(f[way] for f in found) or why, f"{kind}: some examples have no rule, and there is no reason"
            assert not all(f[way] for f in found) or not why, f"{kind}: a reason for nothing: {why}"


def test_every_function_makes_what_the_table_knows() -> None:
    assert {n for c in FUNCTIONS.values() for n in c.names} == set(FUNCTIONS)
    assert all(c.least <= c.most for c in FUNCTIONS.values())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("operator, text, node", WRITTEN)
def test_text_reads_back(operator: Operator, text: str, node: Node) -> None:
    if operator.inner:  # written as its argument is: what uses it makes it again
        whole = scalar(text, SCOPE)
        assert scalar(to_text(whole), SCOPE) is whole
        return
    again = scalar(to_text(node), SCOPE)
    assert again.type == node.type
    if again is not node:  # a remainder of decimals is written with a cast to its width
        assert again.op == "cast" and node.type.kind == "decimal"
        given = rows(node, 100, "text")
        assert computed(again, given) == computed(node, given)
    assert scalar(f"({to_text(node)}) IS NULL", SCOPE).args == (again,)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("operator, text, node", WRITTEN)
def test_the_exact_value_lies_inside_the_interval(operator: Operator, text: str, node: Node) -> None:
    given = rows(node, 150, "up")
    rng = random.Random(text)
    tried = 0
    for row, value in zip(given, computed(node, given), strict=True):
        if value is ERROR or node.type.kind == "opaque":
            continue
        tried += 1
        known = box(row, rng)
        dom = forward(node, known)
        assert value in dom, f"{value!r} of {shown(row)} is not in {dom}, from {shown(known)}"
    assert tried or node.type.kind == "opaque"


class Mask(NamedTuple):
    null: bool
    error: bool
    nan: bool


def masks(node: Node, given: list[dict[Node, Any]]) -> list[Mask]:
    """Whether each row is NULL, has an error, and is NaN."""
    columns = {c.params: array_of([row[c] for row in given], c.type) for c in columns_of(node)}
    (v,) = evaluate([node], lambda side, name: columns[side, name], len(given))
    no = [False] * len(given)
    nulls = no if v.valid is None else (~v.valid).tolist()
    errors = no if v.error is None else v.error.tolist()
    nans = np.isnan(v.values).tolist() if node.type.kind == "float" else no
    return [Mask(null, error, nan and not null) for null, error, nan in zip(nulls, errors, nans, strict=True)]


@pytest.mark.parametrize("operator, text, node", WRITTEN)
def test_nulls_nans_and_errors_are_as_the_record_says(operator: Operator, text: str, node: Node) -> None:
    given = rows(node, 120, "nulls")
    for n in walk(node):
        if not n.args:
            continue
        for own, *args in zip(masks(n, given), *(masks(a, given) for a in n.args), strict=True):
            null, errs, nan = (any(x) for x in zip(*args, strict=True))
            if passes_null(n):
                assert own.error >= errs, f"{n} has no error, and an argument has one"
                assert errs or own.error or own.null == null, f"{n} is {'' if own.null else 'not '}NULL for {args}"
            if passes_nan(n) and (nan or null):
                assert any(own), f"{n} has a value for {args}"
            if skips_null(n):
                assert own.error or own.null == all(a.null for a in args), f"{n} is not as it should be for {args}"
            if n.op != ops.ATTEMPT:  # NULL where its last argument has an error
                computed = args[0].error if is_lazy(n) else errs
                assert own.error >= computed, f"{n} has no error, and an argument that it computes has one"
            assert not (never_errs(n) and own.error) or errs, f"{n} has an error of its own"


@pytest.mark.parametrize("operator, text, node", WRITTEN)
def test_the_inverse_keeps_witnesses(operator: Operator, text: str, node: Node) -> None:
    given = rows(node, 60, "down")
    rng = random.Random(text)
    tried = 0
    for row, value in zip(given, computed(node, given), strict=True):
        for condition in conditions(node, value):
            if condition.op == "literal":
                continue
            known = box(row, rng)
            columns = [c for c in columns_of(condition) if c.type.kind != "opaque"]
            outcome, found = contract_nodes([condition], known, columns)
            tried += 1
            assert outcome is not Outcome.INFEASIBLE, f"{condition} holds at {shown(row)}, within {shown(known)}"
            lost = {c: found[c] for c in columns if row[c] not in found[c]}
            assert not lost, f"{condition} holds at {shown(row)}, but left is {shown(lost)} of {shown(known)}"
    assert tried or node.type.kind in ("opaque", "decimal256")


def conditions(node: Node, value: Any) -> list[Node]:
    """Conditions that are TRUE where the node has a value."""
    if value is ERROR or node.type.kind in ("opaque", "decimal256"):
        return []
    if value is None:
        return [build.is_null(node)]
    there = build.literal(value, node.type)
    return [build.eq(node, there), build.le(node, there), build.ge(node, there), build.eq_null_safe(there, node)]


def shown(mapping: Mapping[Node, Any]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in mapping.items())


@pytest.mark.one_in(5)
@pytest.mark.parametrize("operator, text, node", WRITTEN)
def test_the_direction_is_true(operator: Operator, text: str, node: Node) -> None:
    columns = [c for c in columns_of(node) if c.type.is_ordered]
    for signs in itertools.product((Direction.ASCENDING, Direction.DESCENDING), repeat=min(len(columns), 2)):
        orders = dict(zip(columns, signs))
        for known in knowledge(columns):
            found = ordering(node, orders, known)
            if found in (Direction.ASCENDING, Direction.DESCENDING):
                check_order(node, orders, known, found)


def knowledge(columns: list[Node]) -> list[dict[Node, Dom]]:
    """Nothing, or values above zero that are neither NULL nor NaN."""
    firm = {}
    for c in columns:
        if c.type.is_discrete or c.type.kind == "float":
            firm[c] = Dom.of(c.type, 1, None, null=False, nan=False)
        else:
            firm[c] = Dom.of(c.type, null=False)
    return [{}, firm]


def check_order(node: Node, orders: Mapping[Node, Direction], known: Mapping[Node, Dom], found: Direction) -> None:
    rng = random.Random(str(node))
    for _ in range(12):
        sequences: dict[Node, list[Any]] = {}
        for c in columns_of(node):
            values = [v for v in values_of(c.type) if c not in known or v in known[c]]
            picked = [rng.choice(values) for _ in range(12)]
            falls = orders.get(c) is Direction.DESCENDING
            firm = sorted((v for v in picked if v is not None and v == v), reverse=falls)
            following = iter(firm)
            sequences[c] = [v if v is None or v != v else next(following) for v in picked]
        given = [{c: s[i] for c, s in sequences.items()} for i in range(12)]
        values = [v for v in computed(node, given) if v is not ERROR and v is not None and v == v]
        for x, y in itertools.pairwise(values):
            assert x <= y if found is Direction.ASCENDING else x >= y, f"{x} before {y}: {sequences}"


@pytest.mark.parametrize("operator, text, node", WRITTEN)
def test_a_linear_form_is_true(operator: Operator, text: str, node: Node) -> None:
    form = Forms().form(node) if node.type.is_discrete else None
    if form is None or node in form.terms:
        return
    assert isinstance(operator.linear, tuple), "a form that the record does not tell of"
    given = rows(node, 100, "linear")
    terms = {atom: computed(atom, [{c: row[c] for c in columns_of(atom)} for row in given]) for atom in form.terms}
    for i, value in enumerate(computed(node, given)):
        parts = [t[i] for t in terms.values()]
        if value is ERROR or value is None or ERROR in parts or None in parts:
            continue
        total = sum(c * _scaled(t[i], n.type) for (n, t), c in zip(terms.items(), form.terms.values(), strict=True))
        assert form.lo <= _scaled(value, node.type) - total <= form.hi


def _scaled(value: int, t: Type) -> Any:
    return Fraction(value, 10**t.scale) if t.kind == "decimal" else value


def test_the_walk_notices_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is off by one, an order that is turned: each must be seen by the walk."""
    wrong = replace(OPERATORS["sign"].meanings["float"], bounds=lambda p: strict_unary(
        p, lambda x: (0.0, 1.0), None, (-1.0, 1.0)))  # fmt: skip
    node = scalar("sign(l.x)", SCOPE)
    with monkeypatch.context() as m:
        m.setitem(OPERATORS, "sign", replace(OPERATORS["sign"], meanings={"float": wrong}))
        fresh(m)
        with pytest.raises(AssertionError, match="is not in"):
            test_the_exact_value_lies_inside_the_interval(OPERATORS["sign"], "sign(l.x)", node)
    node = scalar("-l.a", SCOPE)
    with monkeypatch.context() as m:
        m.setitem(OPERATORS, "neg", replace(OPERATORS["neg"], direction=direction.rises))
        with pytest.raises(AssertionError, match="before"):
            test_the_direction_is_true(OPERATORS["neg"], "-l.a", node)
    unturned = replace(OPERATORS["neg"].meanings["int"], bounds=same)
    with monkeypatch.context() as m:
        m.setitem(OPERATORS, "neg", replace(OPERATORS["neg"], meanings={"int": unturned}, linear=Absent("left out")))
        fresh(m)
        with pytest.raises(AssertionError):
            test_the_inverse_keeps_witnesses(OPERATORS["neg"], "-l.a", node)


def fresh(m: pytest.MonkeyPatch) -> None:
    """Forget the propagators that were made of the right rules."""
    m.setattr(frontier, "propagator", lru_cache(128)(frontier.propagator.__wrapped__))


@pytest.mark.slow
def test_the_table_needs_no_compiler() -> None:
    code = "import ivjoin.functions.table, sys; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not set(done.stdout.split()) & {"numba", "llvmlite", "sympy", "sqlglot", "pyspark"}


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == table(), "python -m bench.operators --write"
