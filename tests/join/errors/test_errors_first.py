"""Rows sorted along a band's expression, those that raise first: none is refused, lost or invented."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import oracle
import pyarrow as pa
import pytest
from join.tables import rows

from ivjoin import EvaluationError, Order, SymmetricHashJoin
from ivjoin.conditions.evaluate import evaluate
from ivjoin.plan.planner import make_plan
from ivjoin.plan.question import join_spec

Row = tuple[int, int | None, int]

LOW, TOP = -(2**63), 2**63 - 1
SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
EDGES = [LOW, LOW + 1, -(2**62) - 1, -(2**62), -5, 0, 1, 7, 2**62 - 1, 2**62, TOP - 1, TOP]


def fit(x: int) -> int:
    if not LOW <= x <= TOP:
        raise OverflowError
    return x


# Of left a, left b and right a.
CONDITIONS: dict[str, Callable[[int, int, int], bool]] = {
    "l.a + r.a <= 0": lambda a, b, c: fit(a + c) <= 0,
    "l.a + r.a BETWEEN -3 AND 4": lambda a, b, c: -3 <= fit(a + c) <= 4,
    "2 * l.a + r.a <= 5": lambda a, b, c: fit(fit(2 * a) + c) <= 5,
    "l.b - r.a + l.a >= 1": lambda a, b, c: fit(fit(b - c) + a) >= 1,
    "l.a + l.b >= r.a": lambda a, b, c: fit(a + b) >= c,
}


def batch(given: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip("kab", row, strict=True)) for row in given], SCHEMA)


def sorted_join(left: list[Row], right: list[Row], condition: str, how: str, rng: random.Random) -> Iterator[tuple]:
    """As a task on Spark does it: the rows of both sides in one order, without a value first, some at a time."""
    spec = join_spec(SCHEMA, SCHEMA, on="k", condition=condition, how=how)
    term = make_plan(spec).kernel_terms[0]
    tagged = []
    for s, (node, given) in enumerate(((term.left, left), (term.right, right))):
        table = batch(given)
        v = evaluate([node], lambda _, name, t=table: t.column(name), len(given))[0]
        for i, row in enumerate(given):
            absent = (v.error is not None and v.error[i]) or (v.valid is not None and not v.valid[i])
            tagged.append((not absent, 0 if absent else int(v.values[i]), rng.random(), s, row))
    tagged.sort(key=lambda t: t[:3])
    plan = make_plan(spec.with_orders((Order(term.left),), (Order(term.right),), "raise"))
    op = SymmetricHashJoin.from_plan(plan, errors_first=True)
    while tagged:
        n = rng.randint(1, 4)
        part, tagged = tagged[:n], tagged[n:]
        for s, side in enumerate(("left", "right")):
            for b in op.push(side, batch([row for *_, t, row in part if t == s])):
                yield from rows(b)
    for b in op.finish():
        yield from rows(b)


@pytest.mark.one_in(19)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_those_of_a_nested_loop(condition: str, how: str) -> None:
    rng = random.Random(condition + how)
    compared = 0

    def met(x: Row, y: Row) -> bool:
        # what is computed beside a null errs all the same
        return x[0] == y[0] and CONDITIONS[condition](x[1] or 0, x[2], y[1] or 0) and None not in (x[1], y[1])

    for _ in range(30):
        left, right = (
            [(rng.randint(0, 2), rng.choice([*EDGES, None]), rng.choice(EDGES)) for _ in range(rng.randint(1, 4))]
            for _ in (0, 1)
        )
        try:
            want = oracle.join(left, right, how, condition=met, merged=[(0, 0)])
        except OverflowError:
            continue
        compared += 1
        assert sorted(sorted_join(left, right, condition, how, rng), key=str) == sorted(want.elements(), key=str)
    assert compared > 5


def test_error_of_a_row_is_raised_only_for_its_partner() -> None:
    erring, other = (1, TOP, TOP), (1, 3, 3)
    join = partial(sorted_join, condition="l.a + l.b >= r.a", how="full", rng=random.Random(0))
    assert len(list(join([erring], [(2, 3, 3)]))) == 2
    with pytest.raises(EvaluationError, match="overflow"):
        list(join([erring, (1, 0, 0)], [other]))
